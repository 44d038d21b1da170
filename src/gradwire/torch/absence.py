"""Which rank is missing when a collective has failed: a time-out of the transport does not say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

from gradwire.torch.agreement import SilentStoreError, notes, ranks_that

__all__ = ["name_the_absent"]

PATIENCE = timedelta(seconds=10)
_failed: Counter[str] = Counter()
_OURS = re.compile(r"^(rank \d+ |the replicas )")
_TIMED_OUT = re.compile(r"timed? ?-?out", re.IGNORECASE)


def name_the_absent(error: RuntimeError, where: str, ranks: Sequence[int]) -> RuntimeError:
    """Turn a transport's error into one that names the ranks that did not take part.

    A rank whose exchange fails leaves a note in the store of the process group, and reads the notes of the others: a
    failed exchange fails for all that wait in it. Who leaves no note hangs, is slower than the time-out, or is dead.

    Args:
        error: what the collective raised.
        where: in which exchange, the same words on all ranks.
        ranks: global ranks that take part.

    Returns:
        the error to raise; the old one if it says already what is wrong.
    """
    if _OURS.match(str(error)):
        return error
    _failed[where] += 1  # the store still has the notes of an earlier hook that failed at the same step
    try:
        present = notes(f"gradwire/failed/{_failed[where]}/{where}", "here", ranks, PATIENCE)
    except SilentStoreError as silent:
        return RuntimeError(
            f"the exchange of {where} failed on rank {dist.get_rank()}, and {silent}. The transport said: {error}"
        )
    absent = [rank for rank in ranks if rank not in present]
    how = "did not take part in time" if _TIMED_OUT.search(str(error)) else "broke the connection"
    if not absent:
        return RuntimeError(
            f"the exchange of {where} failed on rank {dist.get_rank()}, although all ranks answer: {error}"
        )
    return RuntimeError(
        f"{ranks_that(absent, how, how)} in the exchange of {where}, as rank {dist.get_rank()} sees it; look there "
        f"for the cause (an exception, a longer batch or evaluation, a lost machine). The transport said: {error}"
    )
