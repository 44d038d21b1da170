"""Floats that a message holds in 16 bits."""

from typing import NamedTuple

from gradwire.kernels import backends
from gradwire.kernels.backends import Vector

__all__ = ["Rounded"]


class Rounded(NamedTuple):
    """Floats that become 16-bit numbers as :func:`gradwire.kernels.seal` writes them: they must not change before.

    Attributes:
        x: float32 (n,).
        exponent: e for x·2^−e as binary16, nearest even, magnitudes above 65504 become 65504; None for x as bfloat16,
            nearest even, saturating.
    """

    x: Vector
    exponent: int | None

    def written(self) -> memoryview:
        """The bytes, now."""
        works = backends.of(self.x)
        halves = works.encode_bfloat16(self.x) if self.exponent is None else works.encode_float16(self.x, self.exponent)
        return memoryview(halves.astype("<u2", copy=False).data)
