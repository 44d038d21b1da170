"""Floor 2: one function a task, several backends with the same bytes.

``native`` (C++, the default) is what runs; ``reference`` (numpy) is the readable oracle that tests hold it against.
The environment variable GRADWIRE_BACKEND=reference chooses the latter for a whole process; GRADWIRE_SIMD=portable,
avx2 or avx512 lowers the instruction set of the former.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import numpy.typing as npt

from gradwire import _core
from gradwire.errors import ParameterError

__all__ = [
    "add_dense",
    "add_floats",
    "add_levels",
    "add_sparse",
    "backend",
    "bucket_squares",
    "child_seed",
    "cost_contextual",
    "count_contextual",
    "crc32c",
    "decode_bfloat16",
    "decode_contextual",
    "decode_float16",
    "decode_indices",
    "decode_integers",
    "decode_spherical",
    "decode_tables",
    "dequantise",
    "dither_contexts",
    "encode_bfloat16",
    "encode_contextual",
    "encode_float16",
    "encode_indices",
    "encode_integers",
    "encode_levels",
    "encode_spherical",
    "encode_summed_levels",
    "extent",
    "find_nonfinite",
    "fit_tables",
    "gather",
    "hadamard",
    "level_sums",
    "max_abs",
    "normalise_tables",
    "philox_words",
    "quantise",
    "reaching",
    "represent",
    "round_natural",
    "seal",
    "spherical_points",
    "spherical_search",
    "subset",
    "sum_abs",
    "sum_squares",
    "top",
    "uniform",
]

Words = npt.NDArray[np.uint32]
Halves = npt.NDArray[np.uint16]
Tables = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.uint64]
Contexts = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.uint64]
Bytes = bytes | bytearray | memoryview


def _load(name: str) -> ModuleType:
    if name == "native":
        return _core
    if name == "reference":
        from gradwire.kernels import reference

        return reference
    raise ParameterError(f"the backend is native or reference, not {name!r} (see GRADWIRE_BACKEND)")


_active = _load(os.environ.get("GRADWIRE_BACKEND", "native"))


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Runs the kernels of another backend inside a with-block; for the whole process, so for tests.

    Example:
        >>> with backend("reference"):
        ...     int(top(np.array([1, -3, 2], np.float32), 1)[0])
        1
    """
    global _active
    before, _active = _active, _load(name)
    try:
        yield
    finally:
        _active = before


def crc32c(data: Bytes) -> int:
    """CRC-32C of bytes."""
    return int(_active.crc32c(data))


def seal(parts: list[Bytes]) -> bytes:
    """The parts joined, and behind them their CRC-32C as u32."""
    return _active.seal(parts)


def philox_words(seed: int, stream: int, start: int, count: int) -> Words:
    """Words start … start + count − 1 of the generator (seed, stream): uint32 (count,)."""
    return _active.philox_words(seed, stream, start, count)


def uniform(seed: int, stream: int, start: int, count: int) -> Floats:
    """Uniform numbers in [0, 1), multiples of 2^−24: float32 (count,)."""
    return _active.uniform(seed, stream, start, count)


def child_seed(seed: int, stream: int, j: int) -> int:
    """The seed of child j of a generator."""
    return int(_active.child_seed(seed, stream, j))


def subset(seed: int, stream: int, n: int, k: int) -> Words:
    """A uniform k-subset of {0 … n − 1}, ascending: uint32 (k,)."""
    return _active.subset(seed, stream, n, k)


def top(x: Floats, r: int) -> Words:
    """Ascending indices of the r largest magnitudes, ties to the lower index: uint32 (r,)."""
    return _active.top(x, r)


def encode_integers(v: Words) -> bytes:
    """The integers section of v."""
    return _active.encode_integers(v)


def decode_integers(data: Bytes, m: int) -> tuple[Words, int]:
    """m numbers from the front of data, and the bytes used."""
    return _active.decode_integers(data, m)


def encode_indices(indices: Words, n: int) -> bytes:
    """The indices section of ascending indices below n."""
    return _active.encode_indices(indices, n)


def decode_indices(data: Bytes, n: int, k: int) -> tuple[Words, int]:
    """k ascending indices below n from the front of data, and the bytes used."""
    return _active.decode_indices(data, n, k)


def dither_contexts(seed: int, stream: int, n: int, bits: int) -> Contexts:
    """The first bits, 0 to 4, of words 0 … n − 1 of the generator (seed, stream): uint8 (n,)."""
    return _active.dither_contexts(seed, stream, n, bits)


