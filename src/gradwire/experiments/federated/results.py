"""What a run gave, on disk and side by side."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path

import gradwire
from gradwire.experiments.federated.engines import Outcome
from gradwire.experiments.federated.settings import DENSE, TAIL, Task
from gradwire.flower.meter import TRAIN_DOWN, TRAIN_UP

__all__ = ["Record", "Row", "record", "rows", "write"]


@dataclass(frozen=True)
class Record:
    """One run: accuracy against bytes. Bytes are of whole messages, as Flower sends them, sums over all clients."""

    task: Task
    parameters: int
    accuracy: float
    loss: float
    down_bytes: int
    up_bytes: int
    seconds: float
    rounds: list[int]
    round_accuracy: list[float]
    round_loss: list[float]
    round_bytes: list[int]
    """Bytes in both directions up to the round."""
    version: str

    @property
    def total_bytes(self) -> int:
        """Both directions."""
        return self.down_bytes + self.up_bytes


def record(task: Task, outcome: Outcome) -> Record:
    """The record of a run."""
    meter, looks = outcome.meter, outcome.looks
    total, upto = 0, {}
    for server_round in range(1, task.rounds + 1):
        total += meter.total(server_round=server_round, whole=True)
        upto[server_round] = total
    tail = looks[-TAIL:]
    return Record(
        task=task,
        parameters=outcome.parameters,
        accuracy=statistics.fmean(accuracy for _, _, accuracy in tail),
        loss=statistics.fmean(loss for _, loss, _ in tail),
        down_bytes=meter.total(TRAIN_DOWN, whole=True),
        up_bytes=meter.total(TRAIN_UP, whole=True),
        seconds=outcome.seconds,
        rounds=[r for r, _, _ in looks],
        round_accuracy=[accuracy for _, _, accuracy in looks],
        round_loss=[loss for _, loss, _ in looks],
        round_bytes=[upto[r] for r, _, _ in looks],
        version=gradwire.__version__,
    )


def write(one: Record, path: Path) -> None:
    """Append it to a file as one line of JSON; numbers that are not finite become null."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain(asdict(one)), allow_nan=False) + "\n")


@dataclass(frozen=True)
class Row:
    """A codec's runs together: means over its seeds, and deviations between them."""

    codec: str
    seeds: int
    accuracy: float
    accuracy_deviation: float
    loss: float
    down_bytes: float
    up_bytes: float
    total_bytes: float
    fewer: float
    """How many times fewer bytes than dense, in both directions together."""
    fewer_down: float
    fewer_up: float


def rows(records: Sequence[Record]) -> list[Row]:
    """One row a codec, in the order of their first run; ratios are to dense runs of the same seeds."""
    together: dict[str, list[Record]] = {}
    for one in records:
        together.setdefault(one.task.codec, []).append(one)
    dense = {one.task.seed: one for one in together.get(DENSE, [])}
    made = []
    for codec, runs in together.items():

        def mean(name: str, runs: list[Record] = runs) -> float:
            return statistics.fmean(getattr(run, name) for run in runs)

        def ratio(name: str, runs: list[Record] = runs) -> float:
            pairs = [(getattr(dense[r.task.seed], name), getattr(r, name)) for r in runs if r.task.seed in dense]
            return sum(a for a, _ in pairs) / sum(b for _, b in pairs) if pairs else nan

        accuracies = [run.accuracy for run in runs]
        made.append(
            Row(
                codec=codec,
                seeds=len(runs),
                accuracy=mean("accuracy"),
                accuracy_deviation=statistics.stdev(accuracies) if len(runs) > 1 else nan,
                loss=mean("loss"),
                down_bytes=mean("down_bytes"),
                up_bytes=mean("up_bytes"),
                total_bytes=mean("total_bytes"),
                fewer=ratio("total_bytes"),
                fewer_down=ratio("down_bytes"),
                fewer_up=ratio("up_bytes"),
            )
        )
    return made
