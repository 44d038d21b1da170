"""Updates as integers whose sum is that of the updates: secure aggregation adds them without seeing any of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gradwire
from gradwire.codecs.arrays import as_input
from gradwire.codecs.base import count_of
from gradwire.errors import InputError, ParameterError

__all__ = ["AdditiveIntegers"]

WIDTHS: dict[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""Bits of an integer and the type that wraps around at 2^bits by itself."""

LEVELS_MAX = 2**23
"""Above it, levels are finer than float32 is."""


@dataclass(frozen=True)
class AdditiveIntegers:
    """A quantiser that all clients of a round share, so that integers, masked or not, can be summed mod 2^bits.

    Definition: the m = share·n coordinates S that all clients send are drawn from the round's seed. A client sends
    q_i = clip(⌊x_i/step + U_i⌋, −levels, levels) mod 2^bits, U uniform in [0, 1), for i in S. The sum of at most
    ``clients`` of them, read as a signed number, times ``step``, is the sum of the clients' C(x); other coordinates
    are 0. Without clipping E C(x) = x on S.

    The overflow budget is checked when the object is made, so before any round: clients·(2·levels + 1) ≤ 2^bits.

    With weights, let each client scale its update by its weight over the largest weight allowed, and send that scaled
    weight as one more entry; clipping and unsent coordinates are for the client's residual:
    x − ``mean(encode(x, …), 1, …)``.

    Args:
        step: what a unit of the integers is worth; the same at all clients.
        levels: largest magnitude of an integer; a value beyond step·levels is clipped.
        clients: most integers that are summed.
        bits: 8, 16, 32 or 64: of each integer on the wire, and of the modulus.
        share: of the coordinates that are sent, (0, 1], or a count.

    Raises:
        ParameterError: out of range, or over the budget; the message says what to change, and to what.

    Example:
        >>> code = AdditiveIntegers.fitted(largest=1.0, clients=3, bits=16)
        >>> code.levels
        10922
        >>> xs = [np.array([0.5, -0.25], np.float32), np.array([-1.0, 0.25], np.float32)]
        >>> total = sum(code.encode(x, seed=1, rng=i) for i, x in enumerate(xs))  # wraps around
        >>> code.mean(total, 2, n=2, seed=1).round(3).tolist()
        [-0.25, 0.0]

    Source: Bonawitz et al., "Practical Secure Aggregation", CCS 2017; unbiased rounding: Alistarh et al., QSGD,
    NeurIPS 2017.
    """

    step: float
    levels: int
    clients: int
    bits: int = 32
    share: int | float = 1.0

    def __post_init__(self) -> None:
        if self.bits not in WIDTHS:
            raise ParameterError(f"bits = {self.bits}: give one of {', '.join(map(str, WIDTHS))}")
        if not (0.0 < self.step < math.inf):
            raise ParameterError(f"step = {self.step} must be positive and finite")
        for name, value, most in (("levels", self.levels, LEVELS_MAX), ("clients", self.clients, 2**32)):
            if not 1 <= value <= most:
                raise ParameterError(f"{name} = {value} must lie in 1 … {most}")
        needed = self.clients * (2 * self.levels + 1)
        if needed > 2**self.bits:
            wide = [bits for bits in WIDTHS if needed <= 2**bits]
            most = (2**self.bits // self.clients - 1) // 2
            ways = [f"raise bits to {wide[0]}"] if wide else []
            ways += [f"lower levels to {most}"] if most >= 1 else []
            ways += (
                [f"lower clients to {2**self.bits // (2 * self.levels + 1)}"] if 2 * self.levels < 2**self.bits else []
            )
            raise ParameterError(
                f"{self.clients} clients × {2 * self.levels + 1} levels = {needed} would overflow 2^{self.bits}: "
                + ", or ".join(ways)
            )

    @staticmethod
    def fitted(largest: float, clients: int, bits: int = 32, share: int | float = 1.0) -> AdditiveIntegers:
        """The finest that the budget allows for values of magnitude up to ``largest``.

        Raises:
            ParameterError: bits are too few for so many clients.
        """
        if bits not in WIDTHS:
            raise ParameterError(f"bits = {bits}: give one of {', '.join(map(str, WIDTHS))}")
        levels = max(1, min(LEVELS_MAX, (2**bits // max(1, clients) - 1) // 2))
        return AdditiveIntegers(largest / levels, levels, clients, bits, share)

    def encode(self, x: Any, seed: int, rng: gradwire.Rng | int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """A client's integers.

        Args:
            x: (n,) finite vector, as for gradwire.encode.
            seed: of the round, the same at all clients: it chooses the coordinates.
            rng: the client's own, for the rounding.

        Returns:
            Integers (m,) mod 2^bits; add masks mod 2^bits, and they are hidden.

        Raises:
            InputError: x is not finite.
        """
        values = as_input(x)
        if not np.isfinite(values).all():
            raise InputError("x has NaN or infinity: skip this round")
        values = values[self._chosen(len(values), seed)]
        generator = gradwire.Rng(rng) if isinstance(rng, int) else rng
        scaled = values.astype(np.float64) / self.step
        levels = np.clip(np.floor(scaled + generator.uniform(len(values))), -self.levels, self.levels)
        return levels.astype(np.int64).astype(WIDTHS[self.bits])

    def mean(
        self, total: npt.NDArray[np.unsignedinteger[Any]], count: int, n: int, seed: int
    ) -> npt.NDArray[np.float32]:
        """The mean of the clients' C(x): float32 (n,).

        Args:
            total: the sum of the integers mod 2^bits, masks cancelled.
            count: of how many clients.
            n: entries of the vector.
            seed: the round's.

        Raises:
            InputError: another length or dtype, more clients than the budget is for, or a sum that so many clients
                cannot have: masks that did not cancel.
        """
        chosen = self._chosen(n, seed)
        if not 1 <= count <= self.clients:
            raise InputError(f"{count} clients were summed where clients = {self.clients} is the budget: raise clients")
        if total.dtype != WIDTHS[self.bits] or total.shape != chosen.shape:
            raise InputError(
                f"the sum is {total.dtype} {total.shape} where {WIDTHS[self.bits].__name__} {chosen.shape} is due"
            )
        signed = total.view(np.dtype(f"int{self.bits}")).astype(np.int64)
        if signed.size and int(np.abs(signed).max()) > count * self.levels:
            raise InputError("the sum is larger than the clients' integers can be: the masks have not cancelled")
        out = np.zeros(n, np.float32)
        out[chosen] = signed * (self.step / count)
        return out

    def _chosen(self, n: int, seed: int) -> npt.NDArray[np.uint32]:
        return gradwire.Rng(seed).subset(n, count_of(self.share, n, "share"))