def count_contextual(v: Words, contexts: Contexts) -> Counts:
    """How often each token is met in each of 16 contexts: uint64 (16, 141). Nothing is escaped."""
    return _active.count_contextual(v, contexts)


def cost_contextual(counts: Counts, tables: Tables) -> int:
    """What numbers that were counted cost with these tables, in 4096ths of a bit."""
    return int(_active.cost_contextual(counts, tables))


def normalise_tables(counts: Counts) -> Tables:
    """Frequencies that sum to 4096 a row, from counts (which sum to 2^48 at most): uint16 (tables, 141)."""
    return _active.normalise_tables(counts)


def fit_tables(counts: Counts) -> tuple[int, Tables, bytes, int]:
    """The encoder's tables for counts of 16 contexts, or of fewer that are unions of these.

    Returns the bits of a context, its 2^bits tables, these as bytes, and what numbers and tables cost in 4096ths of a
    bit.
    """
    return _active.fit_tables(counts)


def decode_tables(data: Bytes, bits: int) -> tuple[Tables, int]:
    """The 2^bits tables at the front of data, and the bytes used."""
    return _active.decode_tables(data, bits)


def encode_contextual(v: Words, contexts: Contexts, tables: Tables) -> bytes:
    """The integers-in-context section of v; contexts are below len(tables), whose rows sum to 4096."""
    return _active.encode_contextual(v, contexts, tables)


def decode_contextual(data: Bytes, contexts: Contexts, tables: Tables) -> tuple[Words, int]:
    """As many numbers as contexts from the front of data, and the bytes used."""
    return _active.decode_contextual(data, contexts, tables)


def extent(x: Floats) -> tuple[float, float]:
    """max |x_i|, which is NaN or infinity if x has one, and Σ x_i² in the order of 4.6, in one pass."""
    return _active.extent(x)


def sum_squares(x: Floats) -> float:
    """Σ x_i² in binary64, in the order of the wire format's 4.6."""
    return float(_active.sum_squares(x))


def sum_abs(x: Floats) -> float:
    """Σ |x_i| in binary64, in the order of the wire format's 4.6."""
    return float(_active.sum_abs(x))


NEAREST, STOCHASTIC, SHARED = 0, 1, 2
"""How :func:`quantise` rounds."""


def level_sums(x: Floats, inverse: float) -> tuple[float, float, int]:
    """Σ x·k, Σ k² and the number of k that are not 0, with k = round(x·inverse); sums in the order of 4.6."""
    return _active.level_sums(x, inverse)


def quantise(x: Floats, inverse: float, rounding: int, seed: int = 0, stream: int = 0) -> Words:
    """Zigzag levels of x·inverse (within ±2^22), rounded as the wire format's 7.4 says: uint32 (n,)."""
    return _active.quantise(x, inverse, rounding, seed, stream)


def encode_levels(
    x: Floats, inverse: float, rounding: int, seed: int = 0, stream: int = 0
) -> tuple[list[bytes | memoryview], int]:
    """The integers section of :func:`quantise`'s levels in pieces, and how many levels are not 0."""
    return _active.encode_levels(x, inverse, rounding, seed, stream)


def encode_summed_levels(x: Floats, inverse: float) -> tuple[list[bytes | memoryview], float, float, int]:
    """:func:`encode_levels` of nearest rounding, and what :func:`level_sums` gives, in one pass."""
    return _active.encode_summed_levels(x, inverse)


def add_levels(
    data: Bytes,
    out: Floats,
    step: float,
    power: float,
    weight: float,
    shared: bool,
    seed: int = 0,
    stream: int = 0,
) -> None:
    """out ← out + weight·(dequantised·power), saturating, from an integers section that fills ``data``.

    Raises MessageError, with ``out`` as before, unless data is exactly such a section.
    """
    _active.add_levels(data, out, step, power, weight, shared, seed, stream)


def dequantise(zigzag: Words, step: float, shared: bool, seed: int = 0, stream: int = 0) -> Floats:
    """step·k, or with shared dither step·(k − (U − ½)): float32 (n,)."""
    return _active.dequantise(zigzag, step, shared, seed, stream)


def bucket_squares(x: Floats, bucket: int) -> npt.NDArray[np.float64]:
    """:func:`sum_squares` of each run of ``bucket`` entries, the last one maybe shorter: float64 (⌈n/bucket⌉,)."""
    return _active.bucket_squares(x, bucket)


