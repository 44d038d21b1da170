"""A uniformly random k entries; a seed travels in place of their indices."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Floats, check_share, count_of, decoder_of
from gradwire.codecs.sparse import (
    Sparsifier,
    Values,
    check_values,
    kept_error,
    leave,
    read_values,
    refuse_nonfinite,
    send_values,
    value_codec,
    write_values,
)
from gradwire.errors import MessageError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Reader, Writer

__all__ = ["RandomK"]

LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class RandomK(Sparsifier):
    """A uniformly random k entries, scaled to be unbiased or not.

    Definition: U is a uniform k-subset of all indices; C(x)_i = s·x_i for i in U, else 0, with s = n/k if ``scale``,
    else 1. The receiver draws U
    from the message's seed, so indices cost 8 bytes in all.

    Guarantee: with ``scale`` unbiased, ω = n/k − 1; without it contractive, α = 1 − k/n (use this one with error
    feedback).
    Values beyond float32's range after scaling become its largest finite number.

    Args:
        k: a count (int), or a share of n (float in (0, 1]).
        scale: whether kept entries are multiplied by n/k.
        values: how kept entries are sent: "float32", "float16", "bfloat16", or an inner codec.

    Raises:
        ParameterError: k or values is out of range, or k is more than n.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> y = gradwire.decode(gradwire.encode(RandomK(2, scale=True), np.ones(8, np.float32), 0), 8)
        >>> sorted(y.tolist())
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 4.0]

    Source: Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018; docs/wire-format.md, section 7.3.
    """

    code: ClassVar[int] = 3
    name: ClassVar[str] = "randomk"
    on_device: ClassVar[bool] = True

    k: int | float
    scale: bool = False
    values: Values = "float32"

    def __post_init__(self) -> None:
        check_share(self.k, "k")
        check_values(self.values)

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        k, drawn = count_of(self.k, len(x), "k"), rng.child(0)
        kept, bad = kernels.subset_values(x, drawn.seed, drawn.stream, k)
        refuse_nonfinite(x, bad)
        self._write_head(k, drawn, writer)
        write_values(kernels.to_host(kept), self.values, writer, rng.child(1))

    def encode_sum(self, x: Floats, residual: Floats, total: Floats, writer: Writer, rng: Rng) -> None:
        n = len(x)
        k, drawn = count_of(self.k, n, "k"), rng.child(0)
        indices, kept, bad = kernels.take_subset(x, residual, total, drawn.seed, drawn.stream, k)
        refuse_nonfinite(total, bad)
        self._write_head(k, drawn, writer)
        sent = send_values(kept, self.values, writer, rng.child(1))
        # A sum, because −0 is read as 0.
        leave(total, indices, kept, _scaled(sent + np.float32(0), n / k) if self.scale else sent)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        n = len(out)
        k, seed, scale = _read_head(reader, n)
        if k == 0:
            reader.end()
            return
        values = read_values(reader, k)
        if scale:
            values = _scaled(values, n / k)
        kernels.add_sparse(out, Rng(seed).subset(n, k), values, weight)

    def _write_head(self, k: int, drawn: Rng, writer: Writer) -> None:
        writer.varint(k)
        writer.u64(drawn.seed)
        writer.u8(self.scale)

    def check(self, n: int) -> None:
        count_of(self.k, n, "k")

    def guarantee(self, n: int) -> Guarantee:
        k = count_of(self.k, n, "k")
        inner = value_codec(self.values).guarantee(k)
        size = 5 + 8 + 1 + 1 + inner.max_bytes
        if not self.scale:
            return kept_error(n, k, inner, strict=k == n, max_bytes=size)
        if inner.unbiased:
            return Guarantee(True, (n / k) * (1 + inner.error) - 1, k == n and inner.strict, size)
        # Where kept, the error is (s − 1)x + s·e with ‖e‖² ≤ α‖x‖²: the triangle inequality; elsewhere it is x.
        kept = (n / k - 1 + (n / k) * math.sqrt(inner.error)) ** 2
        return Guarantee(False, 1 - k / n + (k / n) * kept, k == n and inner.strict, size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        k, seed, scale = _read_head(reader, reader.n)
        described: dict[str, Any] = {"k": k, "seed": seed, "scale": scale}
        if k:
            described["value_bytes"] = reader.rest
            inner = decoder_of(reader.u8(), inner=True)
            described |= {"values": inner.name, **inner.describe(reader)}
        return described


def _scaled(values: Floats, factor: float) -> Floats:
    with np.errstate(over="ignore"):
        product = values * np.float32(factor)
    return np.clip(product, -LARGEST, LARGEST, out=product)


def _read_head(reader: Reader, n: int) -> tuple[int, int, bool]:
    k, seed, scale = reader.varint(n), reader.u64(), reader.u8()
    if scale > 1:
        raise MessageError(f"the message has scale {scale}, where 0 or 1 is due")
    return k, seed, bool(scale)
