"""Levels of a vector, and what their steps are chosen by (wire format 4.6, 7.4)."""

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradwire.kernels import backends
from gradwire.kernels.torch_ops.crossing import CHUNK, down, numbers_down, up
from gradwire.kernels.torch_ops.random import uniform
from gradwire.kernels.torch_ops.sums import bucket_sums, ordered_sum

__all__ = [
    "bucket_squares",
    "divided",
    "encode_levels",
    "encode_summed_levels",
    "extent",
    "find_nonfinite",
    "level_sums",
    "max_abs",
    "quantise",
    "rounded",
    "scaled",
    "sum_abs",
    "sum_squares",
    "thinned",
]

Words = npt.NDArray[np.uint32]

MOST = 2.0**22


def find_nonfinite(x: Tensor) -> int:
    """Index of the first NaN or infinity, −1 if there is none."""
    bad = torch.nonzero(~torch.isfinite(x)).view(-1)
    return int(bad[0]) if len(bad) else -1


def max_abs(x: Tensor) -> float:
    """The largest magnitude, NaN if x has one; 0 for an empty vector."""
    return float(x.abs().max()) if len(x) else 0.0


def extent(x: Tensor) -> tuple[float, float]:
    """max |x_i| and Σ x_i², which is NaN unless x is finite."""
    largest = max_abs(x)
    return largest, sum_squares(x) if math.isfinite(largest) else math.nan


def sum_squares(x: Tensor) -> float:
    """Σ x_i²."""
    return ordered_sum(x, _square)


def bucket_squares(x: Tensor, bucket: int) -> npt.NDArray[np.float64]:
    """Σ x_i² of each run of ``bucket`` entries: float64 (⌈n/bucket⌉,)."""
    return bucket_sums(x, bucket, _square)


def sum_abs(x: Tensor) -> float:
    """Σ |x_i|."""
    return ordered_sum(x, lambda entries: entries.to(torch.float64).abs())


def level_sums(x: Tensor, inverse: float) -> tuple[float, float, int]:
    """Σ x·k, Σ k² and the number of k that are not 0, with k = round(x·inverse)."""

    def levels(entries: Tensor) -> Tensor:
        return _steps(entries, inverse).round().to(torch.float64)

    products = ordered_sum(x, lambda entries: entries.to(torch.float64) * levels(entries))
    largest, squares, nonzero = 0, 0, 0
    for begin in range(0, len(x), CHUNK):
        k = levels(x[begin : begin + CHUNK]).to(torch.int64)
        found = torch.stack([k.abs().max(), (k * k).sum(), torch.count_nonzero(k)])
        most, some, count = down(found).tolist()
        largest, squares, nonzero = max(largest, most), squares + some, nonzero + count
    # Integers have one sum, whatever the order, if binary64 holds it; and these did not pass 2^63 on the way to it.
    if largest <= 2**20 and squares < 2**53:
        return products, float(squares), nonzero
    return products, ordered_sum(x, lambda entries: _square(levels(entries))), nonzero


def quantise(x: Tensor, inverse: float, rounding: int, seed: int, stream: int) -> Words:
    """Zigzag levels: nearest (0), stochastic (1), with shared dither (2); on the host."""
    out = np.empty(len(x), np.uint32)
    for begin in range(0, len(x), CHUNK):
        chunk = _zigzag_levels(x[begin : begin + CHUNK], inverse, rounding, seed, stream, begin)
        out[begin : begin + len(chunk)] = numbers_down(chunk)
    return out


def rounded(t: Tensor, seed: int, stream: int, start: int) -> Words:
    """⌊t⌋ or ⌊t⌋ + 1, as quantise rounds stochastically, by words from start on, for 0 ≤ t ≤ 2^22; on the host."""
    out = np.empty(len(t), np.uint32)
    for begin in range(0, len(t), CHUNK):
        chunk = _zigzag_levels(t[begin : begin + CHUNK], 1.0, 1, seed, stream, start + begin) >> 1
        out[begin : begin + len(chunk)] = numbers_down(chunk)
    return out


def encode_levels(x: Tensor, inverse: float, rounding: int, seed: int, stream: int) -> tuple[list[bytes], int]:
    """The integers section of the levels, and how many are not 0: rounded on the device, coded on the host."""
    sections, nonzero = [], 0
    for begin in range(0, len(x), CHUNK):
        chunk = numbers_down(_zigzag_levels(x[begin : begin + CHUNK], inverse, rounding, seed, stream, begin))
        sections.append(backends.active.encode_integers(chunk))  # of whole blocks, each of which stands alone
        nonzero += int(np.count_nonzero(chunk))
    return sections, nonzero


def encode_summed_levels(x: Tensor, inverse: float) -> tuple[list[bytes], float, float, int]:
    """The integers section of the levels that nearest rounding gives, and their sums."""
    return encode_levels(x, inverse, 0, 0, 0)[0], *level_sums(x, inverse)


def _zigzag_levels(x: Tensor, inverse: float, rounding: int, seed: int, stream: int, begin: int) -> Tensor:
    """The levels of entries begin, begin + 1, … of a vector: int32."""
    t = _steps(x, inverse)
    if rounding == 0:
        k = t.round()
    else:
        u = uniform(seed, stream, begin, len(x), x.device)
        below = t.floor()
        k = below + ((u < t - below) if rounding == 1 else ((t - below) + (u - 0.5)).round())
    v = k.to(torch.int32)
    return (v << 1) ^ (v >> 31)


def _square(entries: Tensor) -> Tensor:
    doubles = entries.to(torch.float64)
    return doubles * doubles


def _steps(x: Tensor, inverse: float) -> Tensor:
    return (x * inverse).clamp(-MOST, MOST)


def scaled(x: Tensor, e: int) -> Tensor:
    """x·2^e, rounded once to binary32; −149 ≤ e ≤ 149."""
    return (x.to(torch.float64) * 2.0**e).to(torch.float32)


def divided(x: Tensor, divisors: npt.NDArray[np.float32], bucket: int) -> Tensor:
    """Every entry over its bucket's divisor, in binary32."""
    # Never by a number of the host: CUDA multiplies by its reciprocal, which is not the same.
    d = up(divisors, x.device)
    if len(d) == 1:
        return x / d
    whole = len(x) // bucket * bucket
    parts = [(x[:whole].view(-1, bucket) / d[: whole // bucket, None]).view(-1), x[whole:] / d[-1:]]
    return torch.cat(parts)


def thinned(x: Tensor, step: int) -> Tensor:
    """Every ``step``-th entry."""
    return x[::step].contiguous()
