"""Vectors to messages and back: the library's front door."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradwire import kernels
from gradwire.codecs.arrays import as_output, as_vector
from gradwire.codecs.base import Codec, decoder_of
from gradwire.codecs.spec import from_spec
from gradwire.errors import InputError, MessageError
from gradwire.rng import Rng, as_rng
from gradwire.wire import Frame, Reader, Writer, open_frame, seal_frame

__all__ = ["Inspection", "add", "decode", "encode", "inspect"]


def encode(codec: Codec | str, x: Any, rng: Rng | int) -> bytes:
    """The message of a vector: header, payload, checksum.

    Definition: E(x); ``len()`` of it is what the vector costs, and nothing else is.

    Args:
        codec: the codec, or its text form.
        x: numpy array or torch tensor (n,), float32, float64, float16 or bfloat16; not changed. n < 2^32, n = 0
            included. A tensor on an accelerator is worked on there, and little of it crosses to the host.
        rng: a generator, or an int as its seed: the same x and rng give the same bytes. Workers of one step need
            different ones.

    Raises:
        InputError: x is not finite (the position is named), not one-dimensional, or of another dtype.
        ParameterError: the codec does not fit n.

    Example:
        >>> import numpy as np
        >>> len(encode("topk:k=1", np.arange(1000, dtype=np.float32), 0))
        21

    Source: docs/wire-format.md; docs/torch-backend.md for what crosses.
    """
    if isinstance(codec, str):
        codec = from_spec(codec)
    y, generator, writer = as_vector(x), as_rng(rng), Writer()
    if len(y):
        codec.encode(y if codec.on_device else kernels.to_host(y), writer, generator)
    else:
        codec.check(0)
    return seal_frame(codec.code, len(y), writer)


def add(message: bytes | memoryview, out: Any, weight: float = 1.0) -> None:
    """Adds a message's vector to a sum: out ← out + weight·C(x), without a dense temporary for a sparse message.

    Args:
        message: bytes, memoryview or uint8 array.
        out: float32 (n,), numpy array or torch tensor on any device, contiguous; changed in place.
        weight: finite; rounded to float32 first.

    Raises:
        MessageError: the bytes are not a valid message for n entries; ``out`` is as before.
        InputError: out or weight is not as said.

    Example:
        >>> import numpy as np
        >>> total = np.zeros(4, np.float32)
        >>> for worker in range(2):
        ...     add(encode("topk:k=1", np.array([0, 2, 0, 1], np.float32), worker), total, weight=0.5)
        >>> total.tolist()
        [0.0, 2.0, 0.0, 0.0]

    Source: docs/wire-format.md, section 2.
    """
    y = as_output(out)
    with np.errstate(over="ignore"):
        weight = float(np.float32(weight))
    if not math.isfinite(weight):
        raise InputError(f"the weight is {weight}: a finite float32 is due")
    frame = _open(message)
    if frame.n != len(y):
        raise MessageError(
            f"the message is for {frame.n} entries, but {len(y)} are expected: it belongs to another vector"
        )
    codec = decoder_of(frame.codec, inner=False)
    reader = Reader(frame.payload, frame.n)
    if frame.n:
        codec.add(reader, y, weight)
    else:
        reader.end()


def decode(message: bytes | memoryview, n: int, device: Any = None) -> Any:
    """The vector of a message.

    Args:
        message: bytes, memoryview or uint8 array.
        n: the receiver's own number of entries, never the message's.
        device: a torch device, or its name, to decode to; without it the result is a numpy array.

    Returns:
        C(x), float32 (n,), all finite: numpy array, or torch tensor on ``device``.

    Raises:
        MessageError: the bytes are not a valid message for n entries.
        MissingError: a device is given, and torch is not installed.

    Example:
        >>> import numpy as np
        >>> decode(encode("identity", np.array([1.5, -2.0]), 0), 2).tolist()
        [1.5, -2.0]

    Source: docs/wire-format.md, section 2.
    """
    out = kernels.zeros(n, device)
    add(message, out)
    return out


@dataclass(frozen=True)
class Inspection:
    """What a message says of itself; ``details`` are the codec's own."""

    version: int
    codec: str
    n: int
    bytes: int
    payload_bytes: int
    bits_per_coordinate: float
    ratio: float
    details: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def inspect(message: bytes | memoryview) -> Inspection:
    """Tells what a message holds, without decoding its values.

    Returns:
        format version, codec name, n, sizes in bytes, bits per coordinate, ratio to float32 (4n bytes), and the
        codec's details.

    Raises:
        MessageError: the bytes are not a valid message.

    Example:
        >>> import numpy as np
        >>> seen = inspect(encode("topk:k=10", np.arange(1000, dtype=np.float32), 0))
        >>> seen.codec, seen.n, seen.details["k"]
        ('topk', 1000, 10)
    """
    frame = _open(message)
    codec = decoder_of(frame.codec, inner=False)
    size = memoryview(message).nbytes
    details = codec.describe(Reader(frame.payload, frame.n)) if frame.n else {}
    return Inspection(
        version=frame.version,
        codec=codec.name,
        n=frame.n,
        bytes=size,
        payload_bytes=len(frame.payload),
        bits_per_coordinate=8 * size / frame.n if frame.n else math.inf,
        ratio=4 * frame.n / size,
        details=details,
    )


def _open(message: bytes | memoryview) -> Frame:
    try:
        view = memoryview(message).cast("B")
    except TypeError:
        raise MessageError(f"a message is bytes, not {type(message).__name__}") from None
    return open_frame(view)
