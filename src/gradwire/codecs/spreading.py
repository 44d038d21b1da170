"""Kashin's representation of a vector's chunks: how they are spread and rounded."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.base import Floats
from gradwire.codecs.frames import Layout, RandomFrame
from gradwire.kernels import Vector
from gradwire.rng import Rng

__all__ = ["ATTEMPTS", "Spread", "spread"]

ATTEMPTS = 16
"""Frames that are tried for a chunk."""

ROUNDS = 24
"""Of the iteration that spreads a chunk, for each frame."""


@dataclass(frozen=True)
class Spread:
    """Every chunk's coefficients, float32 (chunks·N,), their largest magnitude, and the number of its frame."""

    coefficients: Vector
    magnitudes: Floats
    frames: npt.NDArray[np.uint32]

    @property
    def order(self) -> int:
        """N, the number of a chunk's coefficients."""
        return len(self.coefficients) // len(self.magnitudes)

    def steps(self, levels: int) -> Floats:
        """What the receiver multiplies sums of odd integers up to levels − 1 by: float32 (chunks,)."""
        steps: Floats = (self.magnitudes / (float(levels - 1) * self.order)).astype(np.float32)
        return steps

    def rounded(self, levels: int, rng: Rng) -> list[bytes | memoryview]:
        """The integers section of all coefficients, rounded at random to 0 … levels − 1, in pieces."""
        return kernels.encode_coefficients(self.coefficients, self.magnitudes, levels, rng.seed)


def spread(y: Vector, layout: Layout, seed: int, spread_squared: float) -> Spread | None:
    """Coefficients within K times each chunk's norm, K² = ``spread_squared``; None if a chunk has no frame for that."""
    chunks = kernels.in_rows(y, layout.chunks, layout.length)
    goals = np.sqrt(spread_squared * kernels.bucket_squares(chunks, layout.length)).astype(np.float32)
    found, left = None, np.arange(layout.chunks)
    for number in range(ATTEMPTS):
        frame = RandomFrame(seed, number, layout)
        some = kernels.take_rows(chunks, layout.length, left) if found else chunks
        p, most = kernels.represent(some, frame.positions, frame.signs, layout.log2, goals[left], ROUNDS)
        if found is None:
            found = Spread(p, most, np.zeros(layout.chunks, np.uint32))
        else:
            kernels.put_rows(found.coefficients, layout.order, left, p)
            found.magnitudes[left], found.frames[left] = most, number
        left = np.flatnonzero(found.magnitudes > goals)
        if not len(left):
            return found
    return None
