"""Powers of two that keep extreme vectors within binary32 while they are quantised."""

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.identity import check_finite
from gradwire.errors import MessageError
from gradwire.kernels import Vector
from gradwire.wire import Reader, Writer

__all__ = ["LARGEST", "measured", "measured_buckets", "normalised", "read_exponent", "write_exponent"]

LARGEST = float(np.finfo(np.float32).max)
EXPONENTS = range(-149, 128)


def normalised(x: Vector) -> tuple[Vector, int, float]:
    """x·2^−e, e, and its largest magnitude; e is 0 unless the largest magnitude leaves [2^−60, 2^60).

    Raises:
        InputError: x is not finite.
    """
    return _scaled(x, kernels.max_abs(x))


def measured(x: Vector) -> tuple[Vector, int, float, float]:
    """As :func:`normalised`, and the sum of the squares of x·2^−e; one pass over x where e is 0."""
    largest, energy = kernels.extent(x)
    y, e, largest = _scaled(x, largest)
    return y, e, largest, energy if e == 0 else kernels.sum_squares(y)


def measured_buckets(x: Vector, bucket: int) -> tuple[Vector, int, npt.NDArray[np.float64]]:
    """x·2^−e and e as in :func:`normalised`, and the sum of the squares of each run of ``bucket`` entries of x·2^−e."""
    squares = kernels.bucket_squares(x, bucket)
    # The largest square lies between the largest sum and a bucket's share of it: mostly that tells that e is 0.
    if bucket * 2.0**-119 < float(squares.max()) < 2.0**119:
        return x, 0, squares
    y, e, _ = normalised(x)
    return y, e, squares if e == 0 else kernels.bucket_squares(y, bucket)


def _scaled(x: Vector, largest: float) -> tuple[Vector, int, float]:
    if not np.isfinite(largest):
        check_finite(x)
    if largest == 0.0 or 2.0**-60 <= largest < 2.0**60:
        return x, 0, largest
    e = int(np.frexp(largest)[1]) - 1
    return kernels.scaled(x, -e), e, float(np.ldexp(largest, -e))


def write_exponent(writer: Writer, e: int) -> None:
    """e as a varint, zigzag."""
    writer.varint(2 * e if e >= 0 else -2 * e - 1)


def read_exponent(reader: Reader) -> int:
    """An exponent in −149 … 127."""
    z = reader.varint(2 * 149)
    e = z >> 1 if z % 2 == 0 else -(z + 1 >> 1)
    if e not in EXPONENTS:
        raise MessageError(f"the message is scaled by 2^{e}, outside −149 … 127")
    return e
