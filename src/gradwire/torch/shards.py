"""Who owns which entries of a vector, and the messages of the pieces that an owner's shard consists of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

import gradwire
from gradwire import Codec, Rng, feedback
from gradwire.errors import MessageError, ParameterError

__all__ = ["Residual", "Section", "Segment", "add_blob", "check_codec", "cut", "encode_segments", "pack", "unpack"]


class Residual(NamedTuple):
    """What one rank keeps between two exchanges: float32 vectors on the CPU.

    Attributes:
        sent: (n,) what this rank's messages have left out so far.
        owned: (entries that this rank owns,) what its messages of the mean have left out; empty where nobody owns.
    """

    sent: torch.Tensor
    owned: torch.Tensor


@dataclass(frozen=True)
class Section:
    """A run of the vector with one codec; no message reaches across the border of two of its parts."""

    codec: Codec
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Entries of the section."""
        return sum(self.sizes)

    def segments(self, offset: int, start: int, stop: int) -> Iterator[Segment]:
        """The pieces of entries start … stop − 1 of the section, which begins at `offset` of the vector."""
        begin = 0
        for size in self.sizes:
            first, last = max(begin, start), min(begin + size, stop)
            if first < last:
                yield Segment(offset + first, offset + last, self.codec)
            begin += size


@dataclass(frozen=True)
class Segment:
    """Entries start … stop − 1 of the vector: what one message holds."""

    start: int
    stop: int
    codec: Codec

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """The segment's entries of the vector, as a view."""
        return x[self.start : self.stop]

    def check(self, error_feedback: bool) -> None:
        """Refuse now a codec that would fail, or diverge, in the middle of training.

        Raises:
            ParameterError: a parameter does not fit, or the codec is not contractive under error feedback.
        """
        check_codec(self.codec, [("a piece", self.stop - self.start)], error_feedback)


def check_codec(codec: Codec, sizes: Sequence[tuple[str, int]], contractive: bool) -> None:
    """Refuse now a codec that would fail, or diverge, in the middle of training.

    Raises:
        ParameterError: it does not suit one of the vectors, or is not contractive where it must be.
    """
    for name, size in sizes:
        try:
            guarantee = codec.guarantee(size)
        except ParameterError as error:
            raise ParameterError(f"{codec} does not suit {name}: {error}") from None
        if contractive and guarantee.error >= 1:
            raise ParameterError(
                f"{codec} is not contractive on the {size} entries of {name}: with error feedback its residual would "
                "grow without bound; give a contractive codec or error_feedback=False"
            )


def cut(sections: Sequence[Section], world: int) -> list[list[Segment]]:
    """Give each of `world` owners an equal slice of every section, in order.

    Slices of one section differ by at most one entry. Each section is cut by itself, so that a dense section,
    whose messages are long, is spread over all owners.

    >>> identity = gradwire.Identity()
    >>> [[(s.start, s.stop) for s in shard] for shard in cut([Section(identity, (3, 5)), Section(identity, (2,))], 2)]
    [[(0, 3), (3, 4), (8, 9)], [(4, 8), (9, 10)]]
    """
    shards: list[list[Segment]] = [[] for _ in range(world)]
    offset = 0
    for section in sections:
        for owner, shard in enumerate(shards):
            start, stop = section.size * owner // world, section.size * (owner + 1) // world
            shard.extend(section.segments(offset, start, stop))
        offset += section.size
    return shards


def encode_segments(
    segments: Sequence[Segment], x: torch.Tensor, residual: torch.Tensor | None, left: torch.Tensor, rng: Rng
) -> list[bytes]:
    """Encode each segment of x + residual; write what follows for the residual into `left`.

    Without a residual, x alone is encoded and `left` is not touched. Segment i draws from rng.child(i).

    Raises:
        InputError: x + residual is not finite.
    """
    messages = []
    for index, segment in enumerate(segments):
        draws = rng.child(index)
        if residual is None:
            messages.append(gradwire.encode(segment.codec, segment.of(x), draws))
            continue
        step = feedback.step(segment.codec, segment.of(x), segment.of(residual), draws, out=segment.of(left))
        messages.append(step.message)
    return messages


def pack(messages: Sequence[bytes]) -> bytes:
    """Several messages as one: their lengths, each a little-endian u32, then the messages."""
    return np.array([len(message) for message in messages], "<u4").tobytes() + b"".join(messages)


def unpack(blob: memoryview, count: int) -> list[memoryview]:
    """The messages of a blob that packs `count` of them.

    Raises:
        MessageError: the lengths do not add up to the blob's.
    """
    if len(blob) < 4 * count:
        raise MessageError(f"{len(blob)} bytes cannot hold the lengths of {count} messages")
    lengths = np.frombuffer(blob[: 4 * count], "<u4").astype(np.int64)
    ends = 4 * count + np.cumsum(lengths)
    if 4 * count + int(lengths.sum()) != len(blob):
        raise MessageError(f"{count} messages of together {int(lengths.sum())} bytes came in a blob of {len(blob)}")
    return [blob[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def add_blob(segments: Sequence[Segment], blob: memoryview, out: torch.Tensor, weight: float) -> None:
    """Add weight times the vector of every message of the blob to its segment of `out`.

    Raises:
        MessageError: the bytes are not valid messages for these segments.
    """
    for segment, message in zip(segments, unpack(blob, len(segments)), strict=True):
        gradwire.add(message, segment.of(out), weight)
