"""What the sparsifiers share: the sparse payload, values inside, and the arithmetic of their guarantees."""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.base import Codec, Floats, decoder_of
from gradwire.codecs.identity import DTYPES, Identity, check_finite, write_finite
from gradwire.errors import ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Reader, Writer
from gradwire.wire.writer import varint_length

__all__ = [
    "Sparsifier",
    "Values",
    "add_sparse",
    "check_values",
    "describe_sparse",
    "kept_error",
    "leave",
    "read_values",
    "refuse_nonfinite",
    "send_entries",
    "send_values",
    "sparse_bytes",
    "value_codec",
    "write_entries",
    "write_sparse",
    "write_values",
]

Values = str | Codec
"""How a sparsifier sends what it keeps: a float format's name or an inner codec."""

Words = npt.NDArray[np.uint32]


class Sparsifier(Codec):
    """A codec that sends some entries of a vector and nothing of the others."""

    @abstractmethod
    def encode_sum(self, x: Floats, residual: Floats, total: Floats, writer: Writer, rng: Rng) -> None:
        """Writes C(p), p = x + residual, and leaves p − C(p) in ``total``.

        Bit for bit what ``encode`` of p and ``add`` of the message with weight −1 give, in fewer passes.

        Args:
            x: float32 (n,), n ≥ 1, contiguous.
            residual: likewise.
            total: likewise; may be x or residual, but must not overlap either in part.
            writer: takes the payload.
            rng: the only source of randomness.

        Raises:
            InputError: p is not finite; what total holds is not defined.
            ParameterError: a parameter does not fit n.
        """


def check_values(values: Values) -> None:
    """Raises ParameterError unless ``values`` is a float format or a codec that may stand inside another."""
    if isinstance(values, str) and values in DTYPES:
        return
    if not isinstance(values, Codec) or not values.inner:
        raise ParameterError(
            f"values must be one of {', '.join(DTYPES)} or a codec that may stand inside another, not {values!s}"
        )


def value_codec(values: Values) -> Codec:
    """The codec that ``values`` means."""
    return Identity(values) if isinstance(values, str) else values


def write_values(x: Floats, values: Values, writer: Writer, rng: Rng) -> None:
    """A values section (4.3) of x, m ≥ 1 entries, all finite."""
    writer.u8(value_codec(values).code)
    if isinstance(values, str):
        write_finite(x, values, writer)
    else:
        values.encode(x, writer, rng)


def read_values(reader: Reader, m: int) -> Floats:
    """The last section of a payload, m ≥ 1 values: float32 (m,), finite."""
    values = np.zeros(m, np.float32)
    decoder_of(reader.u8(), inner=True).add(reader, values, 1.0)
    return values


def refuse_nonfinite(x: Vector, at: int) -> None:
    """Raises InputError if a kernel found an entry that is not finite ``at`` an index, −1 if none."""
    if at >= 0:
        check_finite(x[: at + 1])


def write_entries(n: int, indices: Vector, kept: Vector, values: Values, writer: Writer, rng: Rng) -> None:
    """The payload of section 7.2: the entries ``kept`` at ``indices`` of a vector of n, both on the same device."""
    writer.varint(len(indices))
    if len(indices):
        writer.indices(kernels.to_host(indices), n)
        write_values(kernels.to_host(kept), values, writer, rng)


def write_sparse(x: Vector, indices: Vector, values: Values, writer: Writer, rng: Rng) -> None:
    """The payload of section 7.2: the entries of x at ``indices``, both on the same device."""
    write_entries(len(x), indices, kernels.gather(x, indices), values, writer, rng)


def send_values(x: Floats, values: Values, writer: Writer, rng: Rng) -> Floats:
    """:func:`write_values`; gives what :func:`read_values` will give: x itself if that is x (but for −0)."""
    if values == "float32":
        write_values(x, values, writer, rng)
        return x
    section = Writer()
    write_values(x, values, section, rng)
    data = section.data
    writer.raw(data)
    return read_values(Reader(data, len(x)), len(x))


def leave(total: Floats, indices: Words, kept: Floats, sent: Floats) -> None:
    """Writes what is left of the entries ``kept``, of which ``sent`` was sent, where they were taken and 0 was left."""
    if sent is not kept:
        with np.errstate(over="ignore"):
            kernels.put_sparse(total, indices, kept - sent)


def send_entries(total: Floats, indices: Words, kept: Floats, values: Values, writer: Writer, rng: Rng) -> None:
    """:func:`write_entries` of what was taken out of total; and there what its values lose."""
    writer.varint(len(indices))
    if len(indices):
        writer.indices(indices, len(total))
        leave(total, indices, kept, send_values(kept, values, writer, rng))


def add_sparse(reader: Reader, out: Vector, weight: float) -> None:
    """Adds a payload of section 7.2."""
    k = reader.varint(len(out))
    if k == 0:
        reader.end()
        return
    indices = reader.indices(len(out), k)
    kernels.add_sparse(out, indices, read_values(reader, k), weight)


def describe_sparse(reader: Reader) -> dict[str, Any]:
    """k, where the bytes went, and the inner codec."""
    k = reader.varint(reader.n)
    if k == 0:
        return {"k": 0}
    before = reader.position
    reader.indices(reader.n, k)
    index_bytes = reader.position - before
    value_bytes = reader.rest
    inner = decoder_of(reader.u8(), inner=True)
    return {
        "k": k,
        "index_bytes": index_bytes,
        "index_bits_per_entry": round(8 * index_bytes / k, 3),
        "value_bytes": value_bytes,
        "values": inner.name,
        **inner.describe(reader),
    }


def sparse_bytes(n: int, k: int, values: Values) -> int:
    """The longest message of section 7.2: Golomb–Rice indices, whose quotients sum to at most (n − k) >> b.

    The frame is counted in the inner codec's bytes.
    """
    b = 0
    while k * 2 ** (16 + b) < 31536 * n:
        b += 1
    index_bytes = 1 + (b * k + 7) // 8 + (k + ((n - k) >> b) + 7) // 8
    return varint_length(k) + index_bytes + 1 + value_codec(values).guarantee(k).max_bytes


def kept_error(n: int, k: int, inner: Guarantee, strict: bool, max_bytes: int) -> Guarantee:
    """The guarantee of a sparsifier that keeps a k/n share of the energy at least and sends it by ``inner``.

    ‖x − C(x)‖² = ‖x‖² − ‖kept‖² + inner error ≤ ‖x‖² − (1 − α)‖kept‖², with the inner α (or ω) and ‖kept‖² ≥
    (k/n)‖x‖²; where α > 1 the other end counts, ‖kept‖² = ‖x‖².
    """
    error = max(1.0 - (k / n) * (1.0 - inner.error), inner.error)
    return Guarantee(
        unbiased=k == n and inner.unbiased, error=error, strict=strict and inner.strict, max_bytes=max_bytes
    )
