"""The sections of the wire format: numbers and indices to bytes and back, on the host."""

import numpy as np
import numpy.typing as npt

from gradwire.kernels import backends

__all__ = [
    "cost_contextual",
    "count_contextual",
    "decode_contextual",
    "decode_indices",
    "decode_integers",
    "decode_tables",
    "dither_contexts",
    "encode_contextual",
    "encode_indices",
    "encode_integers",
    "encode_level_numbers",
    "fit_tables",
    "normalise_tables",
]

Words = npt.NDArray[np.uint32]
Tables = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.uint64]
Contexts = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.uint64]
Bytes = bytes | bytearray | memoryview


def encode_integers(v: Words) -> bytes:
    """The integers section of v."""
    return backends.active.encode_integers(v)


def encode_level_numbers(zigzag: Words) -> bytes:
    """The levels section of signed integers, given as zigzag numbers, in its shorter form."""
    return backends.active.encode_level_numbers(zigzag)


def decode_integers(data: Bytes, m: int) -> tuple[Words, int]:
    """m numbers from the front of data, and the bytes used."""
    return backends.active.decode_integers(data, m)


def encode_indices(indices: Words, n: int) -> bytes:
    """The indices section of ascending indices below n."""
    return backends.active.encode_indices(indices, n)


def decode_indices(data: Bytes, n: int, k: int) -> tuple[Words, int]:
    """k ascending indices below n from the front of data, and the bytes used."""
    return backends.active.decode_indices(data, n, k)


def dither_contexts(seed: int, stream: int, n: int, bits: int) -> Contexts:
    """The first bits, 0 to 4, of words 0 … n − 1 of the generator (seed, stream): uint8 (n,)."""
    return backends.active.dither_contexts(seed, stream, n, bits)


def count_contextual(v: Words, contexts: Contexts) -> Counts:
    """How often each token is met in each of 16 contexts: uint64 (16, 141). Nothing is escaped."""
    return backends.active.count_contextual(v, contexts)


def cost_contextual(counts: Counts, tables: Tables) -> int:
    """What numbers that were counted cost with these tables, in 4096ths of a bit."""
    return int(backends.active.cost_contextual(counts, tables))


def normalise_tables(counts: Counts) -> Tables:
    """Frequencies that sum to 4096 a row, from counts (which sum to 2^48 at most): uint16 (tables, 141)."""
    return backends.active.normalise_tables(counts)


def fit_tables(counts: Counts) -> tuple[int, Tables, bytes, int]:
    """The encoder's tables for counts of 16 contexts, or of fewer that are unions of these.

    Returns the bits of a context, its 2^bits tables, these as bytes, and what numbers and tables cost in 4096ths of a
    bit.
    """
    return backends.active.fit_tables(counts)


def decode_tables(data: Bytes, bits: int) -> tuple[Tables, int]:
    """The 2^bits tables at the front of data, and the bytes used."""
    return backends.active.decode_tables(data, bits)


def encode_contextual(v: Words, contexts: Contexts, tables: Tables) -> bytes:
    """The integers-in-context section of v; contexts are below len(tables), whose rows sum to 4096."""
    return backends.active.encode_contextual(v, contexts, tables)


def decode_contextual(data: Bytes, contexts: Contexts, tables: Tables) -> tuple[Words, int]:
    """As many numbers as contexts from the front of data, and the bytes used."""
    return backends.active.decode_contextual(data, contexts, tables)
