"""Floor 2: one function a task, several backends with the same bytes.

``native`` (C++, the default) is what runs; ``reference`` (numpy) is the readable oracle that tests hold it against.
Vectors that are torch tensors on an accelerator are worked on there, by torch operations; where a function takes
these too its argument is a :data:`Vector`. The environment variable GRADWIRE_BACKEND chooses for a whole process:
native, reference, or torch, which takes torch operations for vectors on the CPU as well. GRADWIRE_SIMD=portable, avx2
or avx512 lowers the instruction set of native.
"""

import numpy as np
import numpy.typing as npt

from gradwire import _core  # noqa: F401 – tests lower its instruction set
from gradwire.kernels import backends
from gradwire.kernels.backends import Vector, backend, zeros
from gradwire.kernels.coding import (
    cost_contextual,
    count_contextual,
    decode_contextual,
    decode_indices,
    decode_integers,
    decode_tables,
    dither_contexts,
    encode_contextual,
    encode_indices,
    encode_integers,
    encode_level_numbers,
    fit_tables,
    normalise_tables,
)
from gradwire.kernels.entries import (
    put_sparse,
    reaching_entries,
    subset_values,
    take_subset,
    take_top,
    thin_entries,
    thin_taken,
    top_entries,
)
from gradwire.kernels.frames import in_rows, put_rows, take_rows
from gradwire.kernels.fused import (
    add_bucket_levels,
    add_dithered,
    add_frames,
    add_table_levels,
    count_dithered,
    encode_coefficients,
    encode_dithered,
    encode_divided_levels,
    encode_powers,
    signs,
)
from gradwire.kernels.rounded import Rounded
from gradwire.kernels.spherical import (
    add_spherical,
    decode_spherical,
    encode_spherical,
    spherical_search,
)
from gradwire.kernels.threads import get_threads, limit_threads, set_threads
from gradwire.kernels.vectors import (
    add_dequantised,
    add_in_buckets,
    add_signs,
    add_table,
    beside,
    divided,
    natural_levels,
    scaled,
    thinned,
    to_host,
)

__all__ = [
    "Rounded",
    "Vector",
    "add_bucket_levels",
    "add_dense",
    "add_dequantised",
    "add_dithered",
    "add_floats",
    "add_frames",
    "add_in_buckets",
    "add_levels",
    "add_signs",
    "add_sparse",
    "add_spherical",
    "add_table",
    "add_table_levels",
    "backend",
    "beside",
    "bucket_squares",
    "child_seed",
    "cost_contextual",
    "count_contextual",
    "count_dithered",
    "crc32c",
    "decode_contextual",
    "decode_indices",
    "decode_integers",
    "decode_spherical",
    "decode_tables",
    "dequantise",
    "dither_contexts",
    "divided",
    "encode_coefficients",
    "encode_contextual",
    "encode_dithered",
    "encode_divided_levels",
    "encode_indices",
    "encode_integers",
    "encode_level_numbers",
    "encode_levels",
    "encode_powers",
    "encode_spherical",
    "encode_summed_levels",
    "extent",
    "find_nonfinite",
    "fit_tables",
    "gather",
    "get_threads",
    "hadamard",
    "in_rows",
    "level_sums",
    "limit_threads",
    "max_abs",
    "natural_levels",
    "normalise_tables",
    "philox_words",
    "put_rows",
    "put_sparse",
    "quantise",
    "reaching_entries",
    "represent",
    "round_natural",
    "scaled",
    "seal",
    "set_threads",
    "signs",
    "spherical_search",
    "subset",
    "subset_values",
    "sum_abs",
    "sum_squares",
    "take_rows",
    "take_subset",
    "take_top",
    "thin_entries",
    "thin_taken",
    "thinned",
    "to_host",
    "top",
    "top_entries",
    "uniform",
    "zeros",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.uint64]
Bytes = bytes | bytearray | memoryview


def crc32c(data: Bytes) -> int:
    """CRC-32C of bytes."""
    return int(backends.active.crc32c(data))


def seal(parts: list[Bytes | Rounded]) -> bytes:
    """The parts joined, and behind them their CRC-32C as u32."""
    return backends.active.seal(parts)


def philox_words(seed: int, stream: int, start: int, count: int) -> Words:
    """Words start … start + count − 1 of the generator (seed, stream): uint32 (count,)."""
    return backends.active.philox_words(seed, stream, start, count)


def uniform(seed: int, stream: int, start: int, count: int) -> Floats:
    """Uniform numbers in [0, 1), multiples of 2^−24: float32 (count,)."""
    return backends.active.uniform(seed, stream, start, count)


def child_seed(seed: int, stream: int, j: int) -> int:
    """The seed of child j of a generator."""
    return int(backends.active.child_seed(seed, stream, j))


def subset(seed: int, stream: int, n: int, k: int) -> Words:
    """A uniform k-subset of {0 … n − 1}, ascending: uint32 (k,)."""
    return backends.active.subset(seed, stream, n, k)


def top(x: Vector, r: int) -> Vector:
    """Ascending indices of the r largest magnitudes, ties to the lower index: uint32 (r,)."""
    return backends.of(x).top(x, r)


