"""The rows of the twenty workers: bytes that one worker sends to an error, by data set, method, codec and step."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import NamedTuple

from gradwire.experiments.convex.accounting import Cost
from gradwire.experiments.reproduce.experiment import Row

__all__ = ["DistributedResults", "Outcome"]

GOAL = "1e-4"


class Outcome(NamedTuple):
    """One method with one codec at one step, over seeds.

    Attributes:
        step: its text: theory, or γL.
        step_times_smoothness: γL.
        cost: bytes to 1e-4, the mean; None where a seed did not get there.
        iterations: the same.
        least: the least error met, the median.
        row: the run of median least error.
    """

    step: str
    step_times_smoothness: float
    cost: Cost | None
    iterations: float | None
    least: float
    row: Row


@dataclass(frozen=True)
class DistributedResults:
    """All rows of a run.

    Args:
        rows: of ``distributed_items``.
    """

    rows: Sequence[Row]

    @property
    def names(self) -> list[str]:
        """The data sets."""
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def outcomes(self, data: str, method: str, codec: str) -> list[Outcome]:
        """One for each step, theory's first."""
        steps: dict[str, list[Row]] = {}
        for row in self.rows:
            if (row["data"], row["method"], row["codec"]) == (data, method, codec):
                steps.setdefault(str(row["step"]), []).append(row)
        return [_outcome(step, rows) for step, rows in steps.items()]

    def theory(self, data: str, method: str, codec: str) -> Outcome:
        """At the step that theory gives."""
        return next(outcome for outcome in self.outcomes(data, method, codec) if outcome.step == "theory")

    def best(self, data: str, method: str, codec: str) -> Outcome:
        """At the step with the fewest bytes in whole messages to 1e-4; if none gets there, that of the least error."""
        outcomes = self.outcomes(data, method, codec)
        arrived = [outcome for outcome in outcomes if outcome.cost is not None]
        if arrived:
            return min(arrived, key=lambda outcome: outcome.cost.frame if outcome.cost else 0)
        return min(outcomes, key=lambda outcome: outcome.least)


def _outcome(step: str, rows: list[Row]) -> Outcome:
    least = median(row["least"] for row in rows)
    middle = min(rows, key=lambda row: abs(row["least"] - least))
    factor = rows[0]["step_times_smoothness"]
    if not all(GOAL in row["reached"] for row in rows):
        return Outcome(step, factor, None, None, least, middle)
    iterations, *cost = (mean(column) for column in zip(*(row["reached"][GOAL] for row in rows), strict=True))
    return Outcome(step, factor, Cost(*cost), iterations, least, middle)
