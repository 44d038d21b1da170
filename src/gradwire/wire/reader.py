"""Reads a payload; every violation of docs/wire-format.md raises MessageError."""

import math
import struct

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.errors import MessageError

__all__ = ["Reader"]

LARGEST = np.finfo(np.float32).max


class Reader:
    """Takes a payload apart, front to back.

    Definition: holds the bytes, a position in them, and ``n``, the number of entries that the receiver expects.

    Raises:
        MessageError: from every method, where the bytes end too early or break the format.

    Example:
        >>> r = Reader(bytes.fromhex("07ac02"), n=0)
        >>> r.u8(), r.varint()
        (7, 300)
        >>> r.end()

    Source: docs/wire-format.md, sections 1 and 4.
    """

    def __init__(self, data: bytes | memoryview, n: int) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.n = n

    @property
    def rest(self) -> int:
        """Bytes not yet read."""
        return len(self.data) - self.position

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes, without a copy."""
        if count > self.rest:
            raise MessageError(f"the message is cut short: {count} bytes are due, {self.rest} are left")
        self.position += count
        return self.data[self.position - count : self.position]

    def u8(self) -> int:
        """One byte."""
        return self.take(1)[0]

    def i8(self) -> int:
        """One signed byte."""
        return int(struct.unpack("<b", self.take(1))[0])

    def u64(self) -> int:
        """Eight bytes, little-endian."""
        return int(struct.unpack("<Q", self.take(8))[0])

    def f32(self) -> float:
        """A finite binary32."""
        value = float(struct.unpack("<f", self.take(4))[0])
        if not math.isfinite(value):
            raise MessageError(f"the message holds {value} where a finite number is due")
        return value

    def varint(self, most: int = 2**32 - 1) -> int:
        """A minimal LEB128 number of at most ``most``."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift > 0:
                    raise MessageError("the message holds a varint that is longer than need be")
                if value > most:
                    raise MessageError(f"the message holds {value} where at most {most} is allowed")
                return value
        raise MessageError("the message holds a varint of more than five bytes")

    def integers(self, m: int) -> npt.NDArray[np.uint32]:
        """An integers section of ``m`` numbers (4.1): uint32 (m,)."""
        values, used = kernels.decode_integers(self.data[self.position :], m)
        self.position += used
        return values

    def indices(self, n: int, k: int) -> npt.NDArray[np.uint32]:
        """An indices section (4.2): ``k`` ascending numbers below ``n``, uint32 (k,)."""
        values, used = kernels.decode_indices(self.data[self.position :], n, k)
        self.position += used
        return values

    def tables(self, bits: int) -> npt.NDArray[np.uint16]:
        """Tables for contexts of ``bits`` bits (4.5): uint16 (2^bits, 141)."""
        tables, used = kernels.decode_tables(self.data[self.position :], bits)
        self.position += used
        return tables

    def levels(self, m: int) -> npt.NDArray[np.uint32]:
        """A levels section (4.4) of ``m`` signed integers, as zigzag numbers: uint32 (m,)."""
        form = self.u8()
        if form == 0:
            zigzag = self.integers(m)
        elif form == 1:
            zigzag = np.zeros(m, np.uint32)
            c = self.varint(m)
            if c:
                where = self.indices(m, c)
                # The number 2^32 − 1 wraps to 0 here, and is told apart below.
                zigzag[where] = self.integers(c) + np.uint32(1)
                if not zigzag[where].all():
                    raise MessageError("the message holds a level beyond the range of 32 bits")
        else:
            raise MessageError(f"the message has levels of form {form}, where 0 or 1 is due")
        if m and zigzag.max() == 2**32 - 1:
            raise MessageError("the message holds a level beyond the range of 32 bits")
        return zigzag

    def dense_levels(self) -> memoryview | None:
        """The integers section inside a levels section (4.4) of dense form that is all the rest; else None.

        For kernels that read all of it, and check that nothing stands behind.
        """
        if self.rest and self.data[self.position] == 0:
            return self.take(self.rest)[1:]
        return None

    def add_levels(self, out: kernels.Vector, scale: tuple[float, float, float], shared: bool, seed: int) -> None:
        """The last section of a payload, levels k, added to ``out``: out += weight·((step·q)·power), saturating.

        Args:
            out: float32 (m,); as before if MessageError is raised.
            scale: step, power and weight.
            shared: q = k − (U − ½) with U from (seed, stream 0), else q = k.
            seed: of U.
        """
        step, power, weight = scale
        section = self.dense_levels()
        if section is not None:
            kernels.add_levels(section, out, step, power, weight, shared, seed, 0)
            return
        zigzag = self.levels(len(out))
        self.end()
        if shared:
            kernels.add_dequantised(out, zigzag, step, power, weight, True, seed)
            return
        where = np.flatnonzero(zigzag).astype(np.uint32)
        with np.errstate(over="ignore"):
            values = kernels.dequantise(zigzag[where], step, False) * np.float32(power)
        kernels.add_sparse(out, where, np.clip(values, -LARGEST, LARGEST), weight)

    def end(self) -> None:
        """Raises MessageError if anything is left; call it before the output is touched."""
        if self.rest:
            raise MessageError(f"the message has {self.rest} bytes too many")
