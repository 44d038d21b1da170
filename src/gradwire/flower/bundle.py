"""A bundle: all tensors of a model, of a step between two versions, or of a client's update, in one piece of bytes.

One piece, because each Array of Flower costs some 400 bytes on the wire, more than a small tensor. docs/flower.md
defines the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import gradwire
from gradwire.errors import MessageError
from gradwire.flower.layout import DTYPES, Layout, Tensor
from gradwire.wire import Reader, Writer

__all__ = [
    "MODEL",
    "PIECE",
    "STEP",
    "UPDATE",
    "Part",
    "apply",
    "encode_pieces",
    "read_changes",
    "read_model",
    "write_changes",
    "write_model",
]

MODEL, STEP, UPDATE = 0, 1, 2
"""What a bundle holds: whole tensors with their layout; changes from one version to the next; a client's changes."""

RAW, FRAMES, SAME = 0, 1, 2
"""How a tensor stands in a bundle of changes: one that is never compressed by its new bytes; one that is by gradwire
messages to add; either by nothing, if it does not change."""

PIECE = 1 << 26
"""A tensor is encoded in pieces of so many entries, so that no temporary and no message grows with the tensor."""

Array = np.ndarray[Any, Any]
Part = list[bytes] | memoryview | None
"""A tensor in a bundle of changes: gradwire messages, one a piece; new bytes; None if it does not change."""


def encode_pieces(codec: gradwire.Codec, x: Array, rng: gradwire.Rng) -> list[bytes]:
    """The messages of a vector (n,), one for each piece of it."""
    return [gradwire.encode(codec, x[i : i + PIECE], rng.child(i // PIECE)) for i in range(0, len(x), PIECE)]


def write_model(layout: Layout, tensors: Mapping[str, Array]) -> bytes:
    """A bundle that needs nothing else to be read: the layout, then every tensor raw."""
    writer = Writer()
    writer.u8(MODEL)
    writer.varint(len(layout.tensors))
    for tensor in layout.tensors:
        name = tensor.name.encode()
        writer.varint(len(name))
        writer.raw(name)
        writer.u8(DTYPES.index(tensor.dtype) | tensor.compressed << 7)
        writer.u8(len(tensor.shape))
        for size in tensor.shape:
            writer.varint(size)
    for tensor in layout.tensors:
        writer.raw(tensors[tensor.name].reshape(-1).view(np.uint8).data)
    return writer.data


def read_model(data: bytes) -> tuple[Layout, dict[str, Array]]:
    """The layout and the tensors, as both sides keep them, of a whole model.

    Raises:
        MessageError: these bytes are no such bundle.
    """
    reader = _open(data, MODEL)
    tensors: dict[str, Tensor] = {}
    for _ in range(reader.varint()):
        try:
            name = str(reader.take(reader.varint()), "utf-8")
        except UnicodeDecodeError:
            raise MessageError("the bundle has a name that is not text") from None
        code = reader.u8()
        if code & 0x7F >= len(DTYPES) or name in tensors:
            raise MessageError(f"the bundle's tensor {name!r} has an unknown dtype, or stands twice")
        shape = tuple(reader.varint() for _ in range(reader.u8()))
        tensors[name] = Tensor(name, shape, DTYPES[code & 0x7F], bool(code >> 7))
    layout = Layout(tuple(tensors.values()))
    try:
        kept = {t.name: np.frombuffer(reader.take(t.nbytes), t.kept).reshape(t.shape) for t in layout.tensors}
    except ValueError as e:  # numpy has bounds on dimensions that the format has not
        raise MessageError(f"the bundle has a tensor that numpy cannot hold: {e}") from None
    reader.end()
    return layout, kept


def write_changes(kind: int, layout: Layout, parts: Iterator[Part]) -> bytes:
    """A bundle of changes, STEP or UPDATE: one part a tensor, in the layout's order."""
    writer = Writer()
    writer.u8(kind)
    writer.u64(layout.digest)
    for _, part in zip(layout.tensors, parts, strict=True):
        if part is None:
            writer.u8(SAME)
        elif isinstance(part, list):
            writer.u8(FRAMES)
            for message in part:
                writer.varint(len(message))
                writer.raw(message)
        else:
            writer.u8(RAW)
            writer.raw(part)
    return writer.data


def read_changes(kind: int, layout: Layout, data: bytes) -> dict[str, Part]:
    """What a bundle of changes says of each tensor: cut apart and its lengths checked, not decoded.

    Raises:
        MessageError: these bytes are no such bundle, or one for another layout.
    """
    reader = _open(data, kind)
    if reader.u64() != layout.digest:
        raise MessageError("the bundle is for a model of other tensors, shapes, dtypes or rules")
    parts: dict[str, Part] = {}
    for tensor in layout.tensors:
        form = reader.u8()
        if form == SAME:
            parts[tensor.name] = None
        elif form == RAW and not tensor.compressed:
            parts[tensor.name] = reader.take(tensor.nbytes)
        elif form == FRAMES and tensor.compressed:
            parts[tensor.name] = [bytes(reader.take(reader.varint())) for _ in range(0, tensor.size, PIECE)]
        else:
            raise MessageError(f"the bundle has {tensor.name} in form {form}, which is not for it")
    reader.end()
    return parts


def apply(tensor: Tensor, before: Array, part: Part) -> Array:
    """The tensor after a change, as both sides keep it; what it was before is left as it is.

    Raises:
        MessageError: a message is not valid, or was made for another size.
    """
    if part is None:
        return before
    if not isinstance(part, list):
        return np.frombuffer(part, tensor.kept).reshape(tensor.shape)
    changed = np.array(before, np.float32)
    flat = changed.reshape(-1)
    for i, message in enumerate(part):
        gradwire.add(message, flat[i * PIECE : (i + 1) * PIECE])
    return changed


def _open(data: bytes, kind: int) -> Reader:
    reader = Reader(data, 0)
    found = reader.u8()
    if found != kind:
        raise MessageError(f"the bundle is of kind {found} where {kind} is due")
    return reader
