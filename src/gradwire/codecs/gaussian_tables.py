"""The Gaussian model of the universal dithered code: tables that sender and receiver compute from one number.

Only exactly rounded binary64 operations, one after another: both sides, on every machine, get the same tables.
"""

from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from gradwire import kernels

__all__ = ["CONTEXT_BITS", "SPACINGS", "gaussian_tables", "most_bits"]

Tables = npt.NDArray[np.uint16]
Doubles = npt.NDArray[np.float64]

CONTEXT_BITS = 4
SPACINGS = (2.0**-12, 4.0)
"""The least and the largest spacing a that tables are made for."""

TOKENS = 140
PLAIN = 32
UNIT = 2.0**20
ESCAPE_BITS = 32


@lru_cache(maxsize=32)
def gaussian_tables(a: float) -> Tables:
    """Frequencies of the 141 tokens in 16 contexts for numbers k with the law ∝ exp(−a²(k − U)²/2) given the dither U.

    Definition: context j stands for U_j = (2j + 1)/32 − 1/2. The count of a token is ⌊2^20·S + ½⌋, S the sum of
    exp(−a²(k − U_j)²/2) over its numbers – where it has 2^w > 8 of them, over eight, times 2^w/8 –; the escape's
    count is 1; frequencies follow from the counts as for the integers section. A Gaussian z = a(k − U) beyond 5.4 is
    left to the escape.

    Args:
        a: the grid's spacing in standard deviations, in [2^−12, 4].

    Returns:
        uint16 (16, 141), not writable; each row sums to 4096.

    Example:
        >>> gaussian_tables(1.5)[8, :6].tolist()
        [2446, 740, 852, 24, 31, 1]

    Source: docs/wire-format.md, section 7.5.
    """
    u = _centres()[:, None, None]
    counts = np.ones((len(u), TOKENS + 1), np.uint64)
    for first, last in ((0, PLAIN), (PLAIN, TOKENS)):
        numbers, share = _numbers(np.arange(first, last))
        z = a * (numbers - u)
        weights = _exp_minus(z * z * 0.5)
        sums = weights[..., 0]
        for i in range(1, weights.shape[-1]):
            sums = sums + weights[..., i]
        counts[:, first:last] = np.floor(UNIT * (share * sums) + 0.5).astype(np.uint64)
    tables = kernels.normalise_tables(counts)
    tables.flags.writeable = False
    return tables


def most_bits(a: float, reach: float) -> float:
    """Bits a number that these tables never exceed.

    Definition: if bits of any token ≤ A + B·z² for every z = a(k − U) that it stands for, n numbers whose z² have a
    mean of at most ``reach`` take at most n(A + B·reach) bits. The best B is taken.

    Args:
        a: as :func:`gaussian_tables`.
        reach: a bound on the mean of z².

    Source: docs/codecs/ud.md.
    """
    tables, tokens = gaussian_tables(a), np.arange(TOKENS)
    f, escape = tables[:, :TOKENS].astype(np.float64), tables[:, TOKENS:].astype(np.float64)
    bits = 12.0 - np.log2(np.where(f > 0, f, escape)) + np.where(f > 0, _extra_bits(tokens), ESCAPE_BITS)
    # The nearest to U that a token has: for tokens of many numbers about half the smallest of these.
    u, half = _centres()[:, None], 0.5 / len(f)
    nearest = np.where(tokens < PLAIN, np.abs(_signed(tokens) - u) - half, (_base(tokens) - 1.0) / 2.0)
    squares = (a * np.maximum(nearest, 0.0)) ** 2
    slopes = np.linspace(0.0, 2.5, 51)
    return float(min((bits - slope * squares).max() + slope * reach for slope in slopes))


def _centres() -> Doubles:
    """The middle of each context's interval of U."""
    contexts = 1 << CONTEXT_BITS
    return cast(Doubles, (2.0 * np.arange(contexts) + 1.0) / (2.0 * contexts) - 0.5)


def _exp_minus(t: Doubles) -> Doubles:
    """exp(−t), t ≥ 0; 0 for t ≥ 16. The series of exp(−t/64), to the sixth power, then six squarings."""
    r = np.minimum(t, 16.0) / 64.0
    p = np.ones_like(r)
    for i in (6.0, 5.0, 4.0, 3.0, 2.0, 1.0):
        p = 1.0 - r / i * p
    for _ in range(6):
        p = p * p
    return np.where(t < 16.0, p, 0.0)


def _extra_bits(tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(tokens < PLAIN, 0, (tokens - PLAIN) // 4 + 3)


def _base(tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The smallest zigzag number of each token."""
    return np.where(tokens < PLAIN, tokens, (4 + (tokens & 3)) << _extra_bits(tokens))


def _signed(zigzag: npt.NDArray[np.int64]) -> Doubles:
    return np.where(zigzag % 2 == 0, zigzag // 2, -(zigzag + 1) // 2).astype(np.float64)


def _numbers(tokens: npt.NDArray[np.int64]) -> tuple[Doubles, Doubles]:
    """The numbers k that a token's weight is taken from, (tokens, 1 or 8), and how many each stands for."""
    if tokens[-1] < PLAIN:
        return _signed(tokens)[:, None], np.ones(len(tokens))
    eighth = 1 << (_extra_bits(tokens) - 3)
    h = eighth[:, None, None]
    offsets = 2 * np.arange(4)[None, :, None] * h + 2 * (h // 2) + np.arange(2)
    return _signed(_base(tokens)[:, None] + offsets.reshape(len(tokens), 8)), eighth.astype(np.float64)
