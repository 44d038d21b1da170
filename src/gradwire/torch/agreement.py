"""The check at registration that all ranks speak of the same codec, model and version – and who is not there."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from gradwire.errors import ParameterError

__all__ = ["agree", "ranks_that", "wait_for"]

ATTACH = timedelta(seconds=30)
POLL = 0.05  # seconds between two looks into the store
_attached: Counter[tuple[int, ...]] = Counter()


def agree(facts: Mapping[str, str], ranks: Sequence[int], patience: timedelta = ATTACH) -> None:
    """Compare the facts of all ranks; collective.

    It goes through the store of the process group, and not through a collective: a rank that never comes would
    leave the others in a collective without a word.

    Args:
        facts: what must be equal, by its name.
        ranks: the global ranks that take part.
        patience: how long to wait for the last one.

    Raises:
        ParameterError: on every rank, if any two ranks differ; the message names the fact and the ranks.
        RuntimeError: a rank did not come in time.
    """
    _attached[tuple(ranks)] += 1
    place = f"gradwire/attach/{_attached[tuple(ranks)]}"
    absent = wait_for(place, json.dumps(dict(facts)), ranks, patience)
    if absent:
        raise RuntimeError(
            f"{ranks_that(absent, 'has', 'have')} not attached gradwire within {patience.total_seconds():g} s; every "
            "rank must make the same hook at the same place of its script"
        )
    theirs = [json.loads(text) for text in _texts(place, ranks)]
    for fact, first in theirs[0].items():
        for rank, other in zip(ranks, theirs, strict=True):
            if other.get(fact) != first:
                raise ParameterError(
                    f"the ranks differ in {fact}: rank {ranks[0]} has {first}, rank {rank} has {other.get(fact)}; "
                    "start every rank with the same settings"
                )


def wait_for(place: str, text: str, ranks: Sequence[int], patience: timedelta) -> list[int]:
    """Leave a text at a place of the store, and wait for those of the other ranks.

    Returns:
        the global ranks that left none within `patience`.
    """
    store: Any = _get_default_store()
    keys = {rank: _key(place, ranks, rank) for rank in ranks}
    store.set(keys[dist.get_rank()], text)
    end = time.monotonic() + patience.total_seconds()
    missing = list(ranks)
    while missing:
        missing = [rank for rank in missing if not store.check([keys[rank]])]
        if not missing or time.monotonic() > end:
            break
        time.sleep(POLL)
    return missing


def ranks_that(ranks: Sequence[int], one: str, many: str) -> str:
    """Words for some ranks and their verb.

    >>> ranks_that([3], "has", "have"), ranks_that([1, 2], "has", "have")
    ('rank 3 has', 'ranks 1, 2 have')
    """
    return f"rank {ranks[0]} {one}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} {many}"


def _texts(place: str, ranks: Sequence[int]) -> list[str]:
    store: Any = _get_default_store()
    return [store.get(_key(place, ranks, rank)).decode() for rank in ranks]


def _key(place: str, ranks: Sequence[int], rank: int) -> str:
    group = hashlib.sha256(" ".join(map(str, ranks)).encode()).hexdigest()[:16]
    return f"{place}/{group}/{rank}"
