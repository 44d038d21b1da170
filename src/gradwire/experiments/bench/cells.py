"""One cell: memcpy, a codec and its peers take turns on one vector; then each one's memory, in its own process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import numpy as np

import gradwire
from gradwire.codecs.base import Floats
from gradwire.experiments.bench.memory import extra_memory
from gradwire.experiments.bench.plan import Cell, Entrant
from gradwire.experiments.bench.subjects import WEIGHT, error
from gradwire.experiments.bench.timing import Times, Turn, take_turns
from gradwire.experiments.bench.vectors import vector

__all__ = ["Row", "measure"]

Row = dict[str, Any]
"""What was measured, as plain data."""

_vector = lru_cache(maxsize=1)(vector)  # cells that follow each other have the same


class _Ready:
    """An entrant with its message: what has turns."""

    def __init__(self, entrant: Entrant, x: Floats, out: Floats) -> None:
        self.entrant, self.x = entrant, x
        subject = entrant.subject
        self.message = subject.encode(x)
        prepare = partial(_use, entrant.threads, entrant.library == "torch")
        self.turns = [
            Turn(lambda: subject.encode(x), prepare),
            Turn(lambda: subject.add(self.message, out, WEIGHT), prepare),
        ]

    def row(self, memcpy: Times, encode: Times, add: Times, scratch: Floats) -> Row:
        subject, n, gigabytes = self.entrant.subject, len(self.x), self.x.nbytes / 1e9
        return {
            "encode_gb_s": gigabytes / encode.median,
            "encode_memcpy": memcpy.median / encode.median,
            "add_gb_s": gigabytes / add.median,
            "add_memcpy": memcpy.median / add.median,
            "bits_per_coordinate": 8 * subject.size(self.message) / n,
            "nmse": error(subject, self.message, self.x, scratch),
            "memcpy_s": memcpy.median,
            "encode_s": encode.median,
            "encode_s_low": encode.low,
            "encode_s_high": encode.high,
            "add_s": add.median,
            "add_s_low": add.low,
            "add_s_high": add.high,
            "turns": encode.turns,
        }


def measure(cell: Cell) -> list[Row]:
    """The rows of a cell, in the order of its items.

    Definition: memcpy is numpy's copy of x into an array that is there already, on one thread, whatever the codec
    uses; encode gives a message of x, add adds that message to an array that is there already.
    """
    entrants = cell.entrants()
    extra = [_extra(cell, entrant) for entrant in entrants]  # before this process takes memory for vectors of its own
    x = _vector(cell.source, cell.n)
    out, copy = np.zeros_like(x), np.zeros_like(x)
    with _threads_as_before("torch" in cell.libraries):
        ready = [_Ready(entrant, x, out) for entrant in entrants]
        mine = [turn for one in ready if one.entrant.library is None for turn in one.turns]
        others = [turn for one in ready if one.entrant.library is not None for turn in one.turns]
        (memcpy, *own), rivals = take_turns([Turn(lambda: np.copyto(copy, x)), *mine], others, cell.seconds)
    rows, times = [], {True: iter(own), False: iter(rivals)}
    for one, more in zip(ready, extra, strict=True):
        encode, add = (next(times[one.entrant.library is None]) for _ in range(2))
        rows.append({**one.row(memcpy, encode, add, copy), **more})
    return rows


def _extra(cell: Cell, entrant: Entrant) -> Row:
    encode, add = extra_memory(
        {
            "codec": cell.codec,
            "library": entrant.library,
            "source": cell.source,
            "n": cell.n,
            "threads": entrant.threads,
        }
    )
    return {"encode_extra_bytes": encode, "add_extra_bytes": add}


def _thread_settings(with_torch: bool) -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """How the numbers of threads are read and set: gradwire's, and torch's where it takes part."""
    settings: list[tuple[Callable[[], int], Callable[[int], None]]] = [(gradwire.get_threads, gradwire.set_threads)]
    if with_torch:
        import torch

        settings.append((torch.get_num_threads, torch.set_num_threads))
    return settings


def _use(threads: int, with_torch: bool) -> None:
    for get, change in _thread_settings(with_torch):
        if get() != threads:
            change(threads)


@contextmanager
def _threads_as_before(with_torch: bool) -> Iterator[None]:
    settings = _thread_settings(with_torch)
    before = [get() for get, _ in settings]
    try:
        yield
    finally:
        for (_, change), old in zip(settings, before, strict=True):
            change(old)
