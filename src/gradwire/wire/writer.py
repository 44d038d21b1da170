"""Writes a payload: primitive types and sections, as docs/wire-format.md defines them."""

import struct

import numpy as np
import numpy.typing as npt

from gradwire import kernels

__all__ = ["Writer", "varint_length"]

Part = bytes | bytearray | memoryview | kernels.Rounded


def varint_length(value: int) -> int:
    """Bytes that the varint of ``value`` takes."""
    return max(1, -(-value.bit_length() // 7))


class Writer:
    """Collects the bytes of a payload; long pieces are kept by reference, and copied once, when the frame is sealed.

    Example:
        >>> w = Writer()
        >>> w.u8(7); w.varint(300)
        >>> w.data.hex()
        '07ac02'

    Source: docs/wire-format.md, sections 1 and 4.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._tail = bytearray()

    def parts(self) -> list[Part]:
        """What was written, in pieces."""
        return [*self._parts, self._tail]

    @property
    def data(self) -> bytes:
        """What was written, in one piece: a copy."""
        return b"".join(part.written() if isinstance(part, kernels.Rounded) else part for part in self.parts())

    def u8(self, value: int) -> None:
        """One byte."""
        self._tail.append(value)

    def i8(self, value: int) -> None:
        """One signed byte."""
        self._tail += struct.pack("<b", value)

    def u64(self, value: int) -> None:
        """Eight bytes, little-endian."""
        self._tail += struct.pack("<Q", value)

    def f32(self, value: float) -> None:
        """A binary32."""
        self._tail += struct.pack("<f", value)

    def varint(self, value: int) -> None:
        """An unsigned LEB128 number below 2^32."""
        while value >= 0x80:
            self._tail.append(value & 0x7F | 0x80)
            value >>= 7
        self._tail.append(value)

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes as they are; they must not change before the frame is sealed."""
        if memoryview(data).nbytes < LONG:
            self._tail += data
        else:
            self._keep(data)

    def rounded(self, x: kernels.Vector, exponent: int | None) -> None:
        """16-bit floats, rounded as :class:`kernels.Rounded` says; x must not change before the frame is sealed."""
        piece = kernels.Rounded(x, exponent)
        if isinstance(x, np.ndarray) and 2 * len(x) >= LONG:
            self._keep(piece)
        else:
            self.raw(piece.written())

    def _keep(self, part: Part) -> None:
        self._parts += [self._tail, part]
        self._tail = bytearray()

    def append(self, other: "Writer") -> None:
        """What another writer holds."""
        for part in other.parts():
            if isinstance(part, kernels.Rounded):
                self._keep(part)
            else:
                self.raw(part)

    def integers(self, v: npt.NDArray[np.uint32]) -> None:
        """An integers section (4.1)."""
        self.raw(kernels.encode_integers(v))

    def indices(self, indices: npt.NDArray[np.uint32], n: int) -> None:
        """An indices section (4.2): ascending ``indices`` below ``n``."""
        self.raw(kernels.encode_indices(indices, n))

    def contextual(
        self, v: npt.NDArray[np.uint32], contexts: npt.NDArray[np.uint8], tables: npt.NDArray[np.uint16]
    ) -> None:
        """Integers in context (4.5): each number with the table of its context."""
        self.raw(kernels.encode_contextual(v, contexts, tables))

    def levels(self, zigzag: npt.NDArray[np.uint32]) -> None:
        """A levels section (4.4) of signed integers, given as zigzag numbers."""
        self.raw(kernels.encode_level_numbers(zigzag))

    def quantised(self, x: kernels.Vector, inverse: float, rounding: int, seed: int, stream: int) -> None:
        """A levels section (4.4) of x's levels, as :func:`kernels.quantise` gives them, without keeping these."""
        m = len(x)
        if m <= SHORT or not self.dense_levels(m, *kernels.encode_levels(x, inverse, rounding, seed, stream)):
            self.levels(kernels.quantise(x, inverse, rounding, seed, stream))

    def divided(self, x: kernels.Vector, divisors: npt.NDArray[np.float32], bucket: int, seed: int) -> None:
        """A levels section (4.4) of x over its buckets' divisors, rounded at random with words of (seed, 0)."""
        m = len(x)
        if m <= SHORT or not self.dense_levels(m, *kernels.encode_divided_levels(x, divisors, bucket, seed)):
            self.levels(kernels.quantise(kernels.divided(x, divisors, bucket), 1.0, kernels.STOCHASTIC, seed))

    def dense_levels(self, m: int, blocks: list[bytes | memoryview], nonzero: int) -> bool:
        """The dense form of a levels section (4.4), from its integers section; False where sparse may be shorter.

        Args:
            m: how many levels.
            blocks: their integers section, in pieces.
            nonzero: how many of them are not 0.
        """
        if m <= SHORT or 64 * nonzero < m:
            return False
        self.u8(0)
        for block in blocks:
            self.raw(block)
        return True


LONG = 4096
"""Pieces of so many bytes are kept by reference."""

SHORT = 4096
"""Of so few levels the sparse form is tried too."""
