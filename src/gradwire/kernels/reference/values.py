"""Plain float kernels: finiteness, half precision, gathering and weighted adding."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError

__all__ = [
    "add_dense",
    "add_floats",
    "add_sparse",
    "decode_bfloat16",
    "decode_float16",
    "encode_bfloat16",
    "encode_float16",
    "find_nonfinite",
    "first_nonfinite",
    "gather",
    "max_abs",
    "put_sparse",
    "taken",
]

Words = npt.NDArray[np.uint32]
Halves = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]


def find_nonfinite(x: Floats) -> int:
    """Index of the first NaN or infinity, −1 if there is none."""
    bad = ~np.isfinite(x)
    return int(np.argmax(bad)) if bad.any() else -1


def first_nonfinite(x: Floats, indices: Words) -> int:
    """The first of the indices where x is NaN or infinity, −1 if there is none."""
    i = find_nonfinite(x[indices])
    return int(indices[i]) if i >= 0 else -1


def max_abs(x: Floats) -> float:
    """The largest magnitude; 0 for an empty vector."""
    return float(np.abs(x).max(initial=0.0))


def gather(x: Floats, indices: Words) -> Floats:
    """x[indices], x of 32-bit numbers."""
    return x[indices]


def add_dense(out: Floats, values: Floats, weight: float) -> None:
    """out ← out + weight·values."""
    with np.errstate(over="ignore", invalid="ignore"):
        out += np.float32(weight) * values


def add_floats(data: bytes | bytearray | memoryview, out: Floats, format: int, exponent: int, weight: float) -> None:
    """out ← out + weight·values, from binary32 (0), binary16·2^exponent (1) or bfloat16 (2) numbers."""
    if format == 0:
        values = np.frombuffer(data, "<f4").astype(np.float32)
    else:
        halves = np.frombuffer(data, "<u2").astype(np.uint16)
        values = decode_float16(halves, exponent) if format == 1 else decode_bfloat16(halves)
    if find_nonfinite(values) >= 0:
        raise MessageError("the message holds NaN or infinity")
    add_dense(out, values, weight)


def add_sparse(out: Floats, indices: Words, values: Floats, weight: float) -> None:
    """out[indices] ← out[indices] + weight·values, distinct indices."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[indices] += np.float32(weight) * values


def put_sparse(out: Floats, indices: Words, values: Floats) -> None:
    """out[indices] ← values, distinct indices."""
    out[indices] = values


def taken(values: Floats) -> Floats:
    """What sending entries leaves of them: 0, but of −0, which is decoded as 0, itself."""
    return np.where(values == 0, values, np.float32(0))


def encode_float16(x: Floats, exponent: int) -> Halves:
    """x·2^−exponent as binary16, nearest even, saturating at 65504.

    The scaling is exact in binary64, so there is one rounding only.
    """
    scaled = np.ldexp(x.astype(np.float64), -exponent)
    return np.clip(scaled, -65504.0, 65504.0).astype(np.float16).view(np.uint16)


def decode_float16(h: Halves, exponent: int) -> Floats:
    """Binary16 times 2^exponent in binary32."""
    with np.errstate(invalid="ignore"):
        return h.view(np.float16).astype(np.float32) * np.float32(2.0**exponent)


def encode_bfloat16(x: Floats) -> Halves:
    """The upper half of x, rounded to nearest even, saturating."""
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    overflow = (rounded & 0x7FFF) >= 0x7F80
    return np.where(overflow, (rounded & 0x8000) | 0x7F7F, rounded).astype(np.uint16)


def decode_bfloat16(h: Halves) -> Floats:
    """bfloat16 as float32."""
    return (h.astype(np.uint32) << 16).view(np.float32)
