"""The page of a federated comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.ticker import FuncFormatter

from gradwire.experiments.compare.table import bytes_text
from gradwire.experiments.federated.results import Record, rows
from gradwire.experiments.federated.settings import DENSE, Task
from gradwire.experiments.federated.table import COLUMNS
from gradwire.report import Page, Style, figure, styles, svg

__all__ = ["page"]

BYTES = FuncFormatter(lambda value, _: bytes_text(value))


def page(records: Sequence[Record], planned: int, title: str, command: str) -> str:
    """The page as HTML; needs at least one record."""
    task = records[0].task
    drawn = styles(one.task.codec for one in records)
    made = Page(f"{title}: federated, {len(drawn)} codecs, {task.clients} clients")
    if len(records) < planned:
        made.paragraph(f"The comparison was ended early: {len(records)} of {planned} runs were made.", note=True)
    made.paragraph(_summary(task, records[0].parameters))
    made.heading("Side by side")
    table = rows(records)
    made.table(
        ["codec", *(column.head for column in COLUMNS)],
        [[row.codec, *(column.text(row) for column in COLUMNS)] for row in table],
        [drawn[row.codec].colour for row in table],
    )
    made.terms([(column.head, column.meaning) for column in COLUMNS])
    made.heading("Figures")
    made.figures(
        [
            (_figure(records, drawn, "round_bytes", "bytes in both directions"), "Accuracy against all bytes sent."),
            (_figure(records, drawn, "rounds", "round"), "Accuracy against rounds."),
        ]
    )
    made.heading("Settings")
    made.terms(
        [(key.replace("_", " "), str(value)) for key, value in asdict(task).items() if key not in ("codec", "seed")]
    )
    made.heading("Repeat it")
    made.code(command)
    made.footer(f"Made by gradwire {records[0].version}. Every run is in results.jsonl beside this page.")
    return made.html()


def _summary(task: Task, parameters: int) -> str:
    how = {
        "dirichlet": f"by labels, with shares drawn from Dirichlet({task.alpha})",
        "writer": "by writers",
        "even": "evenly at random",
    }[task.split]
    return (
        f"One network of {parameters:,} parameters was trained by {task.clients} clients through Flower, {task.chosen} "
        f"of them in each of {task.rounds} rounds, each for {task.local_epochs} epoch(s) on its share of "
        f"{task.samples:,} samples, which were dealt {how}. {DENSE}: Flower's FedAvg as it is. All others: the same "
        f"strategy inside gradwire.flower.Compressed, the codec at the clients {_feedback(task)}, and {task.downlink} "
        "down. Bytes are those of whole messages."
    )


def _feedback(task: Task) -> str:
    if not task.error_feedback:
        return "without error feedback"
    return f"with error feedback where it is contractive, training {task.ahead:g} of the residual ahead"


def _figure(records: Sequence[Record], drawn: dict[str, Style], x: str, label: str) -> str:
    picture, axes = figure()
    for codec, style in drawn.items():
        for number, one in enumerate(one for one in records if one.task.codec == codec):
            options: dict[str, Any] = {"label": codec} if number == 0 else {}
            shade = 1.0 if number == 0 else 0.45
            axes.plot(
                getattr(one, x),
                [100 * a for a in one.round_accuracy],
                color=style.colour,
                marker=style.marker,
                markevery=[i for i, r in enumerate(one.rounds) if r % one.task.step == 0],
                alpha=shade,
                **options,
            )
    if x == "round_bytes":
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(BYTES)
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy, %")
    axes.legend()
    return svg(picture)
