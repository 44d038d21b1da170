"""What one vector of the codec consists of: one parameter's gradient, or those of many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradwire import Codec
from gradwire.torch.layout import Piece

__all__ = ["Scratch", "Shard", "Unit", "owners"]

LEAST = 4096  # entries of a shard: below it a message's own bytes begin to count


class Scratch:
    """Float32 memory that is used again and again, and grows to the longest need."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)

    def of(self, n: int) -> torch.Tensor:
        """n entries, of any value; the next call gives the same memory."""
        if self._buffer.numel() < n:
            self._buffer = torch.empty(n)
        return self._buffer[:n]

    def holds(self, x: torch.Tensor) -> bool:
        """Whether x, from its first entry, lies in this memory."""
        return x.data_ptr() == self._buffer.data_ptr()


@dataclass(frozen=True)
class Unit:
    """Entries that are encoded as one vector (in shards, if they have several owners).

    Attributes:
        name: of its parameter, or what it is.
        index: number of its random draws and of its first owner.
        codec: how it is encoded in this step.
        pieces: the gradients that it consists of, in order.
        place: its entries of the buffers; None if it goes dense, without feedback.
    """

    name: str
    index: int
    codec: Codec
    pieces: Sequence[Piece]
    place: slice | None

    @property
    def size(self) -> int:
        """How many entries."""
        return sum(piece.parameter.size for piece in self.pieces)

    def gather(self, factors: Sequence[float], scratch: Scratch) -> torch.Tensor:
        """The gradients times their factors as one float32 vector: scratch, or the gradient itself if it can be."""
        if len(self.pieces) == 1 and factors[0] == 1 and self.pieces[0].gradient.dtype == torch.float32:
            return self.pieces[0].gradient
        whole = scratch.of(self.size)
        start = 0
        for piece, factor in zip(self.pieces, factors, strict=True):
            part = whole[start : start + piece.parameter.size].copy_(piece.gradient)
            if factor != 1:
                part *= factor
            start += piece.parameter.size
        return whole

    def scatter(self, whole: torch.Tensor, factors: Sequence[float]) -> None:
        """Overwrite the gradients with the entries of a vector divided by the factors."""
        start = 0
        for piece, factor in zip(self.pieces, factors, strict=True):
            part = whole[start : start + piece.parameter.size]
            if factor != 1:
                part /= factor
            if part.data_ptr() != piece.gradient.data_ptr():
                piece.gradient.copy_(part)
            start += piece.parameter.size


@dataclass(frozen=True)
class Shard:
    """Entries start … stop − 1 of a unit, and the rank of the group that owns them."""

    owner: int
    start: int
    stop: int

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """The shard's entries of the unit's vector, as a view."""
        return x[self.start : self.stop]


def owners(size: int, world: int, first: int, least: int = LEAST) -> list[Shard]:
    """Share out a unit: to all ranks alike if it is large, to fewer if their shards would have under `least` entries.

    It depends on nothing but the numbers given, so that the same entries have the same owner after a restart.

    >>> [(shard.owner, shard.start, shard.stop) for shard in owners(10, world=4, first=3, least=5)]
    [(3, 0, 5), (0, 5, 10)]
    """
    count = max(1, min(world, size // max(1, least)))
    return [Shard((first + part) % world, size * part // count, size * (part + 1) // count) for part in range(count)]
