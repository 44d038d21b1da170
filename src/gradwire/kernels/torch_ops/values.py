"""Float formats on the way out, and weighted adding on a device.

One operation after another, each of which rounds once: none of those that multiply and add in one, for they are free to
contract.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradwire.errors import MessageError
from gradwire.kernels import backends
from gradwire.kernels.torch_ops.crossing import CHUNK, bits_down, down, indices_up, numbers_up, unpack, up
from gradwire.kernels.torch_ops.random import uniform

__all__ = [
    "add_dense",
    "add_dequantised",
    "add_floats",
    "add_in_buckets",
    "add_levels",
    "add_signs",
    "add_sparse",
    "add_table",
    "encode_bfloat16",
    "encode_float16",
    "gather",
    "negative_bits",
]

Words = npt.NDArray[np.uint32]
Halves = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
Bytes = bytes | bytearray | memoryview

LARGEST = float(np.finfo(np.float32).max)


def gather(x: Tensor, indices: Words | Tensor) -> Tensor:
    """x[indices], on x's device."""
    return x.index_select(0, _positions(indices, x.device))


def encode_float16(x: Tensor, exponent: int) -> Halves:
    """x·2^−exponent as binary16, saturating, on the host."""
    # Exact in binary32, but for what becomes 0 in binary16 anyway.
    halves = (x * 2.0**-exponent).clamp(-65504.0, 65504.0).to(torch.float16)
    return down(halves.view(torch.int16)).view(np.uint16)


def encode_bfloat16(x: Tensor) -> Halves:
    """x as bfloat16, nearest even, saturating, on the host."""
    bits = x.view(torch.int32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF
    halves = torch.where(rounded & 0x7FFF >= 0x7F80, rounded & 0x8000 | 0x7F7F, rounded)
    return down(halves.to(torch.int16)).view(np.uint16)


def negative_bits(x: Tensor) -> bytes:
    """One bit an entry on the host, 1 if it is below 0; the first in the lowest bit."""
    return bits_down(x < 0)


def add_dense(out: Tensor, values: Floats | Tensor, weight: float) -> None:
    """out ← out + weight·values."""
    if not isinstance(values, Tensor):
        values = up(values, out.device)
    out += values * weight


def add_sparse(out: Tensor, indices: Words, values: Floats, weight: float) -> None:
    """out[indices] ← out[indices] + weight·values, distinct indices: no two meet, whatever the order."""
    at = _positions(indices, out.device)
    out.index_copy_(0, at, out.index_select(0, at) + up(values, out.device) * weight)


def add_floats(data: Bytes, out: Tensor, format: int, exponent: int, weight: float) -> None:
    """out ← out + weight·values, from binary32 (0), binary16·2^exponent (1) or bfloat16 (2) numbers."""
    if format == 0:
        values = up(np.frombuffer(data, np.float32), out.device)
    else:
        halves = up(np.frombuffer(data, np.uint16), out.device)
        if format == 1:
            values = halves.view(torch.float16).to(torch.float32) * 2.0**exponent
        else:
            values = halves.view(torch.bfloat16).to(torch.float32)
    if not bool(torch.isfinite(values).all()):
        raise MessageError("the message holds NaN or infinity")
    add_dense(out, values, weight)


def add_levels(
    data: Bytes, out: Tensor, step: float, power: float, weight: float, shared: bool, seed: int, stream: int
) -> None:
    """out ← out + weight·(dequantised·power), saturating, from an integers section that fills ``data``."""
    zigzag, used = backends.active.decode_integers(data, len(out))
    if used != len(memoryview(data)):
        raise MessageError(f"the message has {len(memoryview(data)) - used} bytes too many")
    if zigzag.max(initial=0) == 2**32 - 1:
        raise MessageError("the message holds a level beyond the range of 32 bits")
    add_dequantised(out, zigzag, step, power, weight, shared, seed, stream)


def add_dequantised(
    out: Tensor, zigzag: Words, step: float, power: float, weight: float, shared: bool, seed: int, stream: int
) -> None:
    """out ← out + weight·((step·q)·power), saturating; q as in dequantise."""
    for begin in range(0, len(out), CHUNK):
        part = out[begin : begin + CHUNK]
        q = _signed(numbers_up(zigzag[begin : begin + CHUNK], out.device))
        if shared:
            q = q - (uniform(seed, stream, begin, len(part), out.device) - 0.5)
        part += (q * step * power).clamp(-LARGEST, LARGEST) * weight


def add_in_buckets(out: Tensor, zigzag: Words, steps: Floats, bucket: int, power: float, weight: float) -> None:
    """out ← out + weight·((step·k)·power), saturating, with the step of each entry's bucket."""
    on_device = up(steps, out.device)
    for begin in range(0, len(out), CHUNK):
        part = out[begin : begin + CHUNK]
        k = _signed(numbers_up(zigzag[begin : begin + CHUNK], out.device))
        buckets = torch.arange(begin, begin + len(part), device=out.device) // bucket
        part += (k * on_device[buckets] * power).clamp(-LARGEST, LARGEST) * weight


def add_table(out: Tensor, numbers: Words, table: Floats, weight: float) -> None:
    """out ← out + weight·table[numbers]."""
    on_device = up(table, out.device)
    for begin in range(0, len(out), CHUNK):
        chosen = numbers_up(numbers[begin : begin + CHUNK], out.device)
        add_dense(out[begin : begin + CHUNK], on_device[chosen], weight)


def add_signs(out: Tensor, bits: Bytes, scale: float, weight: float) -> None:
    """out ← out ± weight·scale, − where the entry's bit is 1."""
    on_device = up(np.frombuffer(bits, np.uint8), out.device)
    for begin in range(0, len(out), CHUNK):
        part = out[begin : begin + CHUNK]
        negative = unpack(on_device[begin // 8 : (begin + CHUNK) // 8], len(part), 1)
        add_dense(part, (negative.to(torch.float32) * -2.0 + 1.0) * scale, weight)


def _signed(zigzag: Tensor) -> Tensor:
    """The binary32 nearest to each level."""
    return ((zigzag >> 1) ^ -(zigzag & 1)).to(torch.float32)


def _positions(indices: Words | Tensor, device: torch.device) -> Tensor:
    if isinstance(indices, Tensor):
        return indices
    return indices_up(indices, device)