def reaching(x: Floats, threshold: float) -> Words:
    """Ascending indices of the entries with |x_i| ≥ threshold, which is a binary32 above 0: uint32."""
    return _active.reaching(x, threshold)


def round_natural(x: Floats, lowest: int, seed: int, stream: int = 0) -> Words:
    """Codes 2·(exponent + 150) + (x < 0), or 0, of x rounded to powers of two as in the wire format's 7.7: uint32 (n,).

    Below 2^lowest (−149, or −126 … 0) an entry becomes that or 0.
    """
    return _active.round_natural(x, lowest, seed, stream)


def hadamard(x: Floats, log2n: int) -> Floats:
    """The Walsh–Hadamard transform of each run of 2^log2n entries, not normalised: float32 (n,)."""
    return _active.hadamard(x, log2n)


def represent(
    y: Floats, positions: Words, signs: Floats, log2n: int, goals: Floats, rounds: int
) -> tuple[Floats, Floats]:
    """Coefficients of each row of y in a frame, within the row's goal if ``rounds`` rounds reach that (7.11).

    Args:
        y: float32 (rows·c,).
        positions: uint32 (c,), ascending, below 2^log2n; log2n ≤ 12.
        signs: float32 (c,), 1 or −1.
        goals: float32 (rows,).

    Returns:
        The coefficients, float32 (rows·2^log2n,), and each row's largest magnitude, float32 (rows,).
    """
    return _active.represent(y, positions, signs, log2n, goals, rounds)


def find_nonfinite(x: Floats) -> int:
    """Index of the first NaN or infinity, −1 if there is none."""
    return int(_active.find_nonfinite(x))


def max_abs(x: Floats) -> float:
    """The largest magnitude; 0 for an empty vector."""
    return float(_active.max_abs(x))


def gather(x: Floats, indices: Words) -> Floats:
    """x[indices]; every index must be below len(x)."""
    return _active.gather(x, indices)


def add_dense(out: Floats, values: Floats, weight: float) -> None:
    """out ← out + weight·values, each product and sum rounded once."""
    _active.add_dense(out, values, weight)


def add_floats(data: Bytes, out: Floats, format: int, exponent: int, weight: float) -> None:
    """out ← out + weight·values, from len(out) numbers in ``data``, whatever its alignment.

    format: 0 is binary32, 1 binary16 scaled by 2^exponent, 2 bfloat16. Raises MessageError, with ``out`` as before, if
    a number is not finite.
    """
    _active.add_floats(data, out, format, exponent, weight)


def add_sparse(out: Floats, indices: Words, values: Floats, weight: float) -> None:
    """out[indices] ← out[indices] + weight·values for distinct indices below len(out)."""
    _active.add_sparse(out, indices, values, weight)


def encode_float16(x: Floats, exponent: int) -> Halves:
    """x·2^−exponent as binary16, nearest even, magnitudes above 65504 become 65504."""
    return _active.encode_float16(x, exponent)


def decode_float16(h: Halves, exponent: int) -> Floats:
    """Binary16 times 2^exponent; non-finite patterns come out non-finite."""
    return _active.decode_float16(h, exponent)


def encode_bfloat16(x: Floats) -> Halves:
    """x as bfloat16, nearest even, saturating."""
    return _active.encode_bfloat16(x)


def decode_bfloat16(h: Halves) -> Floats:
    """bfloat16 as float32."""
    return _active.decode_bfloat16(h)


def spherical_search(x: Floats, m: int, alpha: float, seed: int, pair_limit: int, threads: int) -> tuple[Longs, Floats]:
    """For each of m blocks of x the number of the first point that approximates it within α, and its gain.

    The gain is 0 for a block of zeros and −1 for one that is to be sent as it is: uint64 (m,), float32 (m,).
    """
    return _active.spherical_search(x, m, alpha, seed, pair_limit, threads)


def encode_spherical(x: Floats, index: Longs, gain: Floats) -> bytes:
    """The payload of Spherical behind its seed; at least one gain is not 0."""
    return _active.encode_spherical(x, index, gain)


def decode_spherical(data: Bytes, n: int, m: int) -> tuple[Longs, Floats, Floats, int]:
    """Points (m,), gains (m,), the values (n,) of blocks sent as they are, and the bytes used."""
    return _active.decode_spherical(data, n, m)


def spherical_points(seed: int, index: Longs, gain: Floats, out: Floats) -> None:
    """Writes the values of the blocks with a positive gain to out."""
    _active.spherical_points(seed, index, gain, out)
