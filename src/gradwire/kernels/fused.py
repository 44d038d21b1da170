"""Vectors straight to entropy-coded sections and back, without the levels between: native code for arrays.

Tensors of accelerators are rounded there, and their levels coded on the host. What adds from a section raises
MessageError, with ``out`` as before, unless the section is valid and fills ``data``.
"""

import math

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels import backends, vectors
from gradwire.kernels.backends import Vector

__all__ = [
    "add_bucket_levels",
    "add_dithered",
    "add_frames",
    "add_table_levels",
    "count_dithered",
    "encode_coefficients",
    "encode_dithered",
    "encode_divided_levels",
    "encode_powers",
    "signs",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Tables = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.uint64]
Bytes = bytes | bytearray | memoryview
Blocks = list[bytes | memoryview]
Frames = dict[int, tuple[Words, Floats]]

BIAS = 150
STOCHASTIC, SHARED = 1, 2


def encode_divided_levels(x: Vector, divisors: Floats, bucket: int, seed: int) -> tuple[Blocks, int]:
    """The integers section of x/divisor rounded at random with words of (seed, 0), in pieces; how many are not 0.

    Args:
        x: float32 (n,).
        divisors: of each run of ``bucket`` entries: float32 (⌈n/bucket⌉,), not 0.
        bucket: at least 1.
        seed: of the words.
    """
    if isinstance(x, np.ndarray):
        return backends.active.encode_divided_levels(x, divisors, bucket, seed, 0)
    t = vectors.divided(x, divisors, bucket)
    return backends.of(t).encode_levels(t, 1.0, STOCHASTIC, seed, 0)


def encode_powers(x: Vector, divisor: float, lowest: int, seed: int, magnitude: float) -> tuple[int, Blocks, int]:
    """Levels of x/divisor rounded to powers of two, as :func:`natural_levels` gives them: coded, and never there.

    Args:
        x: float32 (n,).
        divisor: of every entry.
        lowest: the smallest exponent.
        seed: of the words.
        magnitude: the largest of x, which is finite.

    Returns:
        The largest exponent, the integers section in pieces, and how many levels are not 0.
    """
    if not isinstance(x, np.ndarray):
        quotients = vectors.divided(x, np.array([divisor], np.float32), len(x))
        zigzag, exponent = vectors.natural_levels(quotients, lowest, seed)
        return exponent, [backends.active.encode_integers(zigzag)], int(np.count_nonzero(zigzag))
    largest = backends.active.largest_power(x, divisor, lowest, seed, 0, magnitude)
    blocks, nonzero = backends.active.encode_powers(x, divisor, lowest, largest, seed, 0)
    return largest - BIAS if largest else 0, blocks, nonzero


def add_bucket_levels(data: Bytes, out: Vector, steps: Floats, bucket: int, power: float, weight: float) -> None:
    """out ← out + weight·((step·k)·power), saturating, with a step for each run of ``bucket`` entries."""
    if isinstance(out, np.ndarray):
        backends.active.add_bucket_levels(data, out, steps, bucket, power, weight)
    else:
        vectors.add_in_buckets(out, _whole_section(data, len(out), 2**32 - 1), steps, bucket, power, weight)


def add_table_levels(data: Bytes, out: Vector, values: Floats, weight: float) -> None:
    """out ← out + weight·values[zigzag k]; a level beyond the table is not valid."""
    if isinstance(out, np.ndarray):
        backends.active.add_table_levels(data, out, values, weight)
    else:
        vectors.add_table(out, _whole_section(data, len(out), len(values)), values, weight)


def signs(x: Vector) -> tuple[Bytes, float]:
    """One bit an entry, 1 if it is below 0, the first in the lowest bit; and Σ |x_i| as in 4.6, finite if x is."""
    if isinstance(x, np.ndarray):
        bits, total = backends.active.pack_signs(x)
        return bits.data, total
    if backends.of(x).find_nonfinite(x) >= 0:
        return b"", math.nan
    return backends.of(x).negative_bits(x), backends.of(x).sum_abs(x)


