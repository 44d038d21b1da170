"""Natural compression: each entry becomes one of the two powers of two around it."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.identity import check_finite
from gradwire.codecs.powers import add_powers, powers_section
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer
from gradwire.wire.lengths import levels_bytes

__all__ = ["NaturalCompression"]

LOWEST, HIGHEST = -149, 128
"""Exponents: of the smallest binary32, and of what the largest ones may be rounded up to."""


@dataclass(frozen=True)
class NaturalCompression(Codec):
    """A random power of two: one of the two around each entry.

    Definition: |x_i| = 2^e(1 + f), 0 ≤ f < 1, becomes 2^(e+1) with probability f, else 2^e; signs and zeros stay. No
    division, no norm. 2^128 is no binary32: the receiver takes the largest one, 2^−24 less.

    Guarantee: unbiased, ω = 1/8, attained at f = 1/3; denormals included. f is a multiple of 2^−23, and so is the
    probability, exactly.
    Bits: at most 9 an entry where no denormals are sent, and the entropy of the exponents with signs: 3.6 for a
    Gaussian.

    Raises:
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([0.5, -3.0, 0.0], np.float32)
        >>> gradwire.decode(gradwire.encode(NaturalCompression(), x, 0), 3).tolist() in ([0.5, -2, 0], [0.5, -4, 0])
        True

    Source: Horváth, Ho, Horváth, Sahu, Canini, Richtárik, "Natural compression for distributed deep learning", arXiv
    1905.10988, section 2. Differs: exponents are entropy-coded; denormals are rounded like all others.
    """

    code: ClassVar[int] = 9
    name: ClassVar[str] = "natural"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        largest = kernels.max_abs(x)
        if not math.isfinite(largest):
            check_finite(x)
        section, top = powers_section(x, 1.0, LOWEST, rng.child(0).seed, largest)
        writer.varint(top - LOWEST)
        writer.append(section)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        top = _read_top(reader)
        add_powers(reader, out, 1.0, top, top - LOWEST + 1, weight)

    def guarantee(self, n: int) -> Guarantee:
        size = HEADER_BYTES_MAX + 2 + levels_bytes(n, HIGHEST - LOWEST + 1)
        return Guarantee(unbiased=True, error=0.125, strict=False, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        return {"largest_exponent": _read_top(reader), "level_bytes": reader.rest}


def _read_top(reader: Reader) -> int:
    return reader.varint(HIGHEST - LOWEST) + LOWEST
