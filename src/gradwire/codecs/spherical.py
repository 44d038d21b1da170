"""Spherical Compression: each block is sent as the number of a random point of the sphere that is near it."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.identity import check_finite
from gradwire.errors import ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer

__all__ = ["Spherical", "about_draws", "automatic_block"]

LONGEST = 256
USUAL_DRAWS = 2048
ESCAPE = (64, 40)  # a quotient of so much is followed by so many bits


@dataclass(frozen=True)
class Spherical(Codec):
    """Blocks as numbers of random points: mean bits within 1.6 a block, and its norm, of the least there can be.

    Definition: the vector is cut into blocks of ``block`` entries, or fewer by one. For a block in the direction u,
    ‖u‖ = 1, points x¹, x², … are drawn on the sphere of radius √(1 − α) until ‖x^T − u‖² ≤ α; T is sent, and a gain.
    The receiver draws x^T itself, from the message's seed.

    Guarantee: strictly contractive with α, on every block and every finite x, for gains are chosen such that the error
    of the very float32 numbers that will be decoded is within it. Mean bits of T: at most −log2 P + 1.6, P the
    probability of a cap (:func:`gradwire.theory.log2_cap_probability`).

    Args:
        alpha: α, 2^−12 … 0.999.
        block: entries of a block, 1 … 256; 0 takes the most for which about 2048 draws are due.
        budget: the most products, n/P, that a search may be expected to take.

    Raises:
        ParameterError: a parameter is out of range, or the search would pass the budget: its message names a block.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.random.default_rng(0).standard_normal(9_600).astype(np.float32)
        >>> message = gradwire.encode(Spherical(alpha=0.5, block=16), x, 0)
        >>> y = gradwire.decode(message, 9_600)
        >>> bool(((x - y) ** 2).sum() <= 0.5 * (x ** 2).sum()), round(8 * len(message) / 9_600, 1)
        (True, 0.9)

    Source: Albasyoni, Safaryan, Condat, Richtárik, "Optimal Gradient Compression for Distributed and Federated
    Learning", arXiv 2010.03246, section 4; docs/wire-format.md, section 7.12.
    Differs: blocks, and the rounding of their norms, are not in the paper. Points come in opposite pairs, and all
    blocks of a message share them, each up to its own random signs; docs/codecs/spherical.md tells why the theorem
    stays.
    """

    code: ClassVar[int] = 14
    name: ClassVar[str] = "spherical"

    alpha: float
    block: int = 0
    budget: int = 2**36

    def __post_init__(self) -> None:
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float) or not 2**-12 <= self.alpha <= 0.999:
            raise ParameterError(f"alpha = {self.alpha!r} must lie in 2^-12 … 0.999: give a share of error such as 0.1")
        for name, least, most in (("block", 0, LONGEST), ("budget", 1, 2**63)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ParameterError(f"{name} = {value!r} must be an integer in {least} … {most}")

    def blocks(self, n: int) -> int:
        """How many blocks n entries make."""
        return -(-n // (self.block or automatic_block(self.alpha)))

    def check(self, n: int) -> None:
        if n == 0:
            return
        longest = -(-n // self.blocks(n))
        if n * about_draws(self.alpha, longest) <= self.budget:
            return
        fitting = [d for d in range(1, longest) if n * about_draws(self.alpha, d) <= self.budget]
        advice = f"take block = {fitting[-1]}" if fitting else "split the vector, or raise the budget"
        draws = about_draws(self.alpha, longest)
        raise ParameterError(
            f"a search at alpha = {self.alpha} in blocks of {longest} takes about {draws:.2g} draws for each, "
            f"{n * draws:.2g} products for {n} entries, more than the budget of {self.budget:.2g}: {advice}"
        )

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        n = len(x)
        check_finite(x)
        self.check(n)
        if kernels.max_abs(x) == 0.0:
            writer.varint(0)
            return
        m = self.blocks(n)
        seed = rng.child(0).seed % (1 << (14 if m < 64 else 28))
        draws = about_draws(self.alpha, -(-n // m))
        pair_limit = 256
        while pair_limit < min(32 * draws, 2.0**39):
            pair_limit *= 2
        found = kernels.spherical_search(x, m, float(self.alpha), seed, pair_limit)
        writer.varint(self.block or automatic_block(self.alpha))
        writer.varint(seed)
        for piece in kernels.encode_spherical(x, found):
            writer.raw(piece)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        n, block = len(out), reader.varint(LONGEST)
        if block == 0:
            reader.end()
            return
        seed = reader.varint()
        found, used = kernels.decode_spherical(reader.data[reader.position :], n, -(-n // block))
        reader.take(used)
        reader.end()
        kernels.add_spherical(found, seed, out, weight)

    def guarantee(self, n: int) -> Guarantee:
        self.check(n)
        m = self.blocks(n)
        # Bits of a block: the mark that it is not zero; its norm, the level and the mantissa of its gain, its point,
        # all at their longest; or a norm of 5, a level of 22 and its entries. A block of zeros has 3.
        longest = 1 + max(23 + 21 + 22 + sum(ESCAPE), 5 + 22 + 32 * -(-n // m))
        size = HEADER_BYTES_MAX + 2 + 4 + 2 + (m * longest + 7) // 8 + 2 * (m // 2**20 + 1)
        return Guarantee(unbiased=False, error=float(self.alpha), strict=True, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        block = reader.varint(LONGEST)
        if block == 0:
            return {"zero": True}
        m = -(-reader.n // block)
        described: dict[str, Any] = {"block": block, "blocks": m, "seed": reader.varint()}
        start = reader.data[reader.position :]
        found, used = kernels.decode_spherical(start, reader.n, m)
        gain = found.gain
        r, searched = start[0] & 31, found.index[gain > 0]
        quotients = searched >> np.uint64(r)
        index_bits = int(np.where(quotients < ESCAPE[0], quotients + np.uint64(1 + r), np.uint64(sum(ESCAPE))).sum())
        return described | {
            "searched": len(searched),
            "zeros": int((gain == 0).sum()),
            "raw": int((gain < 0).sum()),
            "mean_draws": float(searched.mean()) + 1 if len(searched) else None,
            "index_bits": index_bits,
            "other_bits": 8 * used - index_bits,
        }


@lru_cache
def about_draws(alpha: float, d: int) -> float:
    """About 1/P(α, d): √(2πd(1 − α)·α^{1−d}), at least 2; between 0.6 and 1.2 of it.

    Of operations that every machine rounds alike: it decides bytes, through the limit of the search.
    """
    power = 1.0
    for _ in range(d - 1):
        power /= alpha
    return max(2.0, math.sqrt(2.0 * math.pi * d * (1.0 - alpha) * power))


@lru_cache
def automatic_block(alpha: float) -> int:
    """The longest block for which about 2048 draws are due, at most 256."""
    block = 1
    while block < LONGEST and about_draws(alpha, block + 1) <= USUAL_DRAWS:
        block += 1
    return block
