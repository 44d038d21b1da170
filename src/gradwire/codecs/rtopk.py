"""A random k of the r largest entries."""

from dataclasses import dataclass
from typing import ClassVar

from gradwire import kernels
from gradwire.codecs.base import Floats, check_share, count_of
from gradwire.codecs.sparse import (
    Sparsifier,
    Values,
    add_sparse,
    check_values,
    describe_sparse,
    kept_error,
    refuse_nonfinite,
    send_entries,
    sparse_bytes,
    value_codec,
    write_entries,
)
from gradwire.errors import ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Writer

__all__ = ["RTopK"]


@dataclass(frozen=True)
class RTopK(Sparsifier):
    """A random k of the r entries of largest magnitude.

    Definition: T_r are the r largest |x_i| (ties to the lower index), U a uniform k-subset of T_r; C(x)_i = x_i for
    i in U, else 0. No rescaling.
    r = k is top-k, r = n is random-k. Workers must draw independently: give each its own rng (a shared seed removes
    the gain).

    Guarantee: contractive, E‖x − C(x)‖² = ‖x‖² − (k/r)‖T_r‖² ≤ (1 − k/n)‖x‖².

    Args:
        k: a count (int), or a share of n (float in (0, 1]).
        r: likewise, at least k. Between k and (workers)·k serves most gradients.
        values: how kept entries are sent: "float32", "float16", "bfloat16", or an inner codec.

    Raises:
        ParameterError: a parameter is out of range, r < k, or r is more than n.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([0.5, -3.0, 2.0, 0.0], np.float32)
        >>> message = gradwire.encode(RTopK(k=1, r=2), x, 7)
        >>> gradwire.decode(message, 4).tolist() in ([0, -3, 0, 0], [0, 0, 2, 0])
        True

    Source: Barnes, Inan, Isik, Özgür, "rTop-k: A Statistical Estimation Approach to Distributed SGD", arXiv 2005.10761.
    """

    code: ClassVar[int] = 4
    name: ClassVar[str] = "rtopk"
    on_device: ClassVar[bool] = True

    k: int | float
    r: int | float
    values: Values = "float32"

    def __post_init__(self) -> None:
        check_share(self.k, "k")
        check_share(self.r, "r")
        check_values(self.values)
        if type(self.k) is type(self.r) and self.r < self.k:
            raise ParameterError(f"r = {self.r} is less than k = {self.k}: k entries are drawn from the r largest")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        k, r = self._counts(len(x))
        indices, largest, bad = kernels.top_entries(x, r)
        refuse_nonfinite(x, bad)
        drawn = rng.child(0)
        indices, kept = kernels.thin_entries(indices, largest, drawn.seed, drawn.stream, k)
        write_entries(len(x), indices, kept, self.values, writer, rng.child(1))

    def encode_sum(self, x: Floats, residual: Floats, total: Floats, writer: Writer, rng: Rng) -> None:
        k, r = self._counts(len(x))
        indices, largest, bad = kernels.take_top(x, residual, total, r)
        refuse_nonfinite(total, bad)
        drawn = rng.child(0)
        indices, kept = kernels.thin_taken(total, indices, largest, drawn.seed, drawn.stream, k)
        send_entries(total, indices, kept, self.values, writer, rng.child(1))

    add = staticmethod(add_sparse)
    describe = staticmethod(describe_sparse)

    def check(self, n: int) -> None:
        self._counts(n)

    def guarantee(self, n: int) -> Guarantee:
        k, r = self._counts(n)
        inner = value_codec(self.values).guarantee(k)
        return kept_error(n, k, inner, strict=r == k, max_bytes=sparse_bytes(n, k, self.values))

    def _counts(self, n: int) -> tuple[int, int]:
        k, r = count_of(self.k, n, "k"), count_of(self.r, n, "r")
        if r < k:
            raise ParameterError(f"r = {self.r} is less than k = {self.k} for {n} entries: raise r")
        return k, r
