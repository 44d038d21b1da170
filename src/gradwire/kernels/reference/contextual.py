"""Integers in context (docs/wire-format.md, 4.5): rANS with one table of frequencies a context."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.context_tables import ESCAPE
from gradwire.kernels.reference.integers import (
    BLOCK,
    LOWEST,
    SCALE,
    _Cursor,
    _token_bases,
    _tokens,
    _varint,
    pack_fields,
    unpack_fields,
)

__all__ = ["decode_contextual", "encode_contextual"]

Words = npt.NDArray[np.uint32]
Contexts = npt.NDArray[np.uint8]
Tables = npt.NDArray[np.uint16]
Long = npt.NDArray[np.int64]

SAMPLED_FROM = 1 << 14
SAMPLE = 16


def encode_contextual(v: Words, contexts: Contexts, tables: Tables) -> bytes:
    """The section of v, coded in its contexts.

    Definition: section 4.5 of docs/wire-format.md, with the choices pinned there under "the encoder".

    Shapes: v uint32 (m,), contexts uint8 (m,) below C ≤ 16, tables uint16 (C, 141), each summing to 4096. Every number
    needs a frequency in its table, or the escape one.

    Example:
        >>> tables = np.zeros((2, 141), np.uint16)
        >>> tables[0, 0], tables[1, [0, 1]] = 4096, 2048
        >>> encode_contextual(np.array([0, 1], np.uint32), np.array([0, 1], np.uint8), tables).hex()
        '00000000080200'
    """
    return b"".join(
        _encode_block(v[begin : begin + BLOCK], contexts[begin : begin + BLOCK], tables)
        for begin in range(0, len(v), BLOCK)
    )


def decode_contextual(data: bytes | bytearray | memoryview, contexts: Contexts, tables: Tables) -> tuple[Words, int]:
    """The numbers at the front of data, one for each context, and the number of bytes that they took.

    Raises:
        MessageError: the bytes end too early or are not what section 4.5 of docs/wire-format.md allows.

    Example:
        >>> tables = np.zeros((2, 141), np.uint16)
        >>> tables[0, 0], tables[1, [0, 1]] = 4096, 2048
        >>> decode_contextual(bytes.fromhex("00000000080200ff"), np.array([0, 1], np.uint8), tables)
        (array([0, 1], dtype=uint32), 7)
    """
    cursor = _Cursor(bytes(data))
    blocks = [
        _decode_block(cursor, contexts[begin : begin + BLOCK], tables) for begin in range(0, len(contexts), BLOCK)
    ]
    return np.concatenate([np.empty(0, np.uint32), *blocks]), cursor.position


def _encode_block(v: Words, contexts: Contexts, tables: Tables) -> bytes:
    own, widths = _tokens(v)
    escaped = tables[contexts, own] == 0
    tokens, widths = np.where(escaped, ESCAPE, own), np.where(escaped, 32, widths)
    kind = _lanes_log2(tables[contexts, tokens].astype(np.int64))
    states, words = _rans_encode(tokens, contexts, tables, 1 << kind)
    return b"".join(
        [
            bytes([kind]),
            _varint(len(words)),
            _varint(int(widths.sum())),
            np.array(states, "<u4").tobytes(),
            np.array(words, "<u2").tobytes(),
            pack_fields(v & ((1 << widths) - 1), widths),
        ]
    )


def _decode_block(cursor: _Cursor, contexts: Contexts, tables: Tables) -> Words:
    kind = cursor.byte()
    if kind > 6:
        raise MessageError("the message has a block of more than 64 lanes")
    words_count = cursor.varint()
    extra_count = cursor.varint()
    states = np.frombuffer(cursor.take(4 << kind), "<u4").tolist()
    words = np.frombuffer(cursor.take(2 * words_count), "<u2").tolist()
    extra = cursor.take((extra_count + 7) // 8)

    tokens = _rans_decode(states, words, contexts, tables)
    bases, widths = _token_bases(tokens)
    escaped = tokens == ESCAPE
    bases, widths = np.where(escaped, 0, bases), np.where(escaped, 32, widths)
    if widths.sum() != extra_count:
        raise MessageError("the message has a block whose number of extra bits is not that of its tokens")
    v = (bases + unpack_fields(extra, widths)).astype(np.uint32)
    if np.any(tables[contexts[escaped], _tokens(v[escaped])[0]]):
        raise MessageError("the message escapes a number that its table has a frequency for")
    return v


def _lanes_log2(f: Long) -> int:
    """How many lanes the block's length in bits pays for, from its numbers' frequencies, as a power of two."""
    step = 1 if len(f) < SAMPLED_FROM else SAMPLE
    f = f[::step]
    length = np.frexp(f)[1].astype(np.int64)
    cost = int((3072 - (256 * (length - 1) + ((256 * f) >> (length - 1)) - 256)).sum())  # 256ths of a bit
    return sum((cost * step >> 8) >= 1 << t for t in (11, 12, 13, 14, 18, 19))


def _rans_encode(tokens: Long, contexts: Contexts, tables: Tables, lanes: int) -> tuple[list[int], list[int]]:
    """States and words in the order in which the decoder reads them; so tokens go in backwards."""
    f = tables[contexts, tokens].tolist()
    start = _starts(tables)[contexts, tokens].tolist()
    states = [LOWEST] * lanes
    words = []
    for j in range(len(tokens) - 1, -1, -1):
        x = states[j % lanes]
        if x >= f[j] << 20:  # the step below would leave [2^16, 2^32)
            words.append(x & 0xFFFF)
            x >>= 16
        states[j % lanes] = ((x // f[j]) << 12) + x % f[j] + start[j]
    return states, words[::-1]


def _rans_decode(states: list[int], words: list[int], contexts: Contexts, tables: Tables) -> npt.NDArray[np.uint8]:
    if min(states) < LOWEST:
        raise MessageError("the message has a lane state below 2^16")
    frequencies, starts = tables.tolist(), _starts(tables).tolist()
    token_of_slot = [np.repeat(np.arange(len(row)), row).tolist() for row in tables]
    lanes, position, tokens = len(states), 0, []
    for j, c in enumerate(contexts.tolist()):
        x = states[j % lanes]
        slot = x & (SCALE - 1)
        s = token_of_slot[c][slot]
        x = frequencies[c][s] * (x >> 12) + slot - starts[c][s]
        if x < LOWEST:
            if position == len(words):
                raise MessageError("the message has a block with too few words")
            x = (x << 16) + words[position]
            position += 1
        states[j % lanes] = x
        tokens.append(s)
    if position != len(words):
        raise MessageError("the message has a block with words left over")
    if any(x != LOWEST for x in states):
        raise MessageError("the message has a block whose lanes do not end in the state 2^16")
    return np.array(tokens, np.uint8)


def _starts(tables: Tables) -> Long:
    return np.cumsum(tables, axis=1, dtype=np.int64) - tables
