"""Long messages between ranks: in pieces, all of them on their way at once in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

__all__ = ["PIECE", "swap"]

PIECE = 1 << 19  # bytes: long enough that a piece's own cost does not count, short enough to leave no pause
Bytes = npt.NDArray[np.uint8]


def swap(outgoing: Sequence[Bytes], incoming: Sequence[Bytes], group: dist.ProcessGroup) -> int:
    """Send outgoing[j] to rank j, and fill incoming[j] with what rank j sends; return the bytes sent.

    Both ends of a pair must give the same length; an empty one is not sent at all, and neither is what a rank has for
    itself. No rank learns more than the lengths of its own pairs.

    Every piece is announced to its sender before this rank sends anything: gloo sends data only to who has asked for
    it, and an asking that queues behind one's own data makes the link carry one direction after the other. gloo's own
    collectives do that: all_to_all_single takes twice the time of the link.

    Raises:
        RuntimeError: a rank is gone, or nothing comes within the time-out of the group.
    """
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    others = [(rank + step) % world for step in range(1, world)]
    work = [
        dist.irecv(piece, group=group, group_src=other) for other in reversed(others) for piece in _cut(incoming[other])
    ]
    work += [dist.isend(piece, group=group, group_dst=other) for other in others for piece in _cut(outgoing[other])]
    for one in work:
        one.wait()  # type: ignore[union-attr]  # None is for ranks that are not in the group
    return sum(outgoing[other].size for other in others)


def _cut(data: Bytes) -> list[torch.Tensor]:
    return [torch.from_numpy(data[start : start + PIECE]) for start in range(0, data.size, PIECE)]
