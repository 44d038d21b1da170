"""The entries that reach a threshold."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.values import find_nonfinite

__all__ = ["reaching_entries"]


def reaching_entries(
    x: npt.NDArray[np.float32], threshold: float
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32], int]:
    """Ascending indices with |x_i| ≥ threshold > 0, the entries there, and where x first is NaN or infinite, or −1.

    Example:
        >>> reaching_entries(np.array([1, -3, 2], np.float32), 2.0)
        (array([1, 2], dtype=uint32), array([-3.,  2.], dtype=float32), -1)
    """
    indices = np.flatnonzero(np.abs(x) >= np.float32(threshold)).astype(np.uint32)
    return indices, x[indices], find_nonfinite(x)
