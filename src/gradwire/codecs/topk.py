"""The k entries of largest magnitude."""

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
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Writer

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK(Sparsifier):
    """The k entries of largest magnitude, ties to the lower index.

    Definition: C(x)_i = x_i for i among the k largest |x_i|, else 0.

    Guarantee: strictly contractive, α = 1 − k/n (attained when all magnitudes are equal).

    Args:
        k: a count (int), or a share of n (float in (0, 1]).
        values: how kept entries are sent: "float32", "float16", "bfloat16", or an inner codec.

    Raises:
        ParameterError: k or values is out of range, or k is more than n.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([0.5, -3.0, 2.0, 0.0], np.float32)
        >>> gradwire.decode(gradwire.encode(TopK(2), x, 0), 4).tolist()
        [0.0, -3.0, 2.0, 0.0]

    Source: Alistarh et al., "The convergence of sparsified gradient methods", NeurIPS 2018; docs/wire-format.md,
    section 7.2.
    """

    code: ClassVar[int] = 2
    name: ClassVar[str] = "topk"
    on_device: ClassVar[bool] = True

    k: int | float
    values: Values = "float32"

    def __post_init__(self) -> None:
        check_share(self.k, "k")
        check_values(self.values)

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        indices, kept, bad = kernels.top_entries(x, count_of(self.k, len(x), "k"))
        refuse_nonfinite(x, bad)
        write_entries(len(x), indices, kept, self.values, writer, rng.child(1))

    def encode_sum(self, x: Floats, residual: Floats, total: Floats, writer: Writer, rng: Rng) -> None:
        indices, kept, bad = kernels.take_top(x, residual, total, count_of(self.k, len(x), "k"))
        refuse_nonfinite(total, bad)
        send_entries(total, indices, kept, self.values, writer, rng.child(1))

    add = staticmethod(add_sparse)
    describe = staticmethod(describe_sparse)

    def check(self, n: int) -> None:
        count_of(self.k, n, "k")

    def guarantee(self, n: int) -> Guarantee:
        k = count_of(self.k, n, "k")
        inner = value_codec(self.values).guarantee(k)
        return kept_error(n, k, inner, strict=True, max_bytes=sparse_bytes(n, k, self.values))
