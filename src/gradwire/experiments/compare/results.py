"""From what the ranks saw to the numbers that are shown: one record a run, one row a codec."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

import gradwire
from gradwire.experiments.compare.settings import Task
from gradwire.experiments.compare.training import Part
from gradwire.torch import Measured

__all__ = ["Curve", "Record", "Results", "Row", "record", "rows", "write"]


@dataclass(frozen=True)
class Curve:
    """One run step by step.

    Attributes:
        train_loss: mean over the workers, per step.
        message_bytes: mean over the workers, per step; sent_bytes likewise.
        nmse: of all workers' messages together, per step; None where the step was skipped.
        test_step, test_loss, test_accuracy: the looks at the test set, the first before training.
    """

    train_loss: list[float]
    message_bytes: list[float]
    sent_bytes: list[float]
    nmse: list[float | None]
    test_step: list[int]
    test_loss: list[float]
    test_accuracy: list[float]


@dataclass(frozen=True)
class Record:
    """One run: its task, what came of it, and with what it was made.

    Attributes:
        loss, accuracy: on the test set, at the end; accuracy in [0, 1].
        message_bytes: per worker and step, mean; the real lengths, header and checksum included.
        sent_bytes: per worker and step, mean: what leaves a worker for all others together.
        bits_per_coordinate, ratio, nmse: of the messages of all workers and steps together.
        encode_ms, communicate_ms, decode_ms: median over steps, then mean over workers.
        fingerprint: SHA-256 of the final parameters, equal on all workers.
        seconds: of the whole run, by the slowest worker.
    """

    task: Task
    parameters: int
    error_feedback: bool
    loss: float
    accuracy: float
    message_bytes: float
    sent_bytes: float
    bits_per_coordinate: float
    ratio: float
    nmse: float
    encode_ms: float
    communicate_ms: float
    decode_ms: float
    skipped: int
    seconds: float
    fingerprint: str
    versions: dict[str, str]
    curve: Curve


def record(task: Task, parts: Sequence[Part], test_samples: int) -> Record:
    """Join what the ranks saw of a run.

    Raises:
        RuntimeError: the ranks ended with different parameters.
    """
    prints = {part.fingerprint for part in parts}
    if len(prints) > 1:
        raise RuntimeError(f"the workers ended with {len(prints)} different models; this must never happen")
    steps = [sum(ranks, Measured()) for ranks in zip(*(part.measured for part in parts), strict=True)]
    total = sum(steps, Measured())
    looks = list(zip(*(part.evaluations for part in parts), strict=True))
    curve = Curve(
        train_loss=[float(np.mean(losses)) for losses in zip(*(part.losses for part in parts), strict=True)],
        message_bytes=[step.message_bytes / task.workers for step in steps],
        sent_bytes=[step.sent_bytes / task.workers for step in steps],
        nmse=[step.nmse if isfinite(step.nmse) else None for step in steps],
        test_step=[look[0].step for look in looks],
        test_loss=[sum(share.loss for share in look) / test_samples for look in looks],
        test_accuracy=[sum(share.correct for share in look) / test_samples for look in looks],
    )

    def median(of: Callable[[Measured], float]) -> float:
        return statistics.fmean(statistics.median(map(of, part.measured)) for part in parts)

    each = task.workers * task.steps
    return Record(
        task=task,
        parameters=parts[0].parameters,
        error_feedback=parts[0].error_feedback,
        loss=curve.test_loss[-1],
        accuracy=curve.test_accuracy[-1],
        message_bytes=total.message_bytes / each,
        sent_bytes=total.sent_bytes / each,
        bits_per_coordinate=total.bits_per_coordinate,
        ratio=total.ratio,
        nmse=total.nmse,
        encode_ms=median(lambda m: m.encode_ms),
        communicate_ms=median(lambda m: m.communicate_ms),
        decode_ms=median(lambda m: m.decode_ms),
        skipped=sum(m.skipped for m in parts[0].measured),
        seconds=max(part.seconds for part in parts),
        fingerprint=prints.pop(),
        versions=_versions(),
        curve=curve,
    )


def _versions() -> dict[str, str]:
    import torch

    return {
        "gradwire": gradwire.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def write(record: Record, path: Path) -> None:
    """Append the record to a file as one line of JSON; numbers that are not finite become null."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(asdict(record)), ensure_ascii=False, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Return the value with every float that JSON cannot hold replaced by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@dataclass(frozen=True)
class Row:
    """A codec's runs together: means over its seeds, and the deviation between seeds of loss and accuracy."""

    codec: str
    seeds: int
    error_feedback: bool
    accuracy: float
    accuracy_deviation: float
    loss: float
    loss_deviation: float
    message_bytes: float
    sent_bytes: float
    bits_per_coordinate: float
    ratio: float
    nmse: float
    encode_ms: float
    communicate_ms: float
    decode_ms: float


def rows(records: Sequence[Record]) -> list[Row]:
    """One row a codec, in the order of their first run."""
    together: dict[str, list[Record]] = {}
    for one in records:
        together.setdefault(one.task.codec, []).append(one)
    return [_row(codec, runs) for codec, runs in together.items()]


def _row(codec: str, runs: list[Record]) -> Row:
    def mean(name: str) -> float:
        return statistics.fmean(getattr(run, name) for run in runs)

    def deviation(name: str) -> float:
        return statistics.stdev(getattr(run, name) for run in runs) if len(runs) > 1 else nan

    means = {
        name: mean(name)
        for name in Row.__dataclass_fields__
        if name not in ("codec", "seeds", "error_feedback") and not name.endswith("_deviation")
    }
    return Row(
        codec=codec,
        seeds=len(runs),
        error_feedback=runs[0].error_feedback,
        accuracy_deviation=deviation("accuracy"),
        loss_deviation=deviation("loss"),
        **means,
    )


@dataclass(frozen=True)
class Results:
    """What the page and the table are made from: the records so far, and how the comparison ended."""

    records: list[Record]
    planned: int
    title: str
    samples: tuple[int, int]
    command: str

    @property
    def complete(self) -> bool:
        """Whether all planned runs were made."""
        return len(self.records) == self.planned
