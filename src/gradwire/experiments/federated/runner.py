"""Runs the federated comparison, and writes what was measured, also when it is ended early."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from math import isfinite

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gradwire.experiments.compare.datasets import load
from gradwire.experiments.federated.engines import ENGINES
from gradwire.experiments.federated.page import page
from gradwire.experiments.federated.results import Record, record, rows, write
from gradwire.experiments.federated.settings import Settings
from gradwire.experiments.federated.table import COLUMNS

__all__ = ["compare"]

DONE, INTERRUPTED = 0, 130


def compare(args: argparse.Namespace) -> int:
    """Make the comparison that the options ask for; returns the exit code."""
    settings = Settings.of(args)
    title = load(settings.common.data, settings.common.data_dir).title
    settings.out.mkdir(parents=True, exist_ok=True)
    numbers = settings.out / "results.jsonl"
    numbers.write_text("")  # of this comparison only
    records: list[Record] = []
    status = DONE
    try:
        _run_all(settings, records)
    except KeyboardInterrupt:
        status = INTERRUPTED
        print(
            f"gradwire: {len(records)} of {len(settings.tasks)} runs were made; the results are of these",
            file=sys.stderr,
        )
    if not records:
        return status
    command = shlex.join(["gradwire", *sys.argv[1:]])
    report = settings.out / "report.html"
    report.write_text(page(records, len(settings.tasks), title, command), encoding="utf-8")
    if settings.json:
        found = [
            {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in asdict(r).items()}
            for r in rows(records)
        ]
        print(
            json.dumps(
                {
                    "complete": len(records) == len(settings.tasks),
                    "codecs": found,
                    "results": str(numbers),
                    "report": str(report),
                }
            )
        )
        return status
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(_table(title, records))
    console.print(f"numbers: {numbers}\npage:    {report}", highlight=False)
    return status


def _run_all(settings: Settings, records: list[Record]) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        every = display.add_task("all runs", total=len(settings.tasks), note="")
        one = display.add_task("starting", total=settings.common.rounds, note="")
        for task in settings.tasks:
            display.reset(one, description=f"{task.codec}, seed {task.seed}", note="")

            def progress(server_round: int, accuracy: float) -> None:
                display.update(one, completed=server_round, note=f"accuracy {100 * accuracy:.1f} %")

            done = record(task, ENGINES[task.engine](task, progress))
            records.append(done)
            write(done, settings.out / "results.jsonl")
            display.update(every, advance=1, note=f"last: {task.codec} {100 * done.accuracy:.1f} %")


def _table(title: str, records: list[Record]) -> Table:
    task = records[0].task
    table = Table(
        title=f"{title}: {task.clients} clients, {task.chosen} a round, {task.rounds} rounds, "
        f"{records[0].parameters:,} parameters, downlink {task.downlink}"
    )
    table.add_column("codec")
    for column in COLUMNS:
        table.add_column(column.head, justify="right")
    for row in rows(records):
        table.add_row(row.codec, *(column.text(row) for column in COLUMNS))
    return table
