"""Messages between ranks as bytes; every rank learns from one head a rank whether all can go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from gradwire.errors import InputError
from gradwire.torch.collectives import all_gather
from gradwire.torch.pieces import PIECE, Bytes, swap

__all__ = ["FAILED", "NOT_FINITE", "READY", "Exchange", "attempt"]

READY, NOT_FINITE, FAILED = 0, 1, 2
HEAD = 4  # u32 each: time, slot, status, length


def attempt(make: Callable[[], Sequence[bytes]], tell: Callable[[int], object]) -> tuple[int, Sequence[bytes]]:
    """Make messages; returns READY and them, or NOT_FINITE and none if what they would hold is not finite.

    Any other error is this rank's own, and is raised when the others, who wait for the messages, have been told:
    tell(FAILED) sends the status alone.
    """
    try:
        return READY, make()
    except InputError:
        return NOT_FINITE, []
    except BaseException:
        with suppress(RuntimeError):
            tell(FAILED)
        raise


class Exchange:
    """The two ways in which messages travel on a gloo group: a blob for all ranks, or one blob for each.

    Either returns None if some rank has nothing finite to send. The status of each rank is in the heads that all
    ranks see, so they agree on it without asking again.

    What is received are views of memory of the slot: the next call of the same kind with the same slot overwrites
    it. It grows to the longest need and is then reused. What a rank has for itself is given back as it is.

    Args:
        group: a gloo group that carries nothing else at the same time.
        names: what the errors call the two numbers that every call has, e.g. ("step", "bucket").
    """

    def __init__(self, group: dist.ProcessGroup, names: tuple[str, str] = ("round", "part")) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.sent_bytes = 0
        """Bytes that left this rank so far: heads, padding, and the blobs once for every rank that got them."""
        self._names = names
        self._rooms: dict[int, _Room] = {}
        self._received: dict[tuple[str, int], Bytes] = {}
        self._sent = np.empty(0, np.uint8)

    def to_all(self, time: int, slot: int, status: int, blob: bytes | memoryview) -> list[memoryview] | None:
        """Send the blob to every rank; get every rank's, this one's too, in rank order.

        One collective: a head and room for the blob, as long as the longest rank needed last time and a little more,
        if the need changes. What does not fit follows: in a second collective, or if it is long in pieces from rank
        to rank, which fill the link in both directions. Where blobs are long there is no room, and all is pieces. All
        ranks see the same heads, so they agree on all this without asking.

        Raises:
            RuntimeError: a rank failed, or is at another time or slot.
        """
        data = memoryview(blob if status == READY else b"")
        room = self._room_of(slot)
        size = 4 * HEAD + room
        rows = self._gather("all", slot, size, self._head(time, slot, status, len(data)), data[:room])
        heads = np.stack([np.frombuffer(row[: 4 * HEAD], "<u4") for row in rows])
        ready = self._all_ready(heads)
        lengths = heads[:, 3].tolist()
        longest = max(lengths)
        self._rooms[slot] = _Room.after(longest, self._rooms.get(slot))
        if not ready:
            return None
        if longest <= room:
            return [row[4 * HEAD : 4 * HEAD + length] for row, length in zip(rows, lengths, strict=True)]
        if longest - room <= PIECE:
            rest = self._gather("rest", slot, longest - room, data[room:])
        else:
            sent = self._outgoing(max(0, len(data) - room))
            _fill(sent, [data[room:]])
            rest = self._swap("rest", slot, [sent] * self.world, [max(0, length - room) for length in lengths])
            rest[self.rank] = data[room:]
        if room:
            rest = [memoryview(bytes(row[4 * HEAD :]) + bytes(tail)) for row, tail in zip(rows, rest, strict=True)]
        return [joined[:length] for joined, length in zip(rest, lengths, strict=True)]

    def to_each(
        self, time: int, slot: int, status: int, blobs: Sequence[bytes | memoryview]
    ) -> list[memoryview] | None:
        """Send blob j to rank j; get the blob of every rank for this one, in rank order.

        The heads are one collective; the blobs follow from rank to rank, for nobody knows the lengths of other pairs.

        Raises:
            RuntimeError: a rank failed, or is at another time or slot.
        """
        lengths = [len(blob) for blob in blobs] if status == READY else [0] * self.world
        mine = torch.from_numpy(np.concatenate([self._head(time, slot, status, length) for length in lengths]))
        heads = torch.empty_like(mine)
        dist.all_to_all_single(heads, mine, group=self.group)
        self.sent_bytes += 4 * HEAD * (self.world - 1)
        theirs = heads.numpy().view("<u4").reshape(self.world, HEAD)
        if not self._all_ready(theirs):
            return None
        lengths[self.rank] = 0
        sent = self._outgoing(sum(lengths))
        _fill(sent, [blob[:length] for blob, length in zip(blobs, lengths, strict=True)])
        received = self._swap("each", slot, np.split(sent, np.cumsum(lengths)[:-1]), theirs[:, 3].tolist())
        received[self.rank] = memoryview(blobs[self.rank])
        return received

    def _room_of(self, slot: int) -> int:
        room = self._rooms.get(slot)
        return room.needed + room.spare if room and room.needed <= PIECE else 0

    def _head(self, time: int, slot: int, status: int, length: int) -> Bytes:
        return np.array([time % 2**32, slot, status, length], "<u4").view(np.uint8)

    def _gather(self, kind: str, slot: int, size: int, *parts: Bytes | memoryview) -> list[memoryview]:
        """All-gather `size` bytes a rank, of which this rank's first are the parts; return every rank's."""
        sent = self._outgoing(size)
        _fill(sent, parts)
        received = self._incoming(kind, slot, self.world * size)
        all_gather(torch.from_numpy(received), torch.from_numpy(sent), self.group)
        self.sent_bytes += (self.world - 1) * size
        return [received.data[r * size : (r + 1) * size] for r in range(self.world)]

    def _swap(self, kind: str, slot: int, outgoing: Sequence[Bytes], lengths: Sequence[int]) -> list[memoryview]:
        """Send each rank its part, and get lengths[j] bytes of rank j; nothing is sent to this rank itself."""
        due = [0 if rank == self.rank else length for rank, length in enumerate(lengths)]
        received = self._incoming(kind, slot, sum(due))
        parts = np.split(received, np.cumsum(due)[:-1])
        self.sent_bytes += swap(outgoing, parts, self.group)
        return [part.data for part in parts]

    def _outgoing(self, size: int) -> Bytes:
        self._sent = _grown(self._sent, size)
        return self._sent[:size]

    def _incoming(self, kind: str, slot: int, size: int) -> Bytes:
        buffer = self._received[kind, slot] = _grown(self._received.get((kind, slot)), size)
        return buffer[:size]

    def _all_ready(self, heads: npt.NDArray[np.uint32]) -> bool:
        one, other = self._names
        mine = heads[self.rank]
        for rank, head in enumerate(heads):
            if head[2] == FAILED:
                raise RuntimeError(f"rank {rank} failed to encode at {one} {head[0]}; its own error says why")
            if (head[:2] != mine[:2]).any():
                raise RuntimeError(
                    f"rank {rank} is at {one} {head[0]}, {other} {head[1]} and rank {self.rank} at {one} {mine[0]}, "
                    f"{other} {mine[1]}; every rank must make the same steps (and load the state of the same one)"
                )
        return bool((heads[:, 2] == READY).all())


@dataclass(frozen=True)
class _Room:
    """Bytes that a slot's blobs needed on the longest rank, and bytes to spare for the next time."""

    needed: int
    spare: int

    @staticmethod
    def after(needed: int, before: _Room | None) -> _Room:
        """Spare twice the last change, which fades where lengths are steady, and at most 1/64 of the need."""
        most = needed // 64 + 16
        spare = most if before is None else max(2 * abs(needed - before.needed), before.spare * 7 // 8)
        return _Room(needed, min(spare, most))


def _grown(buffer: Bytes | None, size: int) -> Bytes:
    """The buffer, or a larger one: an eighth to spare, for lengths that change a little from time to time."""
    return buffer if buffer is not None and buffer.size >= size else np.zeros(size + size // 8, np.uint8)


def _fill(buffer: Bytes, parts: Sequence[bytes | memoryview | Bytes]) -> None:
    start = 0
    for part in parts:
        buffer[start : start + len(part)] = np.frombuffer(part, np.uint8)
        start += len(part)
