"""The entries that reach a threshold."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.values import find_nonfinite

__all__ = ["reaching", "reaching_entries"]


def reaching(x: npt.NDArray[np.float32], threshold: float) -> npt.NDArray[np.uint32]:
    """Ascending indices of the entries with |x_i| ≥ threshold > 0.

    Example:
        >>> reaching(np.array([1, -3, 2], np.float32), 2.0)
        array([1, 2], dtype=uint32)
    """
    return np.flatnonzero(np.abs(x) >= np.float32(threshold)).astype(np.uint32)


def reaching_entries(
    x: npt.NDArray[np.float32], threshold: float
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32], int]:
    """:func:`reaching`, the entries there, and the index of the first NaN or infinity of x, −1 if there is none."""
    indices = reaching(x, threshold)
    return indices, x[indices], find_nonfinite(x)
