"""The result as a table: the same columns on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from gradwire.experiments.compare.table import bytes_text
from gradwire.experiments.federated.results import Row
from gradwire.experiments.federated.settings import TAIL

__all__ = ["COLUMNS", "Column"]


@dataclass(frozen=True)
class Column:
    """A column: its head, what it means in a sentence, and its text for a row."""

    head: str
    meaning: str
    text: Callable[[Row], str]


def _accuracy(row: Row) -> str:
    spread = f" ± {100 * row.accuracy_deviation:.1f}" if isfinite(row.accuracy_deviation) else ""
    return f"{100 * row.accuracy:.1f}{spread}"


def _times(number: float) -> str:
    return f"{number:.1f}×" if isfinite(number) else "–"


COLUMNS = (
    Column(
        "accuracy",
        f"Share of the test set that the server's model gets right, in %: mean over the last {TAIL} rounds, then "
        "mean ± standard deviation over the seeds.",
        _accuracy,
    ),
    Column("loss", "Cross-entropy on the test set, likewise.", lambda row: f"{row.loss:.3f}"),
    Column(
        "down", "Bytes from the server to all clients in the run, whole messages.", lambda r: bytes_text(r.down_bytes)
    ),
    Column("up", "Bytes from all clients to the server in the run, whole messages.", lambda r: bytes_text(r.up_bytes)),
    Column("total", "Both directions.", lambda row: bytes_text(row.total_bytes)),
    Column("down ×", "How many times fewer bytes down than dense.", lambda row: _times(row.fewer_down)),
    Column("up ×", "How many times fewer bytes up than dense.", lambda row: _times(row.fewer_up)),
    Column("total ×", "How many times fewer bytes than dense.", lambda row: _times(row.fewer)),
)
