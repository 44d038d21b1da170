"""Runs the comparison: the workers, the progress on the terminal, and what is written when it ends or is ended."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from gradwire.errors import ParameterError
from gradwire.experiments.compare.datasets import load
from gradwire.experiments.compare.models import build
from gradwire.experiments.compare.page import page
from gradwire.experiments.compare.results import Record, Results, finite, record, rows, write
from gradwire.experiments.compare.settings import Settings
from gradwire.experiments.compare.table import COLUMNS, label
from gradwire.experiments.compare.teams import LocalTeam, Team, TorchrunTeam, WorkerError
from gradwire.experiments.compare.training import takes_error_feedback

__all__ = ["compare"]

DONE, FAILED, INTERRUPTED = 0, 1, 130


def compare(args: argparse.Namespace) -> int:
    """Make the comparison that the options ask for; returns the exit code."""
    under_torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    workers = args.workers if args.workers is not None else 4
    if under_torchrun:
        started = int(os.environ["WORLD_SIZE"])
        if args.workers not in (None, started):
            raise ParameterError(f"--workers is {args.workers}, torchrun started {started}; leave --workers out")
        workers = started
    data = load(args.data, None if args.data_dir is None else str(args.data_dir))
    settings = Settings.of(args, workers, len(data.train_y), len(data.test_y))
    network = build(args.data, 0)
    for task in settings.tasks[: len(settings.codecs)]:
        takes_error_feedback(task, network)  # a codec that does not suit is known before any process is started
    shown = int(os.environ.get("RANK", "0")) == 0
    if shown:
        settings.out.mkdir(parents=True, exist_ok=True)
        (settings.out / "results.jsonl").write_text("")  # of this comparison only

    results = Results(
        records=[],
        planned=len(settings.tasks),
        title=data.title,
        samples=(len(data.train_y), len(data.test_y)),
        command=shlex.join(["gradwire", "compare", *_options(args)]),
    )
    status = DONE
    team: Team = TorchrunTeam() if under_torchrun else LocalTeam(workers)
    try:
        _run_all(settings, team, results, shown)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except WorkerError as error:
        status = FAILED
        print(f"gradwire: {error}", file=sys.stderr)
    finally:
        team.close()
    if shown:
        _finish(settings, results, status)
    return status


def _run_all(settings: Settings, team: Team, results: Results, shown: bool) -> None:
    console = Console(stderr=True, quiet=not shown)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as display:
        every = display.add_task("all runs", total=results.planned, note="")
        one = display.add_task("starting the workers", total=settings.common.steps, note="")
        for task in settings.tasks:
            display.reset(one, description=f"{task.codec}, seed {task.seed}", note="")
            parts = team.run(task, _Show(display, one))
            if not shown:
                continue
            done = record(task, parts, results.samples[1])
            results.records.append(done)
            write(done, settings.out / "results.jsonl")
            display.update(one, completed=task.steps)
            display.update(every, advance=1, note=f"last {100 * done.accuracy:.1f} %")


class _Show:
    """Moves the bar of the current run."""

    def __init__(self, display: Progress, bar: TaskID) -> None:
        self._display = display
        self._bar = bar

    def __call__(self, step: int, loss: float) -> None:
        self._display.update(self._bar, completed=step, note=f"loss {loss:.3f}")


def _finish(settings: Settings, results: Results, status: int) -> None:
    """Write the page and print the result of what was measured."""
    if not results.complete:
        print(
            f"gradwire: {len(results.records)} of {results.planned} runs were made; the results are of these",
            file=sys.stderr,
        )
    report = settings.out / "report.html"
    if results.records:
        report.write_text(page(results), encoding="utf-8")
    if settings.json:
        print(
            json.dumps(
                finite(
                    {
                        "complete": results.complete,
                        "settings": _shared(results.records),
                        "codecs": [asdict(row) for row in rows(results.records)],
                        "results": str(settings.out / "results.jsonl"),
                        "report": str(report) if results.records else None,
                    }
                ),
                ensure_ascii=False,
                allow_nan=False,
            )
        )
    elif results.records:
        console = Console()
        table = _table(results)
        wanted = Measurement.get(console, console.options.update(max_width=1000), table).maximum
        console.width = max(console.width, wanted)  # a narrow terminal wraps the lines rather than losing digits
        console.print(table)
        console.print(f"numbers: {settings.out / 'results.jsonl'}\npage:    {report}", highlight=False)


def _shared(records: list[Record]) -> dict[str, object] | None:
    """The settings that all runs have in common."""
    if not records:
        return None
    first = records[0]
    task = {key: value for key, value in asdict(first.task).items() if key not in ("codec", "seed")}
    return {**task, "parameters": first.parameters, "versions": first.versions}


def _table(results: Results) -> Table:
    first = results.records[0].task
    table = Table(
        title=f"{results.title}: {first.workers} workers, {first.steps} steps, "
        f"{results.records[0].parameters:,} parameters",
        box=SIMPLE_HEAD,
    )
    table.add_column("codec", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column.head.replace(", ", "\n"), justify="right", no_wrap=True)
    for row in rows(results.records):
        table.add_row(label(row.codec), *(column.text(row) for column in COLUMNS))
    table.caption = "message and sent: per worker and step; encode, comm. and decode: per step"
    return table


def _options(args: argparse.Namespace) -> list[str]:
    """The options that repeat this comparison; what has its default is left out."""
    words = ["--data", args.data]
    for name in ("data_dir", "workers", "steps", "epochs", "batch", "lr", "ahead"):
        value = getattr(args, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for codec in args.codec or ():
        words += ["--codec", codec]
    words += ["--seeds", str(args.seeds)]
    for name, default in (("feedback", "classic"), ("units", "gradient"), ("warm_up", 0), ("topology", "gather")):
        if getattr(args, name) != default:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += ["--whole-model"] if args.whole_model else []
    return words + (["--no-error-feedback"] if args.no_error_feedback else [])
