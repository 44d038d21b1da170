"""Signs as bits (wire format 7.10)."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.quantise import sum_abs
from gradwire.kernels.reference.values import add_dense

__all__ = ["add_signs", "pack_signs"]

Floats = npt.NDArray[np.float32]


def pack_signs(x: Floats) -> tuple[npt.NDArray[np.uint8], float]:
    """Bits from the lowest on, 1 where x < 0, and the sum of all magnitudes."""
    return np.packbits(x < 0, bitorder="little"), sum_abs(x)


def add_signs(bits: bytes | bytearray | memoryview, out: Floats, scale: float, weight: float) -> None:
    """out ← out ± weight·scale."""
    negative = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    if negative[len(out) :].any():
        raise MessageError("the message has padding bits that are not zero")
    add_dense(out, np.where(negative[: len(out)], -np.float32(scale), np.float32(scale)), weight)
