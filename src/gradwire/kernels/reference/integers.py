"""The integers section (docs/wire-format.md, 4.1): tokens, interleaved rANS or unary, in blocks of 2^20."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError

__all__ = ["decode_integers", "encode_integers", "pack_fields", "unpack_fields", "unzigzag", "zigzag"]

Words = npt.NDArray[np.uint32]
Long = npt.NDArray[np.int64]
Bytes = bytes | bytearray | memoryview

BLOCK = 1 << 20
TOKENS = 140
SCALE = 4096  # the frequencies of a block sum to this
LOWEST = 1 << 16  # lane states live in [2^16, 2^32)
UNARY = 7


def encode_integers(v: Words) -> bytes:
    """The integers section of v.

    Definition: section 4.1 of docs/wire-format.md, with the choices pinned there under "the encoder".

    Shapes: v uint32 (m,), any m ≥ 0; the result has no bytes for m = 0.

    Example:
        >>> encode_integers(np.array([0, 1, 0, 0, 3], np.uint32)).hex()
        '07c601'

    Source: asymmetric numeral systems, J. Duda, arXiv:1311.2540; interleaved, F. Giesen, arXiv:1402.3392.
    """
    blocks = (v[begin : begin + BLOCK] for begin in range(0, len(v), BLOCK))
    return b"".join(_encode_block(block) for block in blocks)


def decode_integers(data: Bytes, m: int) -> tuple[Words, int]:
    """The m numbers at the front of data, and the number of bytes that they took.

    Shapes: the numbers come as uint32 (m,); bytes behind the section are left alone.

    Raises:
        MessageError: the bytes end too early or are not what section 4.1 of docs/wire-format.md allows.

    Example:
        >>> decode_integers(bytes.fromhex("07c601ff"), 5)
        (array([0, 1, 0, 0, 3], dtype=uint32), 3)
    """
    cursor = _Cursor(bytes(data))
    blocks = [_decode_block(cursor, min(BLOCK, m - begin)) for begin in range(0, m, BLOCK)]
    return np.concatenate([np.empty(0, np.uint32), *blocks]), cursor.position


def zigzag(s: npt.NDArray[np.int32]) -> Words:
    """Signed to unsigned: s ≥ 0 becomes 2s, s < 0 becomes −2s − 1.

    Example:
        >>> zigzag(np.array([0, -1, 1, -2], np.int32))
        array([0, 1, 2, 3], dtype=uint32)
    """
    return ((s << 1) ^ (s >> 31)).view(np.uint32)


def unzigzag(v: Words) -> npt.NDArray[np.int32]:
    """The inverse of zigzag.

    Example:
        >>> unzigzag(np.array([0, 1, 2, 3], np.uint32))
        array([ 0, -1,  1, -2], dtype=int32)
    """
    return ((v >> 1) ^ (0 - (v & 1))).view(np.int32)


# Bit streams


def pack_fields(values: npt.NDArray[np.integer], widths: npt.NDArray[np.integer]) -> bytes:
    """Bit stream of fields: values[i] in widths[i] bits, least significant first, zeros to a byte's end."""
    field, place = _field_bits(widths)
    bits = (values.astype(np.int64)[field] >> place) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def unpack_fields(data: Bytes, widths: npt.NDArray[np.integer]) -> Long:
    """The inverse of pack_fields: data holds the fields and their padding, nothing else."""
    field, place = _field_bits(widths)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[len(field) :].any():
        raise MessageError("the message has padding bits that are not zero")
    values = np.zeros(len(widths), np.int64)
    np.add.at(values, field, bits[: len(field)].astype(np.int64) << place)
    return values


def _field_bits(widths: npt.NDArray[np.integer]) -> tuple[Long, Long]:
    """For every bit of the stream: the field that it belongs to, and its place in the field."""
    widths = widths.astype(np.int64)
    first = np.cumsum(widths) - widths
    field = np.repeat(np.arange(len(widths)), widths)
    return field, np.arange(len(field)) - first[field]


# Tokens


def _tokens(v: Words) -> tuple[npt.NDArray[np.uint8], Long]:
    """The tokens of v and how many extra bits each has."""
    exponent = np.frexp(v.astype(np.float64))[1].astype(np.int64) - 1
    widths = np.where(v < 32, 0, exponent - 2)
    tokens = np.where(v < 32, v, 32 + 4 * (exponent - 5) + ((v >> np.maximum(widths, 0)) & 3))
    return tokens.astype(np.uint8), widths