def count_dithered(x: Floats, inverse: float, seed: int) -> Counts:
    """:func:`count_contextual` of the levels round(x·inverse + U) in contexts of 4 bits: uint64 (16, 141)."""
    return backends.active.count_dithered(x, inverse, seed)


def encode_dithered(x: Floats, inverse: float, seed: int, tables: Tables) -> bytes:
    """:func:`encode_contextual` of these levels; there are 2^bits tables."""
    return backends.active.encode_dithered(x, inverse, seed, tables)


def add_dithered(data: Bytes, out: Vector, tables: Tables, seed: int, step: float, power: float, weight: float) -> None:
    """out ← out + weight·((step·(k − U))·power), saturating, from a section of integers in context."""
    if isinstance(out, np.ndarray):
        backends.active.add_dithered(data, out, tables, seed, step, power, weight)
        return
    contexts = backends.active.dither_contexts(seed, 0, len(out), len(tables).bit_length() - 1)
    zigzag, used = backends.active.decode_contextual(data, contexts, tables)
    _check_whole(data, used)
    vectors.add_dequantised(out, zigzag, step, power, weight, True, seed)


def encode_coefficients(p: Vector, magnitudes: Floats, levels: int, seed: int, before: int) -> Blocks:
    """The integers section of Kashin's coefficients, rounded at random to 0 … levels − 1 (7.11), in pieces.

    Args:
        p: float32 (rows·2^j,).
        magnitudes: the largest of each row: float32 (rows,); rows of zeros have 0.
        levels: 2 … 4096.
        seed: of the words.
        before: how many coefficients of the vector come before p; a multiple of 2^20.
    """
    order = len(p) // len(magnitudes)
    if isinstance(p, np.ndarray):
        return backends.active.encode_coefficients(p, magnitudes, order.bit_length() - 1, levels, seed, before)
    half = (levels - 1) / 2
    scale = np.where(magnitudes == 0, np.float32(1), magnitudes).astype(np.float32, copy=False)
    numbers = backends.of(p).rounded(vectors.divided(p, scale, order) * half + half, seed, 0, before)
    numbers.reshape(-1, order)[magnitudes == 0] = 0
    return [backends.active.encode_integers(numbers)]


def add_frames(
    data: Bytes,
    out: Vector,
    levels: int,
    log2n: int,
    frame_of: Words,
    frames: Frames,
    steps: Floats,
    power: float,
    weight: float,
) -> None:
    """out ← out + weight·(what rounded coefficients stand for), saturating: wire format 7.11.

    Args:
        data: the integers section of chunks·2^log2n numbers below ``levels``.
        out: float32 (n,).
        levels: at most 4096.
        log2n: at most 12.
        frame_of: the number of each chunk's frame: uint32 (chunks,).
        frames: positions, uint32 (c,), and signs, float32 (c,), of each frame that is used.
        steps: of each chunk: float32 (chunks,).
        power: of two, for all.
        weight: finite.
    """
    if not isinstance(out, np.ndarray):
        numbers = _whole_section(data, len(steps) << log2n, levels)
        return backends.of(out).add_frames(out, numbers, levels, frame_of, frames, steps, power, weight)
    row = np.zeros(max(frames) + 1, np.uint32)
    row[list(frames)] = np.arange(len(frames))
    positions, turns = (np.stack(parts) for parts in zip(*frames.values(), strict=True))
    return backends.active.add_frames(data, out, levels, log2n, row[frame_of], positions, turns, steps, power, weight)


def _whole_section(data: Bytes, m: int, limit: int) -> Words:
    numbers, used = backends.active.decode_integers(data, m)
    _check_whole(data, used)
    if numbers.max(initial=0) >= limit:
        raise MessageError(f"the message holds the number {numbers.max()} where only {limit} are known")
    return numbers


def _check_whole(data: Bytes, used: int) -> None:
    if used != len(memoryview(data)):
        raise MessageError(f"the message has {len(memoryview(data)) - used} bytes too many")
