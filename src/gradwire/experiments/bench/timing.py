"""Time: calls that take turns, so that what else the machine does falls on all alike."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Times", "Turn", "take_turns"]

LEAST, MOST = 3, 301
"""Turns of every call, however long they take; and when there are enough, however short."""

SAMPLE = 100e-6
"""Seconds that a turn takes at least: a shorter call is repeated in it, so that the clock does not count."""


@dataclass(frozen=True)
class Turn:
    """What is timed, and what is done before it and not timed."""

    call: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Times:
    """Seconds of one call: the median, the quartiles, and of how many turns."""

    low: float
    median: float
    high: float
    turns: int


class _Contestant:
    """A turn with its times; the first touch of memory is past when it is made."""

    def __init__(self, turn: Turn) -> None:
        self.turn, self.times, self.spent = turn, list[float](), 0.0
        once = self._seconds(1)
        if once < SAMPLE:
            once = self._seconds(1)
        self.repeats = max(1, round(SAMPLE / max(once, 1e-8)))

    def _seconds(self, repeats: int) -> float:
        call = self.turn.call
        self.turn.prepare()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return time.perf_counter() - begin

    def take(self) -> None:
        seconds = self._seconds(self.repeats)
        self.times.append(seconds / self.repeats)
        self.spent += seconds

    def result(self) -> Times:
        low, median, high = np.percentile(self.times, (25, 50, 75))
        return Times(float(low), float(median), float(high), len(self.times))


def take_turns(calls: Sequence[Turn], rivals: Sequence[Turn], seconds: float) -> tuple[list[Times], list[Times]]:
    """The times of the calls and of their rivals.

    Definition: rounds, in each of which every call has one turn, one after another. Between two rounds rivals have
    turns, as long as they have used less time than the calls, all together: first those without 3 turns, then who has
    used the least. So a slow rival is measured seldom, but spread over the whole time, and takes nothing from the
    others. It ends when everyone has had 3 turns, and ``seconds`` are over or the calls have had 301.

    Args:
        calls: at least one; each is called once or twice before, so that memory and caches are warm.
        rivals: any number.
        seconds: the time to spend; more is spent where 3 turns take more.
    """
    mine, others = [_Contestant(turn) for turn in calls], [_Contestant(turn) for turn in rivals]
    collects = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while min(len(one.times) for one in mine + others) < LEAST or (
            time.perf_counter() < end and len(mine[0].times) < MOST
        ):
            if others and _spent(others) < _spent(mine):
                min(others, key=lambda one: (len(one.times) >= LEAST, one.spent)).take()
            else:
                for one in mine:
                    one.take()
    finally:
        if collects:
            gc.enable()
    return [one.result() for one in mine], [one.result() for one in others]


def _spent(contestants: Sequence[_Contestant]) -> float:
    return sum(one.spent for one in contestants)