def extent(x: Vector) -> tuple[float, float]:
    """max |x_i|, which is NaN or infinity if x has one, and Σ x_i² in the order of 4.6, in one pass."""
    return backends.of(x).extent(x)


def sum_squares(x: Vector) -> float:
    """Σ x_i² in binary64, in the order of the wire format's 4.6."""
    return float(backends.of(x).sum_squares(x))


def sum_abs(x: Vector) -> float:
    """Σ |x_i| in binary64, in the order of the wire format's 4.6."""
    return float(backends.of(x).sum_abs(x))


NEAREST, STOCHASTIC, SHARED = 0, 1, 2
"""How :func:`quantise` rounds."""


def level_sums(x: Vector, inverse: float) -> tuple[float, float, int]:
    """Σ x·k, Σ k² and the number of k that are not 0, with k = round(x·inverse); sums in the order of 4.6."""
    return backends.of(x).level_sums(x, inverse)


def quantise(x: Vector, inverse: float, rounding: int, seed: int = 0, stream: int = 0) -> Words:
    """Zigzag levels of x·inverse (within ±2^22), rounded as the wire format's 7.4 says: uint32 (n,)."""
    return backends.of(x).quantise(x, inverse, rounding, seed, stream)


def encode_levels(
    x: Vector, inverse: float, rounding: int, seed: int = 0, stream: int = 0
) -> tuple[list[bytes | memoryview], int]:
    """The integers section of :func:`quantise`'s levels in pieces, and how many levels are not 0."""
    return backends.of(x).encode_levels(x, inverse, rounding, seed, stream)


def encode_summed_levels(x: Vector, inverse: float) -> tuple[list[bytes | memoryview], float, float, int]:
    """:func:`encode_levels` of nearest rounding, and what :func:`level_sums` gives, in one pass."""
    return backends.of(x).encode_summed_levels(x, inverse)


def add_levels(
    data: Bytes,
    out: Vector,
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
    backends.of(out).add_levels(data, out, step, power, weight, shared, seed, stream)


def dequantise(zigzag: Words, step: float, shared: bool, seed: int = 0, stream: int = 0) -> Floats:
    """step·k, or with shared dither step·(k − (U − ½)): float32 (n,)."""
    return backends.active.dequantise(zigzag, step, shared, seed, stream)


def bucket_squares(x: Vector, bucket: int) -> npt.NDArray[np.float64]:
    """:func:`sum_squares` of each run of ``bucket`` entries, the last one maybe shorter: float64 (⌈n/bucket⌉,)."""
    return backends.of(x).bucket_squares(x, bucket)


def round_natural(x: Floats, lowest: int, seed: int, stream: int = 0) -> Words:
    """Codes 2·(exponent + 150) + (x < 0), or 0, of x rounded to powers of two as in the wire format's 7.7: uint32 (n,).

    Below 2^lowest (−149, or −126 … 0) an entry becomes that or 0.
    """
    return backends.active.round_natural(x, lowest, seed, stream)


def hadamard(x: Vector, log2n: int) -> Vector:
    """The Walsh–Hadamard transform of each run of 2^log2n entries, not normalised: float32 (n,)."""
    return backends.of(x).hadamard(x, log2n)


def represent(
    y: Vector, positions: Words, signs: Floats, log2n: int, goals: Floats, rounds: int
) -> tuple[Vector, Floats]:
    """Coefficients of each row of y in a frame, within the row's goal if ``rounds`` rounds reach that (7.11).

    Args:
        y: float32 (rows·c,).
        positions: uint32 (c,), ascending, below 2^log2n; log2n ≤ 12.
        signs: float32 (c,), 1 or −1.
        goals: float32 (rows,).

    Returns:
        The coefficients, float32 (rows·2^log2n,), and each row's largest magnitude, float32 (rows,).
    """
    return backends.of(y).represent(y, positions, signs, log2n, goals, rounds)


def find_nonfinite(x: Vector) -> int:
    """Index of the first NaN or infinity, −1 if there is none."""
    return int(backends.of(x).find_nonfinite(x))


def max_abs(x: Vector) -> float:
    """The largest magnitude; 0 for an empty vector."""
    return float(backends.of(x).max_abs(x))


def gather(x: Vector, indices: Vector) -> Vector:
    """x[indices], x of 32-bit numbers; every index must be below len(x)."""
    return backends.of(x).gather(x, indices)


def add_dense(out: Vector, values: Floats, weight: float) -> None:
    """out ← out + weight·values, each product and sum rounded once."""
    backends.of(out).add_dense(out, values, weight)


def add_floats(data: Bytes, out: Vector, format: int, exponent: int, weight: float) -> None:
    """out ← out + weight·values, from len(out) numbers in ``data``, whatever its alignment.

    format: 0 is binary32, 1 binary16 scaled by 2^exponent, 2 bfloat16. Raises MessageError, with ``out`` as before, if
    a number is not finite.
    """
    backends.of(out).add_floats(data, out, format, exponent, weight)


def add_sparse(out: Vector, indices: Words, values: Floats, weight: float) -> None:
    """out[indices] ← out[indices] + weight·values for distinct indices below len(out)."""
    backends.of(out).add_sparse(out, indices, values, weight)
