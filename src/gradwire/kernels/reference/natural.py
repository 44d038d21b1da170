"""Random rounding to powers of two (wire format 7.7, 7.8)."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.integers import encode_integers
from gradwire.kernels.reference.random import philox_words

__all__ = ["encode_powers", "largest_power", "round_natural"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

BIAS = 150


def round_natural(x: Floats, lowest: int, seed: int, stream: int) -> Words:
    """Codes of x rounded to one of the powers of two around it: 0, or 2·(exponent + 150) + (x < 0).

    Definition: |x| = 2^e(1 + m/2^23) becomes 2^(e+1) if m + r ≥ 2^23, r the upper 23 bits of word i, else 2^e. Below
    2^lowest: 2^lowest if U(i) < |x|/2^lowest, else 0.

    Example:
        >>> round_natural(np.array([0, -4, 3], np.float32), -149, 1, 0)
        array([  0, 305, 304], dtype=uint32)

    Source: Horváth et al., "Natural Compression for Distributed Deep Learning", arXiv 1905.10988.
    """
    words = philox_words(seed, stream, 0, len(x))
    magnitude = np.abs(x)
    # frexp gives a mantissa in [½, 1) for denormals as well: 24 bits, the leading one among them.
    mantissa, exponent = np.frexp(magnitude)
    m = np.ldexp(mantissa, 24).astype(np.uint32) - np.uint32(1 << 23)
    up = m + (words >> np.uint32(9)) >= 1 << 23
    code = exponent - 1 + BIAS + up
    u = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    low = np.float32(2.0**lowest)
    with np.errstate(over="ignore"):  # of large entries, to which it does not matter
        below = np.where(u < magnitude * np.float32(2.0 ** min(-lowest, 126)), lowest + BIAS, 0)
    code = np.where(magnitude < low, below, code).astype(np.uint32)
    return np.where(code == 0, np.uint32(0), 2 * code + (x < 0)).astype(np.uint32)


def largest_power(x: Floats, divisor: float, lowest: int, seed: int, stream: int, magnitude: float) -> int:
    """The largest exponent, plus 150. The definition needs no magnitude."""
    return int(round_natural(x / np.float32(divisor), lowest, seed, stream).max(initial=0)) >> 1


def encode_powers(
    x: Floats, divisor: float, lowest: int, largest: int, seed: int, stream: int
) -> tuple[list[bytes], int]:
    """The integers section of the levels, and how many are not 0."""
    codes = round_natural(x / np.float32(divisor), lowest, seed, stream)
    # A code is 2·(exponent + 150) + s, s the sign bit; the zigzag of ±k is 2k − s.
    zigzag = np.where(codes == 0, np.uint32(0), np.uint32(2 * largest + 2) - codes)
    return [encode_integers(zigzag)], int(np.count_nonzero(zigzag))
