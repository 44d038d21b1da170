"""Top-k chunk by chunk: the same number of entries from every stretch of the vector."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradwire import Codec, Guarantee, ParameterError, Rng, TopK, kernels
from gradwire.codecs.base import Floats
from gradwire.codecs.identity import check_finite
from gradwire.codecs.sparse import (
    Values,
    add_sparse,
    check_values,
    describe_sparse,
    kept_error,
    sparse_bytes,
    value_codec,
    write_sparse,
)
from gradwire.wire import Writer

__all__ = ["ChunkedTopK"]


@dataclass(frozen=True)
class ChunkedTopK(Codec):
    """The k entries of largest magnitude of every `chunk` consecutive entries, in one message.

    Definition: C(x)_i = x_i for i among the k largest |x_i| of its chunk, else 0; of a last chunk of m < chunk
    entries, the ⌈k·m/chunk⌉ largest. A message is an ordinary `topk` message: one index code over the whole vector
    and one set of values, so that a chunk costs no header.

    Guarantee: strictly contractive with float values, α = 1 − k/chunk.

    Args:
        k: kept entries of a full chunk.
        chunk: entries of a chunk.
        values: how kept entries are sent: "float32", "float16", "bfloat16", or an inner codec.

    Raises:
        ParameterError: k or values is out of range, or k is more than chunk.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([9, 8, 7, 1, 2, 3], np.float32)
        >>> gradwire.decode(gradwire.encode(ChunkedTopK(k=1, chunk=3), x, 0), 6).tolist()
        [9.0, 0.0, 0.0, 0.0, 0.0, 3.0]

    Source: Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", 2025 (chunk 4096, k = 64).
    """

    code: ClassVar[int] = TopK.code
    name: ClassVar[str] = "chunkedtopk"

    k: int = 64
    chunk: int = 4096
    values: Values = "float32"

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.chunk:
            raise ParameterError(f"k = {self.k} of every chunk of {self.chunk}: k must lie in 1 … chunk")
        check_values(self.values)

    def encode(self, x: Floats, writer: Writer, rng: Rng) -> None:
        """Write C(x) as the payload of a `topk` message."""
        starts = range(0, len(x), self.chunk)
        chunks = [kernels.top(piece, self._kept(len(piece))) for piece in (x[s : s + self.chunk] for s in starts)]
        indices = np.concatenate([chunk + np.uint32(s) for chunk, s in zip(chunks, starts, strict=True)])
        # NaN and infinity rank above every finite magnitude: if there is one, it is among these.
        check_finite(kernels.gather(x, indices), indices)
        write_sparse(x, indices, self.values, writer, rng.child(1))

    add = staticmethod(add_sparse)
    describe = staticmethod(describe_sparse)

    def guarantee(self, n: int) -> Guarantee:
        """The theorem for vectors of n ≥ 1 entries: each chunk keeps at least the share k/chunk of its energy."""
        full, rest = divmod(n, self.chunk)
        kept = full * self.k + self._kept(rest)
        inner = value_codec(self.values).guarantee(kept)
        return kept_error(self.chunk, self.k, inner, strict=True, max_bytes=sparse_bytes(n, kept, self.values))

    def _kept(self, m: int) -> int:
        return -(-self.k * m // self.chunk)
