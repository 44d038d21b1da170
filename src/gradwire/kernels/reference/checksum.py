"""CRC-32C, a byte at a time."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels.reference.values import encode_bfloat16, encode_float16

__all__ = ["crc32c", "seal"]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected


def _register_after(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_register_after(byte) for byte in range(256)]


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """CRC-32C of bytes: initial value and final xor 0xFFFFFFFF (wire format section 2).

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    register = 0xFFFFFFFF
    for byte in np.frombuffer(data, np.uint8).tolist():
        register = (register >> 8) ^ _TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def seal(parts: list[bytes | bytearray | memoryview | tuple[npt.NDArray[np.float32], int | None]]) -> bytes:
    """The parts joined, and behind them their CRC-32C as u32; a vector and an exponent mean 16-bit floats."""
    body = b"".join(_rounded(*part) if isinstance(part, tuple) else part for part in parts)
    return body + crc32c(body).to_bytes(4, "little")


def _rounded(x: npt.NDArray[np.float32], exponent: int | None) -> bytes:
    halves = encode_bfloat16(x) if exponent is None else encode_float16(x, exponent)
    return halves.astype("<u2", copy=False).tobytes()
