"""Which rank is missing when a collective has failed: a time-out of the transport does not say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

from gradwire.torch.agreement import ranks_that, wait_for

__all__ = ["name_the_absent"]

PATIENCE = timedelta(seconds=10)
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
    try:
        absent = wait_for(f"gradwire/failed/{where}", "here", ranks, PATIENCE)
    except Exception:  # the store lives in another process, which may be gone as well
        return error
    how = "did not take part in time" if _TIMED_OUT.search(str(error)) else "broke the connection"
    if not absent:
        return RuntimeError(
            f"the exchange of {where} failed on rank {dist.get_rank()}, although all ranks answer: {error}"
        )
    return RuntimeError(
        f"{ranks_that(absent, how, how)} in the exchange of {where}, as rank {dist.get_rank()} sees it; look there "
        f"for the cause (an exception, a longer batch or evaluation, a lost machine). The transport said: {error}"
    )
