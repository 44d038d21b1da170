"""Sums over equal parts of a vector."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.quantise import sum_squares

__all__ = ["bucket_squares"]


def bucket_squares(x: npt.NDArray[np.float32], bucket: int) -> npt.NDArray[np.float64]:
    """Σ x_i² of each run of ``bucket`` entries, each in the order of 4.6; the last one may be shorter.

    Example:
        >>> bucket_squares(np.array([1, 2, 3], np.float32), 2)
        array([5., 9.])
    """
    return np.array([sum_squares(x[begin : begin + bucket]) for begin in range(0, len(x), bucket)], np.float64)
