"""The largest entries by magnitude."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError
from gradwire.kernels.reference.values import first_nonfinite, taken

__all__ = ["take_top", "top", "top_entries"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


def top(x: Floats, r: int) -> Words:
    """Ascending indices of the r largest magnitudes, ties to the lower index.

    Magnitudes are compared as the integers that the bits of x make once the sign is cleared: −0 equals 0, infinity and
    NaN are above every finite number.

    Example:
        >>> top(np.array([1, -3, 2, 3], np.float32), 2)
        array([1, 3], dtype=uint32)
    """
    if not 0 <= r <= len(x):
        raise ParameterError("r must be at most len(x)")
    keys = (x.view(np.uint32) & 0x7FFFFFFF).astype(np.int64)
    descending = np.argsort(-keys, kind="stable")  # stable: the lower index first among equals
    return np.sort(descending[:r]).astype(np.uint32)


def top_entries(x: Floats, r: int) -> tuple[Words, Floats, int]:
    """:func:`top`, the entries there, and the index of the first of them that is not finite, −1 if there is none."""
    indices = top(x, r)
    return indices, x[indices], first_nonfinite(x, indices)


def take_top(x: Floats, residual: Floats, total: Floats, r: int) -> tuple[Words, Floats, int]:
    """:func:`top_entries` of total ← x + residual, where they leave 0 (:func:`taken`), unless one is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.add(x, residual, out=total)
    indices, values, bad = top_entries(total, r)
    if bad < 0:
        total[indices] = taken(values)
    return indices, values, bad
