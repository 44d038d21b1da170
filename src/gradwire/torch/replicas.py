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


def check_replicas(tensors: Iterable[torch.Tensor], group: dist.ProcessGroup, what: str, replica: bool = True) -> None:
    """Compare a CRC-32 of the tensors' bytes over the ranks; collective, sixteen bytes a rank.

    Args:
        tensors: of this rank.
        group: of the ranks.
        what: what they are, for the error.
        replica: whether this rank's count. Under `Join` a rank that is through with its data takes part in the
            exchanges and no steps; DDP gives it the others' parameters in the end.

    Raises:
        RuntimeError: on every rank, if the bytes differ; it names the ranks that differ from the most.
    """
    checksum = 0
    for tensor in tensors:
        flat = tensor.detach().to("cpu").contiguous().flatten()
        checksum = zlib.crc32(flat.view(torch.uint8).numpy().data, checksum)
    rows = gather_numbers([checksum, int(replica)], group)
    theirs = {rank: number for rank, (number, counts) in enumerate(rows) if counts}
    usual, holders = Counter(theirs.values()).most_common(1)[0] if theirs else (0, 0)
    if holders < len(theirs):
        odd = [rank for rank, number in theirs.items() if number != usual]
        rest = [rank for rank, number in theirs.items() if number == usual]
        raise RuntimeError(
            f"the replicas have diverged: {what} on {ranks_that(odd, 'is', 'are')} not what "
            f"{ranks_that(rest, 'holds', 'hold')}; start all ranks from one checkpoint, and look for what changes "
            "parameters on one rank only"
        )