def _token_bases(tokens: npt.NDArray[np.uint8]) -> tuple[Long, Long]:
    """The smallest number of each token, and how many extra bits it has."""
    t = tokens.astype(np.int64)
    widths = np.where(t < 32, 0, (t - 32) // 4 + 3)
    return np.where(t < 32, t, (4 + (t & 3)) << widths), widths


# Blocks


def _encode_block(v: Words) -> bytes:
    tokens, widths = _tokens(v)
    counts = np.bincount(tokens, minlength=TOKENS).tolist()
    frequencies = _normalise(counts)
    kind = _lanes_log2(counts, frequencies)
    states, words = _rans_encode(tokens.tolist(), frequencies, 1 << kind)
    extra = pack_fields(v & ((1 << widths) - 1), widths)
    rans = b"".join(
        [
            bytes([kind, int(tokens.max())]),
            _frequency_bits(frequencies[: int(tokens.max()) + 1]),
            _varint(len(words)),
            _varint(int(widths.sum())),
            np.array(states, "<u4").tobytes(),
            np.array(words, "<u2").tobytes(),
            extra,
        ]
    )
    unary_widths = np.where(v == 0, 1, ((v.astype(np.int64) + 1) >> 1) + 2)
    if 1 + (int(unary_widths.sum()) + 7) // 8 < len(rans):
        return bytes([UNARY]) + _unary_encode(v, unary_widths)
    return rans


def _decode_block(cursor: "_Cursor", m: int) -> Words:
    kind = cursor.byte()
    if kind == UNARY:
        return _unary_decode(cursor, m)
    if kind > UNARY:
        raise MessageError(f"the message has a block of kind {kind}, which version 1 does not know")
    lanes = 1 << kind
    frequencies = _read_frequencies(cursor)
    words_count = cursor.varint()
    extra_count = cursor.varint()
    states = np.frombuffer(cursor.take(4 * lanes), "<u4").tolist()
    words = np.frombuffer(cursor.take(2 * words_count), "<u2").tolist()
    extra = cursor.take((extra_count + 7) // 8)

    tokens = np.array(_rans_decode(states, words, frequencies, m), np.uint8)
    bases, widths = _token_bases(tokens)
    if widths.sum() != extra_count:
        raise MessageError("the message has a block whose number of extra bits is not that of its tokens")
    return (bases + unpack_fields(extra, widths)).astype(np.uint32)


# rANS


def _normalise(counts: list[int]) -> list[int]:
    """Frequencies that sum to 4096, near 4096·counts/total, at least 1 where there is a count."""
    total = sum(counts)
    f = [max(1, (2 * SCALE * c + total) // (2 * total)) if c else 0 for c in counts]
    used = [s for s in range(len(counts)) if counts[s]]
    # Fractions are compared by cross products, exactly; being strict leaves a tie to the lowest token.
    while sum(f) < SCALE:
        best = used[0]
        for s in used:
            if counts[s] * f[best] > counts[best] * f[s]:
                best = s
        f[best] += 1
    while sum(f) > SCALE:
        candidates = [s for s in used if f[s] > 1]
        best = candidates[0]
        for s in candidates:
            if counts[s] * (f[best] - 1) < counts[best] * (f[s] - 1):
                best = s
        f[best] -= 1
    return f


def _lanes_log2(counts: list[int], frequencies: list[int]) -> int:
    """How many lanes the block's length in bits pays for, as a power of two."""
    cost = 0  # 256ths of a bit
    for c, f in zip(counts, frequencies, strict=True):
        if c:
            length = f.bit_length()
            cost += c * (3072 - (256 * (length - 1) + ((256 * f) >> (length - 1)) - 256))
    thresholds = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 18, 1 << 19]
    return sum((cost >> 8) >= t for t in thresholds)


def _rans_encode(tokens: list[int], frequencies: list[int], lanes: int) -> tuple[list[int], list[int]]:
    """States and words in the order in which the decoder reads them; so tokens go in backwards."""
    start = _starts(frequencies)
    states = [LOWEST] * lanes
    words = []
    for j in range(len(tokens) - 1, -1, -1):
        s, x = tokens[j], states[j % lanes]
        f = frequencies[s]
        if x >= f << 20:  # the step below would leave [2^16, 2^32)
            words.append(x & 0xFFFF)
            x >>= 16
        states[j % lanes] = ((x // f) << 12) + x % f + start[s]
    return states, words[::-1]


def _rans_decode(states: list[int], words: list[int], frequencies: list[int], m: int) -> list[int]:
    if min(states) < LOWEST:
        raise MessageError("the message has a lane state below 2^16")
    start = _starts(frequencies)
    token_of_slot = [s for s, f in enumerate(frequencies) for _ in range(f)]
    lanes, position, tokens = len(states), 0, []
    for j in range(m):
        x = states[j % lanes]
        slot = x & (SCALE - 1)
        s = token_of_slot[slot]
        x = frequencies[s] * (x >> 12) + slot - start[s]
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
    return tokens


def _starts(frequencies: list[int]) -> list[int]:
    return [0, *np.cumsum(frequencies).tolist()]


def _frequency_bits(frequencies: list[int]) -> bytes:
    fields = []
    for f in frequencies:
        length = f.bit_length()
        fields.append((length, 4))
        if length:
            fields.append((f - (1 << (length - 1)), length - 1))
    values, widths = np.array(fields).T
    return pack_fields(values, widths)


def _read_frequencies(cursor: "_Cursor") -> list[int]:
    top = cursor.byte()
    if top >= TOKENS:
        raise MessageError(f"the message has a block with token {top}; tokens are below {TOKENS}")
    bits = _BitCursor(cursor)
    frequencies = []
    for _ in range(top + 1):
        length = bits.take(4)
        if length > 13:
            raise MessageError("the message has a frequency above 4096")
        frequencies.append((1 << (length - 1)) + bits.take(length - 1) if length else 0)
    bits.end()
    if sum(frequencies) != SCALE or frequencies[-1] == 0:
        raise MessageError("the message has a block whose frequencies do not sum to 4096 or end in zero")
    return frequencies


# Unary


def _unary_encode(v: Words, widths: Long) -> bytes:
    ends = np.cumsum(widths)
    bits = np.ones(int(ends[-1]), np.uint8)
    bits[ends - 1] = 0  # what closes a number, and all there is of a zero
    nonzero = v > 0
    bits[(ends - widths + 1)[nonzero]] = (v & 1)[nonzero]
    return np.packbits(bits, bitorder="little").tobytes()


def _unary_decode(cursor: "_Cursor", m: int) -> Words:
    stream = np.unpackbits(np.frombuffer(cursor.rest(), np.uint8), bitorder="little").tobytes()
    numbers = []
    position = 0
    for _ in range(m):
        if position < len(stream) and stream[position] == 0:
            numbers.append(0)
            position += 1
            continue
        end = stream.find(0, position + 2)  # the zero behind the ones of the magnitude
        if end < 0:
            raise MessageError("the message is cut short inside a unary block")
        number = 2 * (end - position - 1) - stream[position + 1]
        if number >= 1 << 32:
            raise MessageError("the message has a number that reaches 2^32")
        numbers.append(number)
        position = end + 1
    used = (position + 7) // 8
    if any(stream[position : 8 * used]):
        raise MessageError("the message has padding bits that are not zero")
    cursor.take(used)
    return np.array(numbers, np.uint32)


# Reading


class _Cursor:
    """Bytes and a position in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def rest(self) -> bytes:
        return self.data[self.position :]

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.position:
            raise MessageError("the message is cut short inside an integers or indices section")
        self.position += count
        return self.data[self.position - count : self.position]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if (byte == 0 and shift) or value >= 1 << 32:
                    raise MessageError("the message has a varint that is not minimal or reaches 2^32")
                return value
        raise MessageError("the message has a varint of more than five bytes")


class _BitCursor:
    """Bits from a cursor, which moves on byte by byte as they are needed."""

    def __init__(self, cursor: _Cursor) -> None:
        self.cursor = cursor
        self.bits = 0
        self.held = 0

    def take(self, width: int) -> int:
        while self.held < width:
            self.bits |= self.cursor.byte() << self.held
            self.held += 8
        value = self.bits & ((1 << width) - 1)
        self.bits >>= width
        self.held -= width
        return value

    def end(self) -> None:
        if self.bits:
            raise MessageError("the message has padding bits that are not zero")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
