"""Four ways to tell a centre about a sparse 0/1 vector in few bytes; all that the centre knows is in the bytes.

A message is a payload of the wire format's primitives (varint, indices section), without the frame, which would cost
every scheme the same 9 to 11 bytes.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError
from gradwire.rng import Rng
from gradwire.wire import Reader, Writer

__all__ = ["SCHEMES", "FirstOfSupport", "RandomCoordinates", "RandomOfSupport", "Scheme", "WholeSupport", "scheme"]

Indices = npt.NDArray[np.uint32]
Estimate = npt.NDArray[np.float64]


class Scheme(Protocol):
    """How a node tells of its sample, and how the centre adds up what it hears: θ̂ = total / n."""

    def send(self, support: Indices, rng: Rng) -> bytes:
        """The message of a node whose sample is one at ``support`` (ascending, uint32)."""

    def add(self, message: bytes, total: Estimate, rng: Rng) -> None:
        """total ← total + what the message says; ``rng`` is the node's, used only where randomness is shared."""


@dataclass(frozen=True)
class RandomOfSupport:
    """The rTop-k scheme: N, the size of the support, and min(m, N) of its indices, drawn at random.

    Definition: each index that is sent counts N/min(m, N), so the estimate is unbiased.
    """

    dim: int
    m: int

    def send(self, support: Indices, rng: Rng) -> bytes:
        """Size of the support as varint, then an indices section."""
        writer = Writer()
        writer.varint(len(support))
        if len(support):
            writer.indices(support[rng.subset(len(support), min(self.m, len(support)))], self.dim)
        return bytes(writer.data)

    def add(self, message: bytes, total: Estimate, rng: Rng) -> None:
        """N/min(m, N) at each index."""
        reader = Reader(message, self.dim)
        size = reader.varint(self.dim)
        if size:
            sent = min(self.m, size)
            total[reader.indices(self.dim, sent)] += size / sent
        reader.end()


class WholeSupport(RandomOfSupport):
    """The centralised estimate: every node sends its whole sample (the mean of all samples, in as few bytes)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, dim)


@dataclass(frozen=True)
class FirstOfSupport:
    """Top-m with ties in a fixed order: the first m indices of the support, the same order at every node.

    Definition: an index that is sent counts 1. What lies behind the first m is never heard of: biased.
    """

    dim: int
    m: int

    def send(self, support: Indices, rng: Rng) -> bytes:
        """How many as varint, then an indices section."""
        writer = Writer()
        sent = support[: self.m]
        writer.varint(len(sent))
        if len(sent):
            writer.indices(sent, self.dim)
        return bytes(writer.data)

    def add(self, message: bytes, total: Estimate, rng: Rng) -> None:
        """1 at each index."""
        reader = Reader(message, self.dim)
        sent = reader.varint(self.m)
        if sent:
            total[reader.indices(self.dim, sent)] += 1.0
        reader.end()


@dataclass(frozen=True)
class RandomCoordinates:
    """Random-m: the bits of m random coordinates of all d, one bit each; they count d/m.

    Which coordinates they are is drawn from randomness that node and centre share, so it costs nothing: the cheapest
    that random-m can be.
    """

    dim: int
    m: int

    def send(self, support: Indices, rng: Rng) -> bytes:
        """One bit a coordinate."""
        dense = np.zeros(self.dim, np.bool_)
        dense[support] = True
        return np.packbits(dense[rng.subset(self.dim, self.m)], bitorder="little").tobytes()

    def add(self, message: bytes, total: Estimate, rng: Rng) -> None:
        """d/m at each coordinate that is one."""
        reader = Reader(message, self.dim)
        packed = np.frombuffer(reader.take(-(-self.m // 8)), np.uint8)
        reader.end()
        ones = np.unpackbits(packed, count=self.m, bitorder="little").view(np.bool_)
        total[rng.subset(self.dim, self.m)[ones]] += self.dim / self.m


SCHEMES = ("rtop", "fixed", "random", "whole")


def scheme(name: str, dim: int, m: int) -> Scheme:
    """The scheme of that name: rtop, fixed (top-m in a fixed order), random (m of all coordinates), whole.

    >>> scheme("rtop", dim=400, m=3)
    RandomOfSupport(dim=400, m=3)
    """
    if name == "rtop":
        return RandomOfSupport(dim, m)
    if name == "fixed":
        return FirstOfSupport(dim, m)
    if name == "random":
        return RandomCoordinates(dim, m)
    if name == "whole":
        return WholeSupport(dim)
    raise ParameterError(f"{name!r} is no scheme: give one of {', '.join(SCHEMES)}")
