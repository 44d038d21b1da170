"""Uniform quantisation, and sums in the order that the wire format pins (4.6, 7.4)."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.random import uniform
from gradwire.kernels.reference.values import max_abs

__all__ = ["extent", "level_sums", "quantise", "sum_abs", "sum_squares"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

BLOCK = 2**20
LANES = 16
MOST = np.float32(2**22)


def ordered_sum(terms: npt.NDArray[np.float64]) -> float:
    """The sum of binary64 terms: 16 partial sums a block of 2^20, folded in halves; blocks in order."""
    total = 0.0
    for begin in range(0, len(terms), BLOCK):
        block = terms[begin : begin + BLOCK]
        rows = np.zeros((-(-len(block) // LANES), LANES))
        rows.reshape(-1)[: len(block)] = block
        # add.accumulate goes row by row, as the definition does; add.reduce would be free to pair.
        s = np.add.accumulate(rows, axis=0)[-1]
        while len(s) > 1:
            s = s[: len(s) // 2] + s[len(s) // 2 :]
        total += float(s[0])
    return total


def extent(x: Floats) -> tuple[float, float]:
    """max |x_i| and Σ x_i²."""
    return max_abs(x), sum_squares(x)


def sum_squares(x: Floats) -> float:
    """Σ x_i²."""
    return ordered_sum(x.astype(np.float64) ** 2)


def sum_abs(x: Floats) -> float:
    """Σ |x_i|."""
    return ordered_sum(np.abs(x).astype(np.float64))


def level_sums(x: Floats, inverse: float) -> tuple[float, float, int]:
    """Σ x·k, Σ k² and the number of k that are not 0, with k = round(x·inverse)."""
    k = np.rint(_scaled(x, inverse)).astype(np.float64)
    return ordered_sum(x * k), ordered_sum(k * k), int(np.count_nonzero(k))


def quantise(x: Floats, inverse: float, rounding: int, seed: int, stream: int) -> Words:
    """Zigzag levels: nearest (0), stochastic (1), with shared dither (2)."""
    t = _scaled(x, inverse)
    if rounding == 0:
        k = np.rint(t)
    else:
        u = uniform(seed, stream, 0, len(x))
        below = np.floor(t)
        k = below + (u < t - below if rounding == 1 else np.rint((t - below) + (u - np.float32(0.5))))
    v = k.astype(np.int32)
    return ((v << 1) ^ (v >> 31)).astype(np.uint32)


def _scaled(x: Floats, inverse: float) -> Floats:
    with np.errstate(over="ignore"):
        scaled: Floats = x * np.float32(inverse)
    return np.clip(scaled, -MOST, MOST)
