"""uint8 collectives whose lengths differ from rank to rank: the lengths go first, with every rank's status."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

__all__ = ["FAILED", "NOT_FINITE", "READY", "Uneven", "gather_numbers"]

READY, NOT_FINITE, FAILED = 0, 1, 2
HEAD = 3  # int64 each: round, status, length

# torch 2.13 renamed it; the signature is the same.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def gather_numbers(numbers: list[int], group: dist.ProcessGroup) -> list[list[int]]:
    """Every rank's numbers, in rank order; the ranks give equally many."""
    world = dist.get_world_size(group)
    received = torch.empty(world * len(numbers), dtype=torch.int64)
    _all_gather(received, torch.tensor(numbers, dtype=torch.int64), group=group)
    return received.reshape(world, len(numbers)).tolist()


class Uneven:
    """Two collectives on a gloo group; either returns None if some rank has nothing finite to send.

    The status of each rank is in the heads that all ranks get, so they agree on it without asking again, and the
    bytes themselves are not sent when they would be of no use. What is received are views of memory that the next
    call of the same collective overwrites; it grows to the longest need and is then reused.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.sent_bytes = 0
        """Bytes that left this rank so far: heads and what was sent to others; never decreases."""
        self._out = np.empty(0, np.uint8)
        self._in = np.empty(0, np.uint8)
        self._all = np.empty(0, np.uint8)

    def to_each(self, round: int, status: int, blobs: Sequence[bytes]) -> list[memoryview] | None:
        """Send blob j to rank j; get the blob of every rank for this one, in rank order.

        Raises:
            RuntimeError: a rank failed, or is at another round.
        """
        lengths = [len(blob) for blob in blobs] if status == READY else [0] * self.world
        heads = torch.empty(self.world * HEAD, dtype=torch.int64)
        mine = torch.tensor([[round, status, length] for length in lengths], dtype=torch.int64).flatten()
        dist.all_to_all_single(heads, mine, group=self.group)
        self.sent_bytes += 8 * HEAD * (self.world - 1)
        theirs = heads.reshape(self.world, HEAD).tolist()
        if not self._all_ready(round, theirs):
            return None
        self._out = _grown(self._out, sum(lengths))
        self._in = _grown(self._in, sum(length for _, _, length in theirs))
        sent, received = self._out[: sum(lengths)], self._in[: sum(length for _, _, length in theirs)]
        _fill(sent, blobs)
        incoming = [length for _, _, length in theirs]
        dist.all_to_all_single(torch.from_numpy(received), torch.from_numpy(sent), incoming, lengths, group=self.group)
        self.sent_bytes += sum(lengths) - lengths[self.rank]
        return _split(received, incoming)

    def to_all(self, round: int, status: int, blob: bytes) -> list[memoryview] | None:
        """Send the blob to every rank; get every rank's, this one's too, in rank order.

        The blob goes to each rank at its own length, and not padded to the longest as an all-gather would.

        Raises:
            RuntimeError: a rank failed, or is at another round.
        """
        theirs = gather_numbers([round, status, len(blob)], self.group)
        self.sent_bytes += 8 * HEAD * (self.world - 1)
        if not self._all_ready(round, theirs):
            return None
        incoming = [length for _, _, length in theirs]
        self._out = _grown(self._out, self.world * len(blob))
        self._all = _grown(self._all, sum(incoming))
        sent, received = self._out[: self.world * len(blob)], self._all[: sum(incoming)]
        _fill(sent, [blob] * self.world)
        dist.all_to_all_single(
            torch.from_numpy(received), torch.from_numpy(sent), incoming, [len(blob)] * self.world, group=self.group
        )
        self.sent_bytes += (self.world - 1) * len(blob)
        return _split(received, incoming)

    def _all_ready(self, round: int, heads: list[list[int]]) -> bool:
        for rank, (theirs, status, _) in enumerate(heads):
            if status == FAILED:
                raise RuntimeError(f"rank {rank} failed in its part of round {round}; its own error says why")
            if theirs != round:
                raise RuntimeError(
                    f"rank {rank} is at round {theirs} and rank {self.rank} at round {round}; every rank must make the "
                    "same steps (and load the state of the same round)"
                )
        return all(status == READY for _, status, _ in heads)


def _grown(buffer: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """The buffer, or a larger one: an eighth to spare, for lengths that change a little from round to round."""
    return buffer if buffer.size >= size else np.empty(size + size // 8, np.uint8)


def _fill(buffer: npt.NDArray[np.uint8], blobs: Sequence[bytes]) -> None:
    start = 0
    for blob in blobs:
        buffer.data[start : start + len(blob)] = blob
        start += len(blob)


def _split(buffer: npt.NDArray[np.uint8], lengths: Sequence[int]) -> list[memoryview]:
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [buffer.data[end - length : end] for end, length in zip(ends, lengths, strict=True)]
