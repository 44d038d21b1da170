"""The check at registration that all ranks speak of the same codec, model and version – and who is not there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store, _world

from gradwire.errors import ParameterError

__all__ = ["SilentStoreError", "agree", "notes", "own_group", "ranks_that"]

ATTACH = timedelta(seconds=30)
POLL = 0.05  # seconds between two looks into the store
ANSWER = 5.0  # seconds for which the store may be silent
_attached: Counter[tuple[int, ...]] = Counter()


class SilentStoreError(RuntimeError):
    """The store of the process group does not answer; says who holds it."""

    def __init__(self) -> None:
        launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        holder = "the torchrun process of the first machine holds it" if launcher else "rank 0 holds it"
        super().__init__(f"the store of the process group does not answer: {holder}, so look there first")


def agree(facts: Mapping[str, str], ranks: Sequence[int], patience: timedelta | None = None) -> None:
    """Compare the facts of all ranks; collective.

    It goes through the store of the process group, and not through a collective: a rank that never comes would
    leave the others in a collective without a word.

    Args:
        facts: what must be equal, by its name.
        ranks: the global ranks that take part.
        patience: how long to wait for the last one; 30 seconds by default.

    Raises:
        ParameterError: on every rank, if any two ranks differ; the message names the fact and the ranks.
        RuntimeError: a rank did not come in time, or the store is silent.
    """
    patience = patience or ATTACH
    _attached[tuple(ranks)] += 1
    place = f"gradwire/attach/{_attached[tuple(ranks)]}"
    texts = notes(place, json.dumps(dict(facts)), ranks, patience)
    absent = [rank for rank in ranks if rank not in texts]
    if absent:
        raise RuntimeError(
            f"{ranks_that(absent, 'has', 'have')} not attached gradwire within {patience.total_seconds():g} s; every "
            "rank must make the same hook at the same place of its script"
        )
    theirs = [json.loads(texts[rank]) for rank in ranks]
    for fact, first in theirs[0].items():
        for rank, other in zip(ranks, theirs, strict=True):
            if other.get(fact) != first:
                raise ParameterError(
                    f"the ranks differ in {fact}: rank {ranks[0]} has {first}, rank {rank} has {other.get(fact)}; "
                    "start every rank with the same settings"
                )


def notes(place: str, text: str, ranks: Sequence[int], patience: timedelta) -> dict[int, str]:
    """Leave a text at a place of the store, and read those of the other ranks.

    Returns:
        the texts of those that left one within `patience`, by global rank.

    Raises:
        SilentStoreError: the store does not answer. If its process is stopped, a question to it would wait for ever, so
            that a thread asks, which is left behind.
    """
    answers: SimpleQueue[dict[int, str] | None] = SimpleQueue()

    def look() -> None:
        try:
            found = _look(place, text, ranks, ranks, patience)
            answers.put(found)
            # If the store lives in this process, and its next line is an exception, the others want to have read first.
            _look(f"{place}/read", "", ranks, list(found), patience)
            answers.put(found)
        except Exception:  # the store's process is gone
            answers.put(None)

    Thread(target=look, name="gradwire-store", daemon=True).start()
    try:
        found = answers.get(timeout=patience.total_seconds() + ANSWER)
        if found is None:
            raise SilentStoreError
        with suppress(Empty):
            answers.get(timeout=ANSWER)
        return found
    except Empty:
        raise SilentStoreError from None


def _look(place: str, text: str, ranks: Sequence[int], wanted: Sequence[int], patience: timedelta) -> dict[int, str]:
    store: Any = _get_default_store()
    store.set(_key(place, ranks, dist.get_rank()), text)
    end = time.monotonic() + patience.total_seconds()
    found: dict[int, str] = {}
    while True:
        for rank in wanted:
            if rank not in found and store.check([_key(place, ranks, rank)]):
                found[rank] = store.get(_key(place, ranks, rank)).decode()
        if len(found) == len(wanted) or time.monotonic() > end:
            return found
        time.sleep(POLL)


def own_group(ranks: Sequence[int], timeout: timedelta) -> dist.ProcessGroup:
    """A gloo group of these ranks, in which no collective of others comes between; only they call it.

    Raises:
        ParameterError: for a part of the ranks, if these have made different numbers of groups before: PyTorch then
            gives one group different names.
    """
    if list(ranks) == list(range(dist.get_world_size())):
        everyone: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=timeout)
        return everyone
    try:
        agree({"number of process groups so far": str(len(_world.pg_names))}, ranks)
    except ParameterError as error:
        raise ParameterError(
            f"{error}; or give group=, made by all ranks of the job with dist.new_group({list(ranks)}, backend='gloo')"
        ) from None
    group: dist.ProcessGroup = dist.new_group(
        list(ranks), backend="gloo", timeout=timeout, use_local_synchronization=True
    )
    return group


def ranks_that(ranks: Sequence[int], one: str, many: str) -> str:
    """Words for some ranks and their verb.

    >>> ranks_that([3], "has", "have"), ranks_that([1, 2], "has", "have")
    ('rank 3 has', 'ranks 1, 2 have')
    """
    return f"rank {ranks[0]} {one}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} {many}"


def _key(place: str, ranks: Sequence[int], rank: int) -> str:
    group = hashlib.sha256(" ".join(map(str, ranks)).encode()).hexdigest()[:16]
    life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun's store may keep what a former life left in it
    return f"{place}/{group}/{life}/{rank}"
