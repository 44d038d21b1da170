"""The vectors that are encoded: drawn from a distribution, or real ones from a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.codecs.arrays import as_input
from gradwire.codecs.base import Floats
from gradwire.codecs.identity import check_finite
from gradwire.errors import InputError
from gradwire.files import SUFFIXES, read_vector

__all__ = ["DISTRIBUTIONS", "is_file", "vector"]

SEED = 0
"""Of every drawn vector: what codec and machine do is compared, not luck."""

DENSITY = 0.1
"""The share of entries of a sparse vector that are not zero."""

BLOCK = 1 << 20
"""Entries that are drawn at once: some distributions come in float64."""


def _sparse(g: np.random.Generator, n: int) -> Any:
    x = g.standard_normal(n, np.float32)
    x[g.random(n, np.float32) >= DENSITY] = 0
    return x


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "gaussian": lambda g, n: g.standard_normal(n, np.float32),
    "laplace": lambda g, n: g.laplace(size=n),
    "student-t": lambda g, n: g.standard_t(3, n),
    "sparse": _sparse,
}
"""Name → draw: standard normal; Laplace; Student's t with 3 degrees of freedom; a tenth normal, the others 0."""


def is_file(source: str) -> bool:
    """Whether a source is the name of a file.

    Raises:
        InputError: it is neither that nor a distribution.
    """
    if source in DISTRIBUTIONS:
        return False
    if Path(source).suffix not in SUFFIXES:
        raise InputError(
            f"{source!r} is no source: give {', '.join(DISTRIBUTIONS)} or a file that ends in {', '.join(SUFFIXES)}"
        )
    return True


def vector(source: str, n: int | None) -> Floats:
    """The vector of a source.

    Args:
        source: a distribution, or a file of tensors, which are joined, ordered by name.
        n: how many entries; of a file its first ones, or all for None.

    Returns:
        float32 (n,), in memory of its own.

    Raises:
        InputError: no such source, or not a vector of finite numbers of a known dtype.

    Example:
        >>> len(vector("laplace", 1000))
        1000
    """
    if not is_file(source):
        assert n is not None
        g, x = np.random.Generator(np.random.Philox(SEED)), np.empty(n, np.float32)
        for start in range(0, n, BLOCK):
            part = x[start : start + BLOCK]
            part[:] = DISTRIBUTIONS[source](g, len(part))
        return x
    x = np.array(as_input(read_vector(Path(source))[:n]))
    check_finite(x)
    return x
