"""Kashin's representation of a vector's chunks: how they are spread and rounded."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

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
    frame_of = cache(lambda number: RandomFrame(seed, number, layout))
    section: list[bytes | memoryview] = []
    magnitudes, frames = np.empty(layout.chunks, np.float32), np.empty(layout.chunks, np.uint32)
    together = GROUP // layout.order
    for first in range(0, layout.chunks, together):
        rows = slice(first, min(first + together, layout.chunks))
        entries = y[first * layout.length : rows.stop * layout.length]
        chunks = kernels.in_rows(entries, rows.stop - first, layout.length)
        goals = np.sqrt(spread_squared * kernels.bucket_squares(chunks, layout.length)).astype(np.float32)
        found = _in_frames(chunks, layout, goals, frame_of)
        if found is None:
            return None
        p, magnitudes[rows], frames[rows] = found
        section += kernels.encode_coefficients(p, magnitudes[rows], levels, rng.seed, first * layout.order)
    return Spread(section, magnitudes, frames)


def _in_frames(
    chunks: Vector, layout: Layout, goals: Floats, frame_of: Callable[[int], RandomFrame]
) -> tuple[Vector, Floats, npt.NDArray[np.uint32]] | None:
    """Each chunk's coefficients in the first frame that keeps them within its goal, the largest, and that frame."""
    magnitudes, frames = np.empty(len(goals), np.float32), np.zeros(len(goals), np.uint32)
    found, left = None, np.arange(len(goals))
    for number in range(ATTEMPTS):
        frame = frame_of(number)
        some = chunks if found is None else kernels.take_rows(chunks, layout.length, left)
        p, magnitudes[left] = kernels.represent(some, frame.positions, frame.signs, layout.log2, goals[left], ROUNDS)
        frames[left] = number
        if found is None:
            found = p
        else:
            kernels.put_rows(found, layout.order, left, p)
        left = np.flatnonzero(magnitudes > goals)
        if not len(left):
            return found, magnitudes, frames
    return None
