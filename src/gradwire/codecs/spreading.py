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


GROUP = 2**22
"""Coefficients that are at hand at once: whole blocks of the integers section."""


@dataclass(frozen=True)
class Spread:
    """What a vector's chunks become.

    Attributes:
        section: the integers section of all coefficients, rounded, in pieces.
        magnitudes: each chunk's largest coefficient: float32 (chunks,).
        frames: the number of each chunk's frame: uint32 (chunks,).
    """

    section: list[bytes | memoryview]
    magnitudes: Floats
    frames: npt.NDArray[np.uint32]

    def steps(self, layout: Layout, levels: int) -> Floats:
        """What the receiver multiplies sums of odd integers up to levels − 1 by: float32 (chunks,)."""
        steps: Floats = (self.magnitudes / (float(levels - 1) * layout.order)).astype(np.float32)
        return steps


def spread(y: Vector, layout: Layout, seed: int, spread_squared: float, levels: int, rng: Rng) -> Spread | None:
    """Coefficients within K times each chunk's norm, K² = ``spread_squared``, rounded at random to 0 … levels − 1.

    None if a chunk has no frame for that. Some chunks at a time: a vector's coefficients take several times its memory.
    """
    frames: list[RandomFrame] = []
    section: list[bytes | memoryview] = []
    magnitudes, numbers = np.empty(layout.chunks, np.float32), np.zeros(layout.chunks, np.uint32)
    together = GROUP // layout.order
    for first in range(0, layout.chunks, together):
        rows = slice(first, min(first + together, layout.chunks))
        count = rows.stop - first
        chunks = kernels.in_rows(y[first * layout.length : rows.stop * layout.length], count, layout.length)
        goals = np.sqrt(spread_squared * kernels.bucket_squares(chunks, layout.length)).astype(np.float32)
        found, left = None, np.arange(count)
        for number in range(ATTEMPTS):
            if number == len(frames):
                frames.append(RandomFrame(seed, number, layout))
            frame = frames[number]
            some = chunks if found is None else kernels.take_rows(chunks, layout.length, left)
            p, most = kernels.represent(some, frame.positions, frame.signs, layout.log2, goals[left], ROUNDS)
            if found is None:
                found = p
            else:
                kernels.put_rows(found, layout.order, left, p)
            magnitudes[first + left], numbers[first + left] = most, number
            left = np.flatnonzero(magnitudes[rows] > goals)
            if not len(left):
                break
        if found is None or len(left):
            return None
        section += kernels.encode_coefficients(found, magnitudes[rows], levels, rng.seed, first * layout.order)
    return Spread(section, magnitudes, numbers)
