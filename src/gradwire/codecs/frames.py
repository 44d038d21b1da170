"""How a vector is cut into chunks, and the random frames that spread them (wire format 7.11)."""

from dataclasses import dataclass

import numpy as np

from gradwire.errors import MessageError
from gradwire.rng import Rng
from gradwire.wire import Reader, Writer

__all__ = ["CHUNK_BITS", "LONGEST", "Layout", "RandomFrame", "layout_for", "read_layout"]

LONGEST = 12
"""log2 of the longest frame: beyond 4096 vectors K no longer falls, and this many stay in a processor's first cache."""

CHUNK_BITS = 40
"""What a chunk costs beyond its coefficients: its step, and at most a byte for its frame's number."""


@dataclass(frozen=True)
class Layout:
    """``chunks`` chunks of ``length`` entries, the last one padded by zeros, each spread over 2^log2 coefficients."""

    log2: int
    length: int
    chunks: int

    @property
    def order(self) -> int:
        """N, the number of a chunk's coefficients."""
        return 1 << self.log2

    def write(self, writer: Writer) -> None:
        """Order and length; the number of chunks follows from n."""
        writer.u8(self.log2)
        writer.varint(self.length)


def layout_for(n: int, redundancy: float, width: int) -> tuple[Layout, int]:
    """The layout of n entries that costs the fewest bits at ``width`` bits a coefficient, and these bits.

    Definition: a frame of N takes chunks of ⌊N/λ⌋ entries; of all N = 2^1 … 2^12 the one with the least
    chunks·(N·width + 40), the greater N of equals; then the chunks are made equal. The bits do not fall when n grows.

    Example:
        >>> layout_for(10_000, 2.0, 1)
        (Layout(log2=12, length=2000, chunks=5), 20680)
    """
    best = None
    for log2 in range(LONGEST, 0, -1):
        most = int((1 << log2) / redundancy)
        if most:
            chunks = -(-n // most)
            bits = chunks * ((width << log2) + CHUNK_BITS)
            if best is None or bits < best[0]:
                best = (bits, log2, chunks)
    assert best is not None
    bits, log2, chunks = best
    length = -(-n // chunks)
    return Layout(log2, length, -(-n // length)), bits


def read_layout(reader: Reader, n: int) -> Layout:
    """What :meth:`Layout.write` wrote, of n entries; its coefficients are no more than 16(n + length)."""
    log2, length = reader.u8(), reader.varint(n)
    if not 1 <= log2 <= LONGEST or not length <= 1 << log2 <= 16 * length:
        raise MessageError(f"the message spreads {length} entries over 2^{log2}: no frame does so")
    return Layout(log2, length, -(-n // length))


class RandomFrame:
    """A tight frame of N vectors for chunks of c entries: entry i is row positions[i] of a Hadamard matrix, signed.

    Definition: from child ``attempt`` of the generator (seed, 0): signs by the lowest bits of its words 0 … c − 1, 1
    means −; positions: subset(its child(0), N, c).
    """

    def __init__(self, seed: int, attempt: int, layout: Layout) -> None:
        drawn = Rng(seed).child(attempt)
        self.positions = drawn.child(0).subset(layout.order, layout.length)
        self.signs = np.where(drawn.words(layout.length) & 1, np.float32(-1), np.float32(1))
