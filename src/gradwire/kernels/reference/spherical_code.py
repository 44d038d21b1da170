"""The bits of Spherical Compression (docs/wire-format.md, 7.12): norms, points, and blocks sent as they are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.integers import decode_integers, encode_integers, pack_fields, unzigzag, zigzag
from gradwire.kernels.reference.spherical import RAW, SphericalBlocks, block_bounds

__all__ = ["decode_spherical", "encode_spherical"]

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]
Bytes = bytes | bytearray | memoryview

SECTIONED, ZEROS, ADAPTIVE = 0x20, 0x40, 0x80  # bits of the head; the five below are r
NORM_LIMIT = 2048
RAW_LEVEL = 24  # a mantissa has 23 bits
QUOTIENT_LIMIT = 64
INDEX_BITS = 40
SECTION_LEAST = 256
"""Blocks from which a section of norms is tried."""


def encode_spherical(x: Floats, found: SphericalBlocks) -> list[Bytes]:
    """The payload of section 7.12 behind the seed, in pieces; at least one gain is not 0.

    Args:
        x: float32 (n,).
        found: the blocks that spherical_search found in it.
    """
    index, gain = found.index, found.gain
    there = np.flatnonzero(gain != 0)
    index, raw = index[there], gain[there] == RAW
    patterns = np.where(raw, 0, gain[there].view(np.uint32)).astype(np.int64)
    codes = _Codes(block_bounds(len(x), len(gain)), x, there, index, raw, patterns)
    searched = index[~raw]
    r = min(range(32), key=lambda r: int(_rice_lengths(searched, r).sum()))
    base, adaptive, norms = codes.norms()

    zeros = b""
    head = ADAPTIVE * adaptive
    if len(there) < len(gain):
        head |= ZEROS
        zeros = encode_integers((gain == 0).astype(np.uint32))
    best = bytes([head | r, base]) + zeros + codes.bits(norms, r, sectioned=False)
    if len(there) >= SECTION_LEAST:
        section = encode_integers(norms)
        other = bytes([head | SECTIONED | r, base]) + zeros + section + codes.bits(norms, r, sectioned=True)
        best = min(best, other, key=len)
    return [best]


def _rice_lengths(index: Longs, r: int) -> Longs:
    q = index >> np.uint64(r)
    return np.where(q < QUOTIENT_LIMIT, q + np.uint64(r + 1), np.uint64(QUOTIENT_LIMIT + INDEX_BITS))


def _gamma_lengths(v: Words) -> npt.NDArray[np.int64]:
    return 2 * np.frexp(v.astype(np.float64) + 1)[1].astype(np.int64) - 1


@dataclass
class _Codes:
    """The blocks that are not zero."""

    bounds: npt.NDArray[np.int64]
    x: Floats
    there: npt.NDArray[np.int64]  # their numbers
    index: Longs
    raw: npt.NDArray[np.bool_]
    patterns: npt.NDArray[np.int64]  # the bits of the gains

    def levels(self) -> npt.NDArray[np.int64]:
        """How many bits of the mantissa are sent."""
        lowest = (self.patterns & -self.patterns) | 1 << 23
        trailing = np.minimum(np.frexp((lowest & -lowest).astype(np.float64))[1].astype(np.int64) - 1, 23)
        return np.where(self.raw, RAW_LEVEL, 23 - trailing)

    def norms(self) -> tuple[int, bool, Words]:
        """Base, whether the prediction adapts, and the numbers: those of the shorter of the two predictions."""
        exponents = self.patterns[~self.raw] >> 23
        if not len(exponents):
            return 1, False, np.full(len(self.there), 3, np.uint32)
        common = int(np.bincount(exponents).argmax())
        still, moving = self._norms(common, False), self._norms(int(exponents[0]), True)
        if _gamma_lengths(still).sum() <= _gamma_lengths(moving).sum():
            return common, False, still
        return int(exponents[0]), True, moving

    def _norms(self, base: int, adaptive: bool) -> Words:
        state = 16 * base
        steps = np.zeros(len(self.there), np.int32)
        for b in np.flatnonzero(~self.raw):
            pattern = int(self.patterns[b])
            steps[b] = (pattern >> 23) - (state >> 4)
            if adaptive:
                state += ((pattern >> 19) - state) >> 3
        return 4 * zigzag(steps) + np.minimum(self.levels(), 3).astype(np.uint32)

    def bits(self, norms: Words, r: int, sectioned: bool) -> bytes:
        """The bit stream."""
        fields: list[tuple[int, int]] = []
        rows = zip(self.there, norms.tolist(), self.levels().tolist(), self.raw, self.index.tolist(), strict=True)
        for row, (block, v, level, raw, index) in enumerate(rows):
            if not sectioned:
                width = (v + 1).bit_length()
                fields += [(0, width - 1), (1, 1), (v + 1 - (1 << (width - 1)), width - 1)]
            if level >= 3:
                fields += [(0, level - 3), (1, 1)]
            if raw:
                entries = self.x[self.bounds[block] : self.bounds[block + 1]]
                fields += [(word, 32) for word in entries.view(np.uint32).tolist()]
                continue
            if level >= 2:
                mantissa = int(self.patterns[row]) & 0x7FFFFF
                fields.append((mantissa >> (24 - level), level - 1))
            q = min(index >> r, QUOTIENT_LIMIT)
            fields += [(0, q), (1, int(q < QUOTIENT_LIMIT))]
            fields.append((index & ((1 << r) - 1), r) if q < QUOTIENT_LIMIT else (index, INDEX_BITS))
        values, widths = np.array(fields, np.int64).T
        return pack_fields(values, widths)


def decode_spherical(data: Bytes, n: int, m: int) -> tuple[SphericalBlocks, int]:
    """What encode_spherical wrote, and the bytes used.

    Raises:
        MessageError: the bytes end too early or are not what section 7.12 of docs/wire-format.md allows.
    """
    if len(data) < 2:
        raise MessageError("the message is cut short: the head of its blocks is missing")
    head, base = data[0], data[1]
    used = 2
    gain, index = np.zeros(m, np.float32), np.zeros(m, np.uint64)
    there = np.arange(m)
    if head & ZEROS:
        zero, size = decode_integers(data[used:], m)
        used += size
        if (zero > 1).any():
            raise MessageError("the message marks blocks of zeros with a number that is neither 0 nor 1")
        there = np.flatnonzero(zero == 0)
    norms = np.zeros(0, np.uint32)
    if head & SECTIONED:
        norms, size = decode_integers(data[used:], len(there))
        used += size
    bits = _Bits(data[used:])
    lengths = np.diff(block_bounds(n, m)).tolist()
    patterns: list[int] = []  # of raw entries
    state, r = 16 * base, head & 31
    for row, block in enumerate(there):
        v = int(norms[row]) if head & SECTIONED else bits.gamma()
        if v >= NORM_LIMIT:
            raise MessageError("the message has a norm that version 1 does not know")
        level = v & 3
        if level == 3:
            level += bits.zeros(RAW_LEVEL - 2)
            if level > RAW_LEVEL:
                raise MessageError("the message has a gain with more than the 23 bits of a mantissa")
        if level == RAW_LEVEL:
            if v != 3:
                raise MessageError("the message has a norm for a block that is sent as it is")
            patterns += [bits.take(32) for _ in range(lengths[block])]
            gain[block] = RAW
            continue
        exponent = (state >> 4) + int(unzigzag(np.array([v >> 2], np.uint32))[0])
        if not 1 <= exponent <= 254:
            raise MessageError("the message has a gain outside the range of normal binary32 numbers")
        pattern = exponent << 23
        if level:
            pattern |= (2 * bits.take(level - 1) + 1) << (23 - level)
        if head & ADAPTIVE:
            state += ((pattern >> 19) - state) >> 3
        gain[block] = np.uint32(pattern).view(np.float32)
        q = bits.zeros(QUOTIENT_LIMIT)
        index[block] = q << r | bits.take(r) if q < QUOTIENT_LIMIT else bits.take(INDEX_BITS)
    raw = np.array(patterns, np.uint32).view(np.float32)
    if not np.isfinite(raw).all():
        raise MessageError("the message holds NaN or infinity")
    return SphericalBlocks(index, gain, n, raw), used + bits.end()


class _Bits:
    """A bit stream, least significant bit first."""

    def __init__(self, data: Bytes) -> None:
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        self.position = 0

    def take(self, width: int) -> int:
        field = self.bits[self.position : self.position + width]
        if len(field) < width:
            raise MessageError("the message is cut short inside a bit stream")
        self.position += width
        return int(field.astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))) if width else 0

    def zeros(self, most: int) -> int:
        """Zeros before a one, which is passed too; ``most`` zeros have no one behind them."""
        for count in range(most):
            if self.take(1):
                return count
        return most

    def gamma(self) -> int:
        width = self.zeros(NORM_LIMIT.bit_length())
        if width == NORM_LIMIT.bit_length():
            raise MessageError("the message has a norm that version 1 does not know")
        return (1 << width) + self.take(width) - 1

    def end(self) -> int:
        """The bytes of the stream."""
        size = (self.position + 7) // 8
        if self.bits[self.position : 8 * size].any():
            raise MessageError("the message has padding bits that are not zero")
        return size
