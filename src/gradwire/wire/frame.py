"""The frame: magic, version, codec, n, payload, checksum."""

from dataclasses import dataclass

from gradwire import kernels
from gradwire.errors import InputError, MessageError
from gradwire.wire.reader import Reader
from gradwire.wire.writer import Writer

__all__ = ["HEADER_BYTES_MAX", "N_MAX", "Frame", "open_frame", "seal_frame"]

MAGIC = b"gw"
VERSION = 1
N_MAX = 2**32 - 1
CHECKSUM_BYTES = 4
HEADER_BYTES_MAX = len(MAGIC) + 2 + 5 + CHECKSUM_BYTES
"""What a frame adds to its payload, at most."""


@dataclass(frozen=True)
class Frame:
    """A frame taken apart, its checksum verified."""

    version: int
    codec: int
    n: int
    payload: memoryview


def seal_frame(codec: int, n: int, payload: Writer) -> bytes:
    """The frame around a payload.

    Args:
        codec: the codec's code, 0 … 255.
        n: entries of the vector, at most 2^32 − 1.
        payload: the writer that holds the payload.

    Source: docs/wire-format.md, section 2.
    """
    if n > N_MAX:
        raise InputError(f"the vector has {n} entries; a message holds at most {N_MAX}: split the vector")
    head = Writer()
    head.raw(MAGIC)
    head.u8(VERSION)
    head.u8(codec)
    head.varint(n)
    return kernels.seal(head.parts() + payload.parts())


def open_frame(message: bytes | memoryview) -> Frame:
    """Takes a frame apart.

    Raises:
        MessageError: not a gradwire message, of a later version, cut short, or damaged.

    Source: docs/wire-format.md, section 2.
    """
    view = memoryview(message)
    if bytes(view[: len(MAGIC)]) != MAGIC[: len(view)]:
        raise MessageError("this is not a gradwire message: it does not begin with the bytes 67 77")
    reader = Reader(view[: max(0, len(view) - CHECKSUM_BYTES)], 0)
    reader.take(len(MAGIC))
    version = reader.u8()
    if version != VERSION:
        raise MessageError(
            f"the message has format version {version}, this gradwire reads version {VERSION}: "
            "use the same gradwire on both sides"
        )
    codec = reader.u8()
    n = reader.varint(N_MAX)
    if kernels.crc32c(reader.data) != int.from_bytes(view[len(view) - CHECKSUM_BYTES :], "little"):
        raise MessageError("the message is damaged: its checksum does not fit its bytes")
    return Frame(version, codec, n, reader.data[reader.position :])
