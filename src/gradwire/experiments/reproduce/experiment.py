"""The shape of an experiment that ``gradwire reproduce`` can run; how to add one is told in the package's docstring."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwire.rng import Rng

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Check", "Experiment", "Findings", "Item", "Plot", "Row", "Settings", "Table", "item_rng"]

Item = dict[str, Any]
"""One piece of work, as plain JSON data, ``seed`` among it: all that decides its row, and nothing else."""

Row = dict[str, Any]
"""What was measured, as plain JSON data (finite numbers, strings, lists of them, None)."""


@dataclass(frozen=True)
class Settings:
    """What the user chose: a quick run or a full one, how many seeds, and where data sets lie."""

    quick: bool
    seeds: int
    data_dir: Path


@dataclass(frozen=True)
class Check:
    """One statement that the results decide; ``holds`` is None where the number is reported, not judged."""

    statement: str
    expected: str
    found: str
    holds: bool | None


@dataclass(frozen=True)
class Table:
    """A table of the page: cells are text or numbers, which are shown with three digits."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure and the sentence or two that let it be read alone; ``name`` is that of its files."""

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True)
class Findings:
    """What the rows say: the verdict in a few sentences, checks, figures, tables, differences from the paper."""

    verdict: str
    checks: Sequence[Check]
    plots: Sequence[Plot]
    tables: Sequence[Table] = ()
    differences: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return all(check.holds is not False for check in self.checks)


@dataclass(frozen=True)
class Experiment:
    """One experiment: texts for its page, and three functions.

    Args:
        name: of the command and the results' folder.
        title: of the page.
        claim: one sentence: what the paper says.
        source: the paper, and its section or result.
        shows: one line for ``--list``.
        method: paragraphs, parted by empty lines: what was done, what a seed is, what the spread is.
        seeds: how many, in a full and in a quick run, unless the user says otherwise.
        version: raise it when ``measure`` changes its meaning: rows of another version are measured anew.
        items: the work of a run, in the order of measuring. Quick items that differ from the full ones are kept apart
            by what they hold.
        measure: one item's row. In-process, single-threaded; all randomness from ``item_rng`` or the item's seed.
        findings: from the rows, each an item joined with its measurements (and ``seconds``), in the order of ``items``.
    """

    name: str
    title: str
    claim: str
    source: str
    shows: str
    method: str
    items: Callable[[Settings], list[Item]] = field(repr=False)
    measure: Callable[[Item, Settings], Row] = field(repr=False)
    findings: Callable[[list[Row], Settings], Findings] = field(repr=False)
    seeds: tuple[int, int] = (5, 3)
    version: int = 1


def item_rng(item: Item) -> Rng:
    """A generator of the item's own: what it holds is the seed, so items are independent and repeatable.

    >>> item_rng({"m": 1, "seed": 0}) == item_rng({"seed": 0, "m": 1})
    True
    """
    digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode()).digest()
    return Rng(int.from_bytes(digest[:8], "little"))
