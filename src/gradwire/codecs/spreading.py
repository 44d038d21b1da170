"""Kashin's representation of a vector's chunks: how they are spread, rounded and put together again."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.base import Floats
from gradwire.codecs.frames import Layout, RandomFrame
from gradwire.rng import Rng

__all__ = ["ATTEMPTS", "Spread", "gathered", "spread"]

ATTEMPTS = 16
"""Frames that are tried for a chunk."""

ROUNDS = 24
"""Of the iteration that spreads a chunk, for each frame."""


@dataclass(frozen=True)
class Spread:
    """Every chunk's coefficients, float32 (chunks, N), their largest magnitude, and the number of its frame."""

    coefficients: Floats
    magnitudes: Floats
    frames: npt.NDArray[np.uint32]

    def steps(self, levels: int) -> Floats:
        """What the receiver multiplies sums of odd integers up to levels − 1 by: float32 (chunks,)."""
        steps: Floats = (self.magnitudes / (float(levels - 1) * self.coefficients.shape[1])).astype(np.float32)
        return steps

    def rounded(self, levels: int, rng: Rng) -> npt.NDArray[np.uint32]:
        """The levels 0 … levels − 1 of all coefficients, rounded at random: uint32 (chunks·N,)."""
        half = np.float32((levels - 1) / 2)
        scale = np.where(self.magnitudes == 0, np.float32(1), self.magnitudes).astype(np.float32, copy=False)
        t: Floats = self.coefficients / scale[:, None] * half + half
        t[self.magnitudes == 0] = 0
        return kernels.quantise(t.reshape(-1), 1.0, kernels.STOCHASTIC, rng.seed, 0) >> np.uint32(1)


def spread(y: Floats, layout: Layout, seed: int, spread_squared: float) -> Spread | None:
    """Coefficients within K times each chunk's norm, K² = ``spread_squared``; None if a chunk has no frame for that."""
    chunks = np.zeros((layout.chunks, layout.length), np.float32)
    chunks.reshape(-1)[: len(y)] = y
    energies = kernels.bucket_squares(chunks.reshape(-1), layout.length)
    goals = np.sqrt(spread_squared * energies).astype(np.float32)
    coefficients = np.empty((layout.chunks, layout.order), np.float32)
    magnitudes = np.empty(layout.chunks, np.float32)
    frames = np.zeros(layout.chunks, np.uint32)
    left = np.arange(layout.chunks)
    for number in range(ATTEMPTS):
        frame = RandomFrame(seed, number, layout)
        vectors = chunks[left].reshape(-1)
        p, most = kernels.represent(vectors, frame.positions, frame.signs, layout.log2, goals[left], ROUNDS)
        coefficients[left], magnitudes[left], frames[left] = p.reshape(-1, layout.order), most, number
        left = left[most > goals[left]]
        if not len(left):
            return Spread(coefficients, magnitudes, frames)
    return None


def gathered(
    numbers: npt.NDArray[np.uint32], levels: int, frames: npt.NDArray[np.uint32], layout: Layout, seed: int
) -> Floats:
    """The chunks that rounded coefficients stand for, without their steps: float32 (chunks, length)."""
    # Integers below 2^24 all the way: the transform is exact.
    odd = 2.0 * numbers.astype(np.float32) - np.float32(levels - 1)
    sums = kernels.hadamard(odd, layout.log2).reshape(layout.chunks, layout.order)
    values = np.empty((layout.chunks, layout.length), np.float32)
    for number in np.unique(frames):
        frame, rows = RandomFrame(seed, int(number), layout), frames == number
        values[rows] = sums[rows][:, frame.positions] * frame.signs
    return values
