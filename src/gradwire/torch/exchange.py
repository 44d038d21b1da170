"""Messages from every rank to every rank, as uint8 collectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

__all__ = ["Exchange", "Gather", "gather_bytes"]

READY, NOT_FINITE, FAILED = 0, 1, 2


# torch 2.13 renamed it; the signature is the same.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def _gather(sent: torch.Tensor, received: torch.Tensor, group: dist.ProcessGroup) -> None:
    _all_gather(received, sent, group=group)


def gather_bytes(data: bytes, group: dist.ProcessGroup) -> list[bytes]:
    """Return every rank's bytes, in rank order."""
    world = dist.get_world_size(group)
    sizes = torch.empty(world, dtype=torch.int64)
    _gather(torch.tensor([len(data)]), sizes, group)
    longest = int(sizes.max())
    sent = torch.zeros(longest, dtype=torch.uint8)
    sent[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    received = torch.empty(world * longest, dtype=torch.uint8)
    _gather(sent, received, group)
    flat = received.numpy().tobytes()
    return [flat[r * longest : r * longest + int(sizes[r])] for r in range(world)]


@dataclass(frozen=True)
class Exchange:
    """What came of one exchange; `messages` is None if some rank had no finite gradient."""

    messages: list[list[memoryview]] | None
    sent_bytes: int


class Gather:
    """The gather topology: each rank gets the messages of all ranks, its own too, in rank order.

    One collective a bucket: a head (step, bucket, status and the lengths of the messages, each u32) and room for
    the messages: what the longest rank needed last time and a little more, if the need changes from step to step.
    What does not fit follows in a second collective. All ranks see the same heads, so they agree on the room
    without asking.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self._room: dict[int, _Room] = {}
        self._sent = np.empty(0, np.uint8)
        self._received = np.empty(0, np.uint8)

    def exchange(self, step: int, bucket: int, count: int, messages: list[bytes] | None) -> Exchange:
        """Send this rank's `count` messages, or None if its gradient is not finite; get everyone's.

        The messages received are views of memory that the next call overwrites.

        Raises:
            RuntimeError: a rank failed to encode, or is at another step or bucket.
        """
        lengths = [len(message) for message in messages or []]
        head = _head(step, bucket, NOT_FINITE if messages is None else READY, lengths or [0] * count)
        data = b"".join(messages or [])
        room = self._room_of(bucket)
        first = self._collect(len(head) + room, head, memoryview(data)[:room])
        heads = np.stack([np.frombuffer(row[: len(head)], "<u4") for row in first])
        self._check(heads)
        longest = int(heads[:, 3:].sum(axis=1, dtype=np.int64).max())
        self._room[bucket] = _Room.after(longest, self._room.get(bucket))
        sent_bytes = (self.world - 1) * (len(head) + room)
        if (heads[:, 2] == NOT_FINITE).any():
            return Exchange(None, sent_bytes)

        rows = [row[len(head) :] for row in first]
        if longest > room:
            begun = [bytes(row) for row in rows]  # the second collective overwrites them
            rest = self._collect(longest - room, memoryview(data)[room:])
            rows = [memoryview(one + bytes(two)) for one, two in zip(begun, rest, strict=True)]
            sent_bytes += (self.world - 1) * (longest - room)
        return Exchange([_split(row, lengths) for row, lengths in zip(rows, heads[:, 3:], strict=True)], sent_bytes)

    def fail(self, step: int, bucket: int, count: int) -> None:
        """Tell the other ranks that this one cannot go on, so that they stop with an error and do not hang."""
        head = _head(step, bucket, FAILED, [0] * count)
        self._collect(len(head) + self._room_of(bucket), head)

    def _room_of(self, bucket: int) -> int:
        room = self._room.get(bucket)
        return room.needed + room.spare if room else 0

    def _collect(self, size: int, *parts: bytes | memoryview) -> list[memoryview]:
        """All-gather `size` bytes a rank, of which this rank's first are the parts; return every rank's."""
        if self._sent.size < size:
            self._sent = np.zeros(size, np.uint8)
            self._received = np.empty(self.world * size, np.uint8)
        sent, received = self._sent[:size], self._received[: self.world * size]
        start = 0
        for part in parts:
            sent.data[start : start + len(part)] = part
            start += len(part)
        _gather(torch.from_numpy(sent), torch.from_numpy(received), self.group)
        return [received.data[r * size : (r + 1) * size] for r in range(self.world)]

    def _check(self, heads: npt.NDArray[np.uint32]) -> None:
        mine = heads[self.rank]
        for rank, head in enumerate(heads):
            if head[2] == FAILED:
                raise RuntimeError(f"rank {rank} failed to encode its gradient; its own error says why")
            if (head[:2] != mine[:2]).any():
                raise RuntimeError(
                    f"rank {rank} is at step {head[0]}, bucket {head[1]} and rank {self.rank} at step {mine[0]}, "
                    f"bucket {mine[1]}; every rank must run the same backward passes (and load the state of the "
                    "same step)"
                )


@dataclass(frozen=True)
class _Room:
    """Bytes that a bucket's messages needed on the longest rank, and bytes to spare for the next time."""

    needed: int
    spare: int

    @staticmethod
    def after(needed: int, before: _Room | None) -> _Room:
        """Spare twice the last change, which fades where lengths are steady, and at most 1/64 of the need."""
        most = needed // 64 + 16
        spare = most if before is None else max(2 * abs(needed - before.needed), before.spare * 7 // 8)
        return _Room(needed, min(spare, most))


def _head(step: int, bucket: int, status: int, lengths: list[int]) -> bytes:
    return np.array([step % 2**32, bucket, status, *lengths], "<u4").tobytes()


def _split(row: memoryview, lengths: npt.NDArray[np.uint32]) -> list[memoryview]:
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [row[start:end] for start, end in zip([0, *ends], ends, strict=False)]
