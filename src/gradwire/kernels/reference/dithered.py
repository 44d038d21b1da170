"""The universal dithered code (wire format 7.5): the native versions fuse what stands here one after another."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.context_tables import count_contextual, dither_contexts
from gradwire.kernels.reference.contextual import decode_contextual, encode_contextual
from gradwire.kernels.reference.levels import add_dequantised
from gradwire.kernels.reference.quantise import quantise

__all__ = ["add_dithered", "count_dithered", "encode_dithered"]

Floats = npt.NDArray[np.float32]
Tables = npt.NDArray[np.uint16]

SHARED = 2


def count_dithered(x: Floats, inverse: float, seed: int) -> npt.NDArray[np.uint64]:
    """How often each token is met in each of 16 contexts."""
    return count_contextual(quantise(x, inverse, SHARED, seed, 0), dither_contexts(seed, 0, len(x), 4))


def encode_dithered(x: Floats, inverse: float, seed: int, tables: Tables) -> bytes:
    """The levels as integers in contexts that the dither gives."""
    contexts = dither_contexts(seed, 0, len(x), len(tables).bit_length() - 1)
    return encode_contextual(quantise(x, inverse, SHARED, seed, 0), contexts, tables)


def add_dithered(
    data: bytes | bytearray | memoryview,
    out: Floats,
    tables: Tables,
    seed: int,
    step: float,
    power: float,
    weight: float,
) -> None:
    """out ← out + weight·((step·(k − U))·power), saturating."""
    contexts = dither_contexts(seed, 0, len(out), len(tables).bit_length() - 1)
    zigzag, used = decode_contextual(data, contexts, tables)
    if used != len(memoryview(data)):
        raise MessageError(f"the message has {len(memoryview(data)) - used} bytes too many")
    add_dequantised(out, zigzag, step, power, weight, True, seed, 0)
