"""The counter-based generator and the subsets drawn with it (wire format section 3)."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError
from gradwire.kernels.reference.values import find_nonfinite, taken

__all__ = [
    "child_seed",
    "philox",
    "philox_words",
    "subset",
    "subset_values",
    "take_subset",
    "thin_entries",
    "thin_taken",
    "uniform",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

_LOW = 0xFFFFFFFF
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def philox(counters: Words, key: tuple[int, int]) -> Words:
    """Philox 4×32-10 of each row of counters, uint32 (blocks, 4), with one key: uint32 (blocks, 4).

    Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
    """
    half, low = np.uint64(32), np.uint64(_LOW)
    c0, c1, c2, c3 = counters.T.astype(np.uint64)
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> half) ^ c1 ^ np.uint64(k0),
            p1 & low,
            (p0 >> half) ^ c3 ^ np.uint64(k1),
            p0 & low,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def philox_words(seed: int, stream: int, start: int, count: int) -> Words:
    """Words start … start + count − 1 of the generator (seed, stream): uint32 (count,)."""
    if start + count > 1 << 64:
        raise ParameterError("start + count passes 2^64, the number of words that a generator has")
    first, skipped = divmod(start, 4)
    blocks = -(-(skipped + count) // 4)
    numbers = np.uint64(first) + np.arange(blocks, dtype=np.uint64)
    counters = np.empty((blocks, 4), np.uint32)
    counters[:, 0] = numbers & np.uint64(_LOW)
    counters[:, 1] = numbers >> np.uint64(32)
    counters[:, 2] = stream & _LOW
    counters[:, 3] = stream >> 32
    return philox(counters, (seed & _LOW, seed >> 32)).ravel()[skipped : skipped + count]


def uniform(seed: int, stream: int, start: int, count: int) -> Floats:
    """Uniform numbers in [0, 1): (word >> 8)·2^−24, float32 (count,)."""
    return (philox_words(seed, stream, start, count) >> 8).astype(np.float32) * np.float32(2.0**-24)


def child_seed(seed: int, stream: int, j: int) -> int:
    """The seed of child j, 0 ≤ j < 2^32, of a generator; the child's stream is 0."""
    counter = np.array([[j, _LOW, stream & _LOW, stream >> 32]], np.uint32)
    w0, w1 = philox(counter, (seed & _LOW, seed >> 32))[0, :2].tolist()
    return int(w0 | w1 << 32)


def subset(seed: int, stream: int, n: int, k: int) -> Words:
    """A uniform k-subset of {0 … n − 1}, ascending: uint32 (k,).

    Words are turned into candidates without bias (Lemire, Fast random integer generation in an interval, TOMACS 2019);
    those seen before are skipped. If k > n/2 the complement is drawn.
    """
    if not 0 <= n <= _LOW:
        raise ParameterError("n must be below 2^32")
    if not 0 <= k <= n:
        raise ParameterError("k must be at most n: a subset cannot be larger than the set")
    complement = 2 * k > n
    left = n - k if complement else k
    drawn = np.zeros(n, np.bool_)
    start = 0
    while left > 0:
        words = philox_words(seed, stream, start, max(left, 64)).astype(np.uint64)
        start += len(words)
        products = words * np.uint64(n)
        accepted = products & np.uint64(_LOW) >= (1 << 32) % n
        candidates = (products >> np.uint64(32))[accepted].astype(np.int64)
        _, first = np.unique(candidates, return_index=True)
        candidates = candidates[np.sort(first)]  # in the order of the words, without repetitions
        candidates = candidates[~drawn[candidates]][:left]
        drawn[candidates] = True
        left -= len(candidates)
    return np.flatnonzero(drawn != complement).astype(np.uint32)


def subset_values(x: Floats, seed: int, stream: int, k: int) -> tuple[Floats, int]:
    """The entries of x at :func:`subset`, and the index of the first NaN or infinity of x, −1 if there is none."""
    return x[subset(seed, stream, len(x), k)], find_nonfinite(x)


def take_subset(
    x: Floats, residual: Floats, total: Floats, seed: int, stream: int, k: int
) -> tuple[Words, Floats, int]:
    """The :func:`subset` of total ← x + residual: indices and entries, which leave 0 there (:func:`taken`).

    And the index of the first NaN or infinity of the sum, −1 if there is none; if there is one, nothing is taken.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        np.add(x, residual, out=total)
    indices = subset(seed, stream, len(x), k)
    values, bad = subset_values(total, seed, stream, k)
    if bad < 0:
        total[indices] = taken(values)
    return indices, values, bad


def thin_entries(indices: Words, values: Floats, seed: int, stream: int, k: int) -> tuple[Words, Floats]:
    """The k of these entries that a uniform k-:func:`subset` of them names."""
    which = subset(seed, stream, len(values), k)
    return indices[which], values[which]


def thin_taken(total: Floats, indices: Words, values: Floats, seed: int, stream: int, k: int) -> tuple[Words, Floats]:
    """:func:`thin_entries` of what was taken out of total, where the others are put back."""
    left = np.ones(len(values), bool)
    left[subset(seed, stream, len(values), k)] = False
    total[indices[left]] = values[left]
    return thin_entries(indices, values, seed, stream, k)
