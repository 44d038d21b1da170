"""The entries that reach a threshold."""

import numpy as np
import numpy.typing as npt

__all__ = ["reaching"]


def reaching(x: npt.NDArray[np.float32], threshold: float) -> npt.NDArray[np.uint32]:
    """Ascending indices of the entries with |x_i| ≥ threshold > 0.

    Example:
        >>> reaching(np.array([1, -3, 2], np.float32), 2.0)
        array([1, 2], dtype=uint32)
    """
    return np.flatnonzero(np.abs(x) >= np.float32(threshold)).astype(np.uint32)
