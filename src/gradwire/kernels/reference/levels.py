"""Levels in and out: the native versions fuse what stands here one after another."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.indices import encode_indices
from gradwire.kernels.reference.integers import _varint, decode_integers, encode_integers
from gradwire.kernels.reference.quantise import level_sums, quantise
from gradwire.kernels.reference.random import uniform
from gradwire.kernels.reference.values import add_dense

__all__ = [
    "add_bucket_levels",
    "add_dequantised",
    "add_levels",
    "add_table_levels",
    "dequantise",
    "encode_divided_levels",
    "encode_level_numbers",
    "encode_levels",
    "encode_summed_levels",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

LARGEST = np.finfo(np.float32).max


SHORT = 4096
"""Up to this many levels both forms are tried."""


def encode_level_numbers(zigzag: Words) -> bytes:
    """The levels section (4.4) of zigzag numbers: sparse if few are not 0, or if they are few and it is shorter."""
    m, c = len(zigzag), int(np.count_nonzero(zigzag))
    sparse = _sparse(zigzag, c) if 64 * c < m or m <= SHORT else None
    dense = b"\0" + encode_integers(zigzag) if 64 * c >= m else None
    if dense is None or (sparse is not None and len(sparse) < len(dense)):
        assert sparse is not None
        return sparse
    return dense


def _sparse(zigzag: Words, c: int) -> bytes:
    where = np.flatnonzero(zigzag).astype(np.uint32)
    form = b"\1" + _varint(c)
    return form + encode_indices(where, len(zigzag)) + encode_integers(zigzag[where] - np.uint32(1)) if c else form


def encode_levels(x: Floats, inverse: float, rounding: int, seed: int, stream: int) -> tuple[list[bytes], int]:
    """The integers section of the levels, and how many are not 0."""
    zigzag = quantise(x, inverse, rounding, seed, stream)
    return [encode_integers(zigzag)], int(np.count_nonzero(zigzag))


def encode_summed_levels(x: Floats, inverse: float) -> tuple[list[bytes], float, float, int]:
    """The integers section of the levels that nearest rounding gives, and their sums."""
    return encode_levels(x, inverse, 0, 0, 0)[0], *level_sums(x, inverse)


def encode_divided_levels(x: Floats, divisors: Floats, bucket: int, seed: int, stream: int) -> tuple[list[bytes], int]:
    """The same of stochastic rounding of x/divisor, with a divisor for each bucket."""
    return encode_levels(x / of_entries(divisors, bucket, len(x)), 1.0, 1, seed, stream)


def of_entries(of_buckets: Floats, bucket: int, n: int) -> Floats:
    """What each entry's bucket has: float32 (n,)."""
    return np.repeat(of_buckets, bucket)[:n]


def add_levels(
    data: bytes | bytearray | memoryview,
    out: Floats,
    step: float,
    power: float,
    weight: float,
    shared: bool,
    seed: int,
    stream: int,
) -> None:
    """out ← out + weight·(dequantised·power), saturating."""
    add_dequantised(out, _whole_section(data, len(out)), step, power, weight, shared, seed, stream)


def add_dequantised(
    out: Floats, zigzag: Words, step: float, power: float, weight: float, shared: bool, seed: int, stream: int
) -> None:
    """The same of levels that are decoded already."""
    with np.errstate(over="ignore"):
        values = dequantise(zigzag, step, shared, seed, stream) * np.float32(power)
    add_dense(out, np.clip(values, -LARGEST, LARGEST), weight)


def add_bucket_levels(
    data: bytes | bytearray | memoryview, out: Floats, steps: Floats, bucket: int, power: float, weight: float
) -> None:
    """out ← out + weight·((step·k)·power), saturating, with a step for each bucket."""
    levels = dequantise(_whole_section(data, len(out)), 1.0, False, 0, 0)
    with np.errstate(over="ignore"):
        values = levels * of_entries(steps, bucket, len(out)) * np.float32(power)
    add_dense(out, np.clip(values, -LARGEST, LARGEST), weight)


def add_table_levels(data: bytes | bytearray | memoryview, out: Floats, values: Floats, weight: float) -> None:
    """out ← out + weight·values[zigzag]."""
    zigzag = _whole_section(data, len(out))
    if zigzag.max(initial=0) >= len(values):
        raise MessageError("the message holds a level beyond the smallest that its codec has")
    add_dense(out, values[zigzag], weight)


def _whole_section(data: bytes | bytearray | memoryview, m: int) -> Words:
    """The m zigzag numbers of an integers section that fills data."""
    zigzag, used = decode_integers(data, m)
    if used != len(memoryview(data)):
        raise MessageError(f"the message has {len(memoryview(data)) - used} bytes too many")
    if zigzag.max(initial=0) == 2**32 - 1:
        raise MessageError("the message holds a level beyond the range of 32 bits")
    return zigzag


def dequantise(zigzag: Words, step: float, shared: bool, seed: int, stream: int) -> Floats:
    """step·k, or step·(k − (U − ½))."""
    q = ((zigzag >> 1).astype(np.int32) ^ -(zigzag & 1).astype(np.int32)).astype(np.float32)
    if shared:
        q -= uniform(seed, stream, 0, len(zigzag)) - np.float32(0.5)
    with np.errstate(over="ignore"):
        return np.float32(step) * q
