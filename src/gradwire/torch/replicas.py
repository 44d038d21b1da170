"""The check that the replicas still hold the same bytes."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

import torch
import torch.distributed as dist

from gradwire.torch.agreement import ranks_that
from gradwire.torch.collectives import gather_numbers

__all__ = ["check_replicas"]


def check_replicas(tensors: Iterable[torch.Tensor], group: dist.ProcessGroup, what: str) -> None:
    """Compare a CRC-32 of the tensors' bytes over the ranks; collective, eight bytes a rank.

    Raises:
        RuntimeError: on every rank, if the bytes differ; it names the ranks that differ from the most.
    """
    checksum = 0
    for tensor in tensors:
        flat = tensor.detach().to("cpu").contiguous().flatten()
        checksum = zlib.crc32(flat.view(torch.uint8).numpy().data, checksum)
    theirs = [row[0] for row in gather_numbers([checksum], group)]
    usual, holders = Counter(theirs).most_common(1)[0]
    if holders < len(theirs):
        odd = [rank for rank, number in enumerate(theirs) if number != usual]
        rest = [rank for rank, number in enumerate(theirs) if number == usual]
        raise RuntimeError(
            f"the replicas have diverged: {what} on {ranks_that(odd, 'is', 'are')} not what "
            f"{ranks_that(rest, 'holds', 'hold')}; start all ranks from one checkpoint, and look for what changes "
            "parameters on one rank only"
        )
