"""Entries of a vector, chosen and gathered in one pass; or taken out of a sum that the pass computes as it goes.

Every function that chooses tells, as its last result, the index of an entry that is NaN or infinity, −1 if there is
none: what looks at the whole vector anyway need not be preceded by a pass that does nothing else. If there is one, what
the other results hold is not defined.
"""

import numpy as np
import numpy.typing as npt

from gradwire.kernels import backends
from gradwire.kernels.backends import Vector
from gradwire.kernels.vectors import beside

__all__ = [
    "put_sparse",
    "reaching_entries",
    "subset_values",
    "take_subset",
    "take_top",
    "thin_entries",
    "thin_taken",
    "top_entries",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


def top_entries(x: Vector, r: int) -> tuple[Vector, Vector, int]:
    """Ascending indices of the r ≥ 1 largest magnitudes, ties to the lower index, and the entries there.

    NaN and infinity rank above every finite magnitude: if there is one, it is among these.

    Example:
        >>> top_entries(np.array([1, -3, 2], np.float32), 2)
        (array([1, 2], dtype=uint32), array([-3.,  2.], dtype=float32), -1)
    """
    if isinstance(x, np.ndarray):
        return backends.active.top_entries(x, r)
    torch_ops = backends.of(x)
    indices = torch_ops.top(x, r)
    values = torch_ops.gather(x, indices)
    bad = torch_ops.find_nonfinite(values)
    return indices, values, int(indices[bad]) if bad >= 0 else -1


def take_top(x: Floats, residual: Floats, total: Floats, r: int) -> tuple[Words, Floats, int]:
    """:func:`top_entries` of total ← x + residual, in which they leave 0 (unless one is not finite).

    An entry of −0, which is decoded as 0, leaves −0. total may be x or residual, but must not overlap either in part.

    Example:
        >>> x, total = np.array([1, -3, 2], np.float32), np.array([1, 1, 1], np.float32)
        >>> take_top(x, total, total, 1)[:2], total
        ((array([2], dtype=uint32), array([3.], dtype=float32)), array([ 2., -2.,  0.], dtype=float32))
    """
    return backends.active.take_top(x, residual, total, r)


def reaching_entries(x: Vector, threshold: float) -> tuple[Vector, Vector, int]:
    """Ascending indices of the entries with |x_i| ≥ threshold, which is a binary32 above 0, and these.

    Example:
        >>> reaching_entries(np.array([1, -3, 2], np.float32), 2.0)
        (array([1, 2], dtype=uint32), array([-3.,  2.], dtype=float32), -1)
    """
    if isinstance(x, np.ndarray):
        return backends.active.reaching_entries(x, threshold)
    torch_ops = backends.of(x)
    indices = torch_ops.reaching(x, threshold)
    return indices, torch_ops.gather(x, indices), torch_ops.find_nonfinite(x)


def subset_values(x: Vector, seed: int, stream: int, k: int) -> tuple[Vector, int]:
    """The entries of x that a uniform k-subset names, in ascending order of their indices.

    Definition: x[subset(seed, stream, len(x), k)], with :func:`gradwire.kernels.subset`.

    Example:
        >>> subset_values(np.array([1, -3, 2], np.float32), 0, 0, 3)
        (array([ 1., -3.,  2.], dtype=float32), -1)
    """
    if isinstance(x, np.ndarray):
        return backends.active.subset_values(x, seed, stream, k)
    torch_ops = backends.of(x)
    return torch_ops.gather(x, backends.active.subset(seed, stream, len(x), k)), torch_ops.find_nonfinite(x)


def take_subset(
    x: Floats, residual: Floats, total: Floats, seed: int, stream: int, k: int
) -> tuple[Words, Floats, int]:
    """Indices and entries of the k-subset of total ← x + residual, in which they leave 0 as in :func:`take_top`.

    total may be x or residual, but must not overlap either in part. If an entry is not finite, it is left in total.
    """
    return backends.active.take_subset(x, residual, total, seed, stream, k)


def thin_entries(indices: Vector, values: Vector, seed: int, stream: int, k: int) -> tuple[Vector, Vector]:
    """The k of these entries that a uniform k-subset of them names, in order.

    Definition: indices[subset] and values[subset], with :func:`gradwire.kernels.subset` of len(values).

    Example:
        >>> thin_entries(np.array([3, 8], np.uint32), np.array([1, -3], np.float32), 0, 0, 2)
        (array([3, 8], dtype=uint32), array([ 1., -3.], dtype=float32))
    """
    if isinstance(values, np.ndarray):
        return backends.active.thin_entries(indices, values, seed, stream, k)
    torch_ops, which = backends.of(values), beside(values, backends.active.subset(seed, stream, len(values), k))
    return torch_ops.gather(indices, which), torch_ops.gather(values, which)


def thin_taken(total: Floats, indices: Words, values: Floats, seed: int, stream: int, k: int) -> tuple[Words, Floats]:
    """:func:`thin_entries` of what :func:`take_top` took out of total; the others are put back there.

    Example:
        >>> total = np.array([0, 5, 0], np.float32)
        >>> thin_taken(total, np.array([0, 2], np.uint32), np.array([9, -7], np.float32), 0, 0, 1), total
        ((array([0], dtype=uint32), array([9.], dtype=float32)), array([ 0.,  5., -7.], dtype=float32))
    """
    return backends.active.thin_taken(total, indices, values, seed, stream, k)


def put_sparse(out: Floats, indices: Words, values: Floats) -> None:
    """out[indices] ← values for distinct indices below len(out)."""
    backends.active.put_sparse(out, indices, values)
