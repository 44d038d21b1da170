"""Chunks of a vector as rows of equal length."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels import backends
from gradwire.kernels.backends import Vector

__all__ = ["in_rows", "put_rows", "take_rows"]


def in_rows(x: Vector, rows: int, length: int) -> Vector:
    """x and the zeros that make it ``rows`` rows of ``length``: float32 (rows·length,); x itself if it needs none."""
    if len(x) == rows * length:
        return x
    if not isinstance(x, np.ndarray):
        return backends.of(x).in_rows(x, rows, length)
    out = np.zeros(rows * length, np.float32)
    out[: len(x)] = x
    return out


def take_rows(x: Vector, length: int, which: npt.NDArray[np.intp]) -> Vector:
    """The rows ``which`` of a vector of rows: float32 (len(which)·length,)."""
    if not isinstance(x, np.ndarray):
        return backends.of(x).take_rows(x, length, which)
    return x.reshape(-1, length)[which].reshape(-1)


def put_rows(x: Vector, length: int, which: npt.NDArray[np.intp], rows: Vector) -> None:
    """Writes ``rows``, as :func:`take_rows` gives them, over the rows ``which`` of x."""
    if not isinstance(x, np.ndarray):
        backends.of(x).put_rows(x, length, which, rows)
    else:
        x.reshape(-1, length)[which] = rows.reshape(-1, length)
