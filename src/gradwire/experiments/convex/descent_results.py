"""The rows of compressed gradient descent, seen as what they are asked for: bytes to an error, against basic."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import NamedTuple

from gradwire.experiments.convex.accounting import Cost
from gradwire.experiments.reproduce.experiment import Row

__all__ = ["Cell", "DescentResults", "Price"]

GOAL = "1e-4"


class Cell(NamedTuple):
    """One problem, step and kind of start."""

    lam: float
    step: str
    start: str


class Price(NamedTuple):
    """What one codec needs to reach 1e-4: iterations and bytes, means over seeds; and which k, for top-k."""

    iterations: float
    cost: Cost
    codec: str


@dataclass(frozen=True)
class DescentResults:
    """All rows of a run.

    Args:
        rows: of ``descent_items``.
    """

    rows: Sequence[Row]

    @property
    def main(self) -> Cell:
        """The figure's problem: where runs go to 1e-6."""
        row = next(row for row in self.rows if row["goal"] <= 1e-6)
        return Cell(row["lam"], "1/L", "zero")

    @property
    def cells(self) -> list[Cell]:
        """All in the order of the items, those of step ``theory`` left out."""
        return list(dict.fromkeys(Cell(r["lam"], r["step"], r["start"]) for r in self.rows if r["step"] != "theory"))

    @property
    def lams(self) -> list[float]:
        """Every λ, descending."""
        return sorted({row["lam"] for row in self.rows}, reverse=True)

    def of(self, cell: Cell, series: str, seed: int | None = None) -> dict[str, list[Row]]:
        """The rows of a series in a cell, by codec: one for a series, d for top-k."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            same = (row["lam"], row["step"], row["start"], row["series"]) == (*cell, series)
            if same and (seed is None or row["seed"] == seed):
                found.setdefault(row["codec"], []).append(row)
        return found

    def price(self, cell: Cell, series: str, seed: int | None = None) -> Price | None:
        """Of the codec with the fewest bytes in the paper's accounting; None where none got there."""
        prices = self.prices(cell, series, seed)
        return min(prices.values(), key=lambda price: price.cost.paper) if prices else None

    def prices(self, cell: Cell, series: str, seed: int | None = None) -> dict[str, Price]:
        """Of every codec of the series that reached 1e-4 with every seed."""
        prices = {}
        for codec, rows in self.of(cell, series, seed).items():
            if all(GOAL in row["reached"] for row in rows):
                reached = [row["reached"][GOAL] for row in rows]
                iterations, *cost = (mean(column) for column in zip(*reached, strict=True))
                prices[codec] = Price(iterations, Cost(*cost), codec)
        return prices

    def saving(self, cell: Cell, series: str, seed: int | None = None) -> float | None:
        """How many times fewer bytes than basic, in the paper's accounting."""
        basic, price = self.price(cell, "basic", self._basic_seed(cell, seed)), self.price(cell, series, seed)
        return basic.cost.paper / price.cost.paper if basic and price else None

    def savings(self, cell: Cell, series: str) -> list[float]:
        """The same for each seed by itself; runs that never arrived are left out."""
        seeds = sorted({row["seed"] for rows in self.of(cell, series).values() for row in rows})
        return [saving for seed in seeds if (saving := self.saving(cell, series, seed)) is not None]

    @staticmethod
    def _basic_seed(cell: Cell, seed: int | None) -> int | None:
        return None if cell.start == "zero" else seed  # from x⁰ = 0 basic is the same with every seed

    def curve(self, series: str, codec: str) -> Row:
        """The run of the main cell with the median number of iterations."""
        rows = sorted(self.of(self.main, series)[codec], key=lambda row: row["iterations"])
        middle = median([row["iterations"] for row in rows])
        return min(rows, key=lambda row: abs(row["iterations"] - middle))
