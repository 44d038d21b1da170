"""What crosses between a device and the host, and in how few bytes; nothing else in this package moves data.

Levels cross as integers of the fewest fixed bits, with exceptions: numbers that do not fit in these follow with their
positions. The width is the one that takes the fewest bytes, so a vector with few levels that are not 0 crosses as a
sparse one, and a single outlier does not widen all others.

Source: Zukowski, Héman, Nes, Boncz, "Super-scalar RAM-CPU cache compression", ICDE 2006 (patched frames of reference).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = [
    "CHUNK",
    "bits_down",
    "down",
    "fewest_bits",
    "indices_up",
    "numbers_down",
    "numbers_up",
    "on_host",
    "pack",
    "to_host",
    "unpack",
    "up",
    "zeros",
]

Words = npt.NDArray[np.uint32]

CHUNK = 2**22
"""Entries that are worked on at a time, so that 64-bit temporaries stay small: a multiple of the format's blocks."""

WIDTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32)
"""Bits of a packed number: a few of them make whole bytes, and fit in 64 bits."""

EXCEPTION_BYTES = 8


def down(tensor: Tensor) -> npt.NDArray[Any]:
    """A tensor's entries on the host."""
    return tensor.cpu().numpy()


def on_host(array: npt.NDArray[np.generic]) -> Tensor:
    """A tensor of an array's memory."""
    # torch warns of arrays that may not be written to, though nothing here writes to one that it was not to.
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def zeros(n: int, device: Any) -> Tensor:
    """n zeros, float32, on a device."""
    return torch.zeros(n, dtype=torch.float32, device=device)


