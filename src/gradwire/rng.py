"""The counter-based generator that all randomness comes from."""

import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.errors import ParameterError

__all__ = ["Rng", "as_rng"]


@dataclass(frozen=True)
class Rng:
    """A generator: a pair of numbers, without a position; the same pair gives the same numbers everywhere, always.

    Definition: Philox 4×32-10 with ``seed`` as the key and ``stream`` as the upper half of the counter.

    Args:
        seed: 0 … 2^64 − 1.
        stream: 0 … 2^64 − 1; streams of one seed are independent.

    Raises:
        ParameterError: seed or stream out of range or not an integer.

    Example:
        >>> Rng(1).words(2).tolist() == Rng(1).words(4)[:2].tolist()
        True
        >>> Rng(1).child(0) == Rng(1).child(1)
        False

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; docs/wire-format.md, section 3.
    """

    seed: int
    stream: int = 0

    def __post_init__(self) -> None:
        for name in ("seed", "stream"):
            try:
                value = operator.index(getattr(self, name))
            except TypeError:
                raise ParameterError(f"{name} must be an integer, not {getattr(self, name)!r}") from None
            if not 0 <= value < 2**64:
                raise ParameterError(f"{name} must lie in 0 … 2^64 − 1, not {value}")
            object.__setattr__(self, name, value)

    def words(self, count: int, start: int = 0) -> npt.NDArray[np.uint32]:
        """Words start … start + count − 1: uint32 (count,)."""
        return kernels.philox_words(self.seed, self.stream, start, count)

    def uniform(self, count: int, start: int = 0) -> npt.NDArray[np.float32]:
        """Uniform numbers in [0, 1), multiples of 2^−24: float32 (count,)."""
        return kernels.uniform(self.seed, self.stream, start, count)

    def subset(self, n: int, k: int) -> npt.NDArray[np.uint32]:
        """A uniform k-subset of {0 … n − 1}, ascending: uint32 (k,)."""
        return kernels.subset(self.seed, self.stream, n, k)

    def child(self, j: int) -> "Rng":
        """An independent generator for part j (0 … 2^32 − 1) of the work."""
        return Rng(kernels.child_seed(self.seed, self.stream, j))


def as_rng(rng: "Rng | int") -> Rng:
    """An integer is a seed; a generator is itself."""
    return rng if isinstance(rng, Rng) else Rng(rng)
