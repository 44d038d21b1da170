"""Tables of frequencies for integers in context (docs/wire-format.md, 4.5): from counts, as bytes, and what they cost.

A table has 141 entries, one a token of 4.1 and the escape behind them; uint16 or uint64 (tables, 141).
"""

import math

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.integers import _BitCursor, _Cursor, _normalise, _token_bases, _tokens, pack_fields
from gradwire.kernels.reference.random import philox_words

__all__ = [
    "ENTRIES",
    "ESCAPE",
    "cost_contextual",
    "count_contextual",
    "decode_tables",
    "dither_contexts",
    "fit_tables",
    "normalise_tables",
]

Words = npt.NDArray[np.uint32]
Contexts = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.uint64]
Tables = npt.NDArray[np.uint16]
Field = tuple[int, int]  # value, width

ESCAPE = 140
ENTRIES = 141
MOST_LENGTH = 13  # of a weight, in bits
MOST_PRECISION = 11


def dither_contexts(seed: int, stream: int, n: int, bits: int) -> Contexts:
    """The first bits, 0 to 4, of words 0 … n − 1 of a generator."""
    return (philox_words(seed, stream, 0, n).astype(np.uint64) >> np.uint64(32 - bits)).astype(np.uint8)


def count_contextual(v: Words, contexts: Contexts) -> Counts:
    """How often each token is met in each of 16 contexts: uint64 (16, 141). Nothing is escaped."""
    counts = np.zeros((16, ENTRIES), np.uint64)
    np.add.at(counts, (contexts, _tokens(v)[0]), 1)
    return counts


def cost_contextual(counts: Counts, tables: Tables) -> int:
    """What numbers that were counted cost with these tables, in 4096ths of a bit."""
    cost = 0
    for c, s in np.argwhere(counts):
        coded = s if tables[c, s] else ESCAPE
        cost += int(counts[c, s]) * (4096 * (12 + width(coded)) - log2(int(tables[c, coded])))
    return cost


def normalise_tables(counts: Counts) -> Tables:
    """Frequencies from counts, as 4.1 pins them; of token 0 alone where nothing was counted."""
    rows = [_normalise(row.tolist()) if row.any() else [4096] + [0] * ESCAPE for row in counts]
    return np.array(rows, np.uint16)


def fit_tables(counts: Counts) -> tuple[int, Tables, bytes, int]:
    """The encoder's tables for counts of 16 contexts, or of fewer that are unions of these.

    Returns the bits of a context, the tables, their bytes, and what numbers and tables cost in 4096ths of a bit.
    """
    precision = min(max(int((int(counts.sum()).bit_length() - 10) / 2), 1), MOST_PRECISION)
    tried = []
    for bits in range(5):
        merged = counts.reshape(1 << bits, -1, ENTRIES).sum(axis=1)
        for row in merged:
            escape_outliers(row)
        exact = np.where(merged.any(axis=1, keepdims=True), normalise_tables(merged), 0)
        weights = np.array([[rounded(int(f), precision) for f in row] for row in exact], np.uint64)
        tables, sent = normalise_tables(weights), table_bytes(weights, precision)
        tried.append((bits, tables, sent, cost_contextual(merged, tables) + 4096 * 8 * len(sent)))
    return min(tried, key=lambda fitted: fitted[3])


def decode_tables(data: bytes | bytearray | memoryview, bits: int) -> tuple[Tables, int]:
    """The 2^bits tables at the front of data, and the bytes that they took."""
    cursor = _Cursor(bytes(data))
    stream = _BitCursor(cursor)
    precision = stream.take(4)
    if precision > MOST_PRECISION:
        raise MessageError("the message has tables of a precision above 11")
    weights = np.zeros((1 << bits, ENTRIES), np.uint64)
    for c, row in enumerate(weights):
        before = weights[c - 1] if c else None
        row[ESCAPE] = _take_weight(stream, None if before is None else int(before[ESCAPE]), precision)
        top = stream.take(8)
        if top >= ESCAPE:
            raise MessageError(f"the message has a table with token {top}; tokens are below {ESCAPE}")
        for s in range(top + 1):
            row[s] = _take_weight(stream, None if before is None else int(before[s]), precision)
        if top and not row[top]:
            raise MessageError("the message has a table that ends in zero")
    stream.end()
    return normalise_tables(weights), cursor.position


def table_bytes(weights: Counts, precision: int) -> bytes:
    """The tables as they are sent."""
    fields: list[Field] = [(precision, 4)]
    for c, row in enumerate(weights):
        before = weights[c - 1] if c else None
        used = np.flatnonzero(row[:ESCAPE])
        top = int(used[-1]) if len(used) else 0
        fields += _weight(row, before, ESCAPE, precision)
        fields.append((top, 8))
        for s in range(top + 1):
            fields += _weight(row, before, s, precision)
    values, widths = np.array(fields).T
    return pack_fields(values, widths)


def _weight(row: Counts, before: Counts | None, s: int, precision: int) -> list[Field]:
    weight = int(row[s])
    length = weight.bit_length()
    if before is None:
        fields = [(length, 4)]
    else:
        difference = length - int(before[s]).bit_length()
        ones = -2 * difference if difference <= 0 else 2 * difference - 1
        fields = [((1 << ones) - 1, ones + 1)]
    kept = min(max(length - 1, 0), precision)
    if kept:
        fields.append(((weight >> (length - 1 - kept)) & ((1 << kept) - 1), kept))
    return fields


def _take_weight(stream: _BitCursor, before: int | None, precision: int) -> int:
    if before is None:
        length = stream.take(4)
    else:
        ones = 0
        while stream.take(1):
            ones += 1
        length = before.bit_length() + ((ones + 1) // 2 if ones % 2 else -ones // 2)
    if not 0 <= length <= MOST_LENGTH:
        raise MessageError("the message has a weight outside 0 … 8191")
    if length < 2:
        return length
    kept = min(length - 1, precision)
    return ((1 << kept) + stream.take(kept)) << (length - 1 - kept)


def escape_outliers(row: Counts) -> None:
    """Escapes the largest tokens, in place, while that costs less than the two bits for each token up to the next."""
    used = np.flatnonzero(row[:ESCAPE]).tolist()
    while len(used) > 1 and int(row[used[-1]]) * (32 - width(used[-1])) < 2 * (used[-1] - used[-2]):
        row[ESCAPE] += row[used[-1]]
        row[used.pop()] = 0


def rounded(f: int, precision: int) -> int:
    """f with so many bits behind its leading one, rounded half up."""
    shift = f.bit_length() - 1 - precision
    return f if shift <= 0 else (f + (1 << (shift - 1))) >> shift << shift


def width(token: int) -> int:
    """Extra bits of a token."""
    return 32 if token == ESCAPE else int(_token_bases(np.array([token], np.uint8))[1][0])


def log2(f: int) -> int:
    """⌊4096·log2 f⌋, f ≥ 1; binary64 is far more exact than the nearest that a logarithm comes to a whole number."""
    return math.floor(4096 * math.log2(f))