def up(array: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """An array's entries on a device; uint32 as int32 of the same bits, for few operations know the former."""
    if array.dtype == np.uint32:
        array = array.view(np.int32)
    elif array.dtype == np.uint16:
        array = array.view(np.int16)
    return on_host(array).to(device)


def to_host(x: Tensor) -> npt.NDArray[Any]:
    """A vector, or ascending indices, of a device on the host: float32 (n,) or uint32 (k,).

    Indices cross as gaps, of far fewer bits.
    """
    if x.is_floating_point():
        return down(x)
    gaps = torch.diff(x, prepend=x.new_zeros(1)).to(torch.int32)
    return np.cumsum(numbers_down(gaps), dtype=np.uint32)


def indices_up(indices: Words, device: torch.device) -> Tensor:
    """Ascending indices of the host on a device: int64 (k,)."""
    return numbers_up(np.diff(indices, prepend=np.uint32(0)), device).cumsum(0)


def pack(numbers: Tensor, width: int) -> Tensor:
    """Numbers below 2^width back to back, from the lowest bit of the first byte on: uint8.

    Args:
        numbers: integers (m,) of 32 or 64 bits, not negative unless width = 32.
        width: one of WIDTHS, above 0.

    Example:
        >>> pack(torch.tensor([1, 2, 3, 0, 1]), 2).tolist()
        [57, 1]
    """
    if width == 32:
        return numbers.to(torch.int32).view(torch.uint8)
    group, size = _group(width)
    padded = torch.nn.functional.pad(numbers.to(torch.int64), (0, -len(numbers) % group)).view(-1, group)
    # A sum of disjoint bits is their union; the uppermost may be the sign.
    words = (padded << _places(group, width, numbers.device)).sum(1)
    packed = words.view(torch.uint8).view(-1, 8)[:, :size].reshape(-1)
    return packed[: -(-len(numbers) * width // 8)]


def unpack(data: Tensor, m: int, width: int) -> Tensor:
    """The m numbers that :func:`pack` packed: int64 (m,), in 0 … 2^32 − 1.

    Example:
        >>> unpack(torch.tensor([57, 1], dtype=torch.uint8), 5, 2).tolist()
        [1, 2, 3, 0, 1]
    """
    if width == 32:
        return data.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    group, size = _group(width)
    groups = -(-m // group)
    whole = torch.nn.functional.pad(data, (0, groups * size - len(data))).view(groups, size)
    words = torch.nn.functional.pad(whole, (0, 8 - size)).view(torch.int64)
    return (words >> _places(group, width, data.device) & (1 << width) - 1).view(-1)[:m]


def numbers_down(numbers: Tensor) -> Words:
    """Numbers of a device on the host: uint32 (m,).

    Args:
        numbers: int32 (m,), the bits of uint32.
    """
    out = np.empty(len(numbers), np.uint32)
    for begin in range(0, len(numbers), CHUNK):
        chunk = numbers[begin : begin + CHUNK]
        out[begin : begin + len(chunk)] = _chunk_down(chunk)
    return out


def _chunk_down(numbers: Tensor) -> Words:
    m = len(numbers)
    width = fewest_bits(numbers)
    if width == 32:
        return down(numbers).view(np.uint32)
    where = torch.nonzero(numbers >> width).view(-1)
    out = np.zeros(m, np.uint32)
    if width:
        packed = torch.from_numpy(down(pack(numbers & (1 << width) - 1, width)))
        out = unpack(packed, m, width).numpy().astype(np.uint32)
    if len(where):
        positions, values = down(torch.stack([where.to(torch.int32), numbers[where]]))
        out[positions] = values.view(np.uint32)
    return out


def numbers_up(numbers: Words, device: torch.device) -> Tensor:
    """Numbers of the host on a device: int64 (m,), in 0 … 2^32 − 1."""
    host = on_host(numbers.view(np.int32))
    out = torch.empty(len(numbers), dtype=torch.int64, device=device)
    for begin in range(0, len(numbers), CHUNK):
        chunk = host[begin : begin + CHUNK]
        out[begin : begin + len(chunk)] = _chunk_up(chunk, device)
    return out


def _chunk_up(numbers: Tensor, device: torch.device) -> Tensor:
    m = len(numbers)
    width = fewest_bits(numbers)
    if width == 32:
        return unpack(pack(numbers, width).to(device), m, width)
    where = torch.nonzero(numbers >> width).view(-1)
    out = torch.zeros(m, dtype=torch.int64, device=device)
    if width:
        out = unpack(pack(numbers & (1 << width) - 1, width).to(device), m, width)
    if len(where):
        positions, values = torch.stack([where.to(torch.int32), numbers[where]]).to(device).to(torch.int64)
        out[positions] = values & 0xFFFFFFFF
    return out


def fewest_bits(numbers: Tensor) -> int:
    """The width for which packed numbers, the bits of uint32, and exceptions take the fewest bytes.

    Example:
        >>> fewest_bits(torch.tensor([1] * 1000)), fewest_bits(torch.tensor([0] * 999 + [4000]))
        (1, 0)
    """
    m = len(numbers)
    sizes = {}
    for width in WIDTHS[:-1]:
        large = int(torch.count_nonzero(numbers >> width))
        sizes[width] = m * width // 8 + EXCEPTION_BYTES * large
        if 8 * EXCEPTION_BYTES * large <= m:  # a bit more for all would cost more than these
            break
    else:
        sizes[32] = 4 * m
    return min(sizes, key=lambda width: sizes[width])


def bits_down(bits: Tensor) -> bytes:
    """Booleans (m,) of a device as bytes on the host, the first in the lowest bit."""
    chunks = [down(pack(bits[begin : begin + CHUNK], 1)).tobytes() for begin in range(0, len(bits), CHUNK)]
    return b"".join(chunks)


def _group(width: int) -> tuple[int, int]:
    """How many numbers make a word of at most 64 bits, and its bytes."""
    group = 8 if width <= 8 else 4
    return group, group * width // 8


def _places(group: int, width: int, device: torch.device) -> Tensor:
    return torch.arange(0, group * width, width, device=device)
