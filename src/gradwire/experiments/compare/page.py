"""The page of a comparison: what was compared, the table, the figures, and how to repeat it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter

from gradwire.experiments.compare.results import Record, Results, rows
from gradwire.experiments.compare.table import COLUMNS, bytes_text, label
from gradwire.report import Page, Style, figure, styles, svg

__all__ = ["page"]

BYTES = FuncFormatter(lambda value, _: re.sub(r"\.0+ ", " ", bytes_text(value)))


def page(results: Results) -> str:
    """Return the page as HTML; needs at least one record."""
    records = results.records
    first = records[0]
    task = first.task
    drawn = styles(record.task.codec for record in records)
    made = Page(f"{results.title}: {len(drawn)} codecs, {task.workers} workers")
    if not results.complete:
        made.paragraph(
            f"The comparison was ended early: {len(records)} of {results.planned} runs were made, and this page "
            "shows these.",
            note=True,
        )
    for text in _summary(results):
        made.paragraph(text)
    made.heading("Side by side")
    table = rows(records)
    made.table(
        ["codec", *(column.head for column in COLUMNS)],
        [[label(row.codec), *(column.text(row) for column in COLUMNS)] for row in table],
        [drawn[row.codec].colour for row in table],
    )
    made.terms([(column.head, column.meaning) for column in COLUMNS])
    made.heading("Figures")
    made.figures(_figures(records, drawn))
    made.heading("Settings")
    made.terms(_settings(results))
    made.heading("Repeat it")
    made.paragraph("The same options give the same parameters, bytes and errors to the bit; only times differ.")
    made.code(results.command)
    made.footer(
        f"Made by gradwire {gradwire_version(first)}. Every run, step by step, is in results.jsonl beside this page."
    )
    return made.html()


def gradwire_version(record: Record) -> str:
    """The version that made the record."""
    return record.versions["gradwire"]


def _summary(results: Results) -> list[str]:
    first = results.records[0]
    task, dense = first.task, 4 * first.parameters
    ring = 2 * (task.workers - 1) / task.workers * dense
    seeds = len({record.task.seed for record in results.records})
    return [
        f"One network of {first.parameters:,} parameters was trained on {results.title} "
        f"({results.samples[0]:,} training and {results.samples[1]:,} test images) by {task.workers} processes "
        f"that each take {task.batch} images a step and exchange their gradients as messages, for {task.steps:,} "
        f"steps; once for each codec and each of {seeds} seed{'s' if seeds > 1 else ''}, with the same settings "
        "for all. Each worker sends its messages to every other one, and all decode the same bytes, so their "
        "models stay equal bit for bit (checked after every run).",
        f"For comparison: the gradient in float32 is {bytes_text(dense)}, and the usual dense ring all-reduce "
        f"sends {bytes_text(ring)} per worker and step.",
        *_outcome(results),
    ]


def _outcome(results: Results) -> list[str]:
    """One sentence a codec on how it fared against dense, where dense was among the codecs."""
    table = rows(results.records)
    dense = next((row for row in table if row.codec == "identity"), None)
    others = [row for row in table if row is not dense]
    if dense is None or not others:
        return []
    fared = [
        f"{row.codec} {100 * row.accuracy:.1f} % ({_signed(100 * (row.accuracy - dense.accuracy))} points, messages "
        f"{row.ratio:.0f} times smaller)"
        for row in others
    ]
    return [
        f"What came out: dense float32 reached {100 * dense.accuracy:.1f} % accuracy on the test images; "
        + "; ".join(fared)
        + "."
    ]


def _signed(number: float) -> str:
    """With one digit and a sign that is as wide as the plus."""
    return f"{number:+.1f}".replace("-", "−")


def _exceptions(without: Sequence[str]) -> str:
    return f"not for {', '.join(without)} (switched off, or not contractive)" if without else "for all codecs"


def _settings(results: Results) -> list[tuple[str, str]]:
    first = results.records[0]
    task = first.task
    without = sorted({r.task.codec for r in results.records if not r.error_feedback})
    return [
        (
            "optimizer",
            f"SGD, momentum {task.momentum}, learning rate {task.lr} after 5 % warm-up, then half a cosine to 0",
        ),
        ("samples", f"{task.batch} per worker and step, {task.batch * task.workers} in all; {task.steps:,} steps"),
        ("error feedback", f"{task.feedback}, in {task.units} units, {_exceptions(without)}"),
        ("gradients", f"taken {task.ahead:g}·(learning rate)·residual ahead" if task.ahead else "at the model itself"),
        ("exchange", f"{task.topology}; warm-up of sparsifiers: {task.warm_up} steps"),
        ("one vector", "of all compressed layers" if task.whole_model else "each layer"),
        ("small tensors", f"of one dimension or fewer than {task.small} entries go dense in float32"),
        ("seeds", ", ".join(str(seed) for seed in sorted({r.task.seed for r in results.records}))),
        ("versions", ", ".join(f"{name} {version}" for name, version in first.versions.items())),
    ]


def _figures(records: Sequence[Record], drawn: dict[str, Style]) -> list[tuple[str, str]]:
    by_codec = {codec: [r for r in records if r.task.codec == codec] for codec in drawn}
    workers, dense = records[0].task.workers, 4 * records[0].parameters
    shades = " Bands span the seeds." if any(len(runs) > 1 for runs in by_codec.values()) else ""
    return [
        (
            _accuracy_against_bytes(by_codec, drawn),
            "Accuracy on the test set against the bytes that one worker has sent so far (logarithmic): further left "
            f"is cheaper. The line is the mean over the seeds.{shades}",
        ),
        (
            _loss_against_steps(by_codec, drawn),
            "Training loss against steps (logarithmic): mean over workers and seeds, smoothed over 5 % of the steps. "
            "Codecs whose lines coincide learn equally fast per step.",
        ),
        (
            _bytes_by_codec(by_codec, drawn, 2 * (workers - 1) / workers * dense),
            "Bytes that one worker sends in one step (logarithmic). The dashed line is what a ring "
            "all-reduce of the dense gradient would send.",
        ),
        (
            _accuracy_against_steps(by_codec, drawn),
            f"Accuracy on the test set against steps.{shades}",
        ),
    ]


def _accuracy_against_bytes(by_codec: dict[str, list[Record]], drawn: dict[str, Style]) -> str:
    made, axes = figure()
    for codec, runs in by_codec.items():
        sent = [np.concatenate([[0], np.cumsum(_carried(run))])[run.curve.test_step] for run in runs]
        # Before the first step nothing is sent: a logarithmic axis has no place for it.
        _band(axes, np.mean(sent, axis=0)[1:], [100 * np.array(r.curve.test_accuracy[1:]) for r in runs], codec, drawn)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(BYTES)
    axes.set_xlabel("sent by one worker" if runs[0].task.workers > 1 else "messages of the only worker")
    axes.set_ylabel("test accuracy, %")
    axes.legend(loc="lower right", fontsize=9)
    return svg(made)


def _carried(run: Record) -> list[float]:
    """Bytes per step that the figures show: what is sent, or the messages where nobody is there to send them to."""
    return run.curve.sent_bytes if run.task.workers > 1 else run.curve.message_bytes


def _accuracy_against_steps(by_codec: dict[str, list[Record]], drawn: dict[str, Style]) -> str:
    made, axes = figure()
    for codec, runs in by_codec.items():
        _band(axes, runs[0].curve.test_step, [100 * np.array(r.curve.test_accuracy) for r in runs], codec, drawn)
    axes.set_xlabel("step")
    axes.set_ylabel("test accuracy, %")
    axes.legend(loc="lower right", fontsize=9)
    return svg(made)


def _band(axes: Any, x: Any, values: Sequence[Any], codec: str, drawn: dict[str, Style]) -> None:
    style, y = drawn[codec], np.array(values)
    axes.plot(x, y.mean(axis=0), label=label(codec), **style.line(y.shape[1]))
    if len(y) > 1:
        axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=style.colour, alpha=0.12, linewidth=0)


def _loss_against_steps(by_codec: dict[str, list[Record]], drawn: dict[str, Style]) -> str:
    made, axes = figure()
    for codec, runs in by_codec.items():
        mean = np.mean([run.curve.train_loss for run in runs], axis=0)
        width = max(1, len(mean) // 20)
        smooth = np.convolve(mean, np.ones(width) / width, mode="valid")
        steps = np.arange(len(smooth)) + (width + 1) / 2
        axes.plot(steps, smooth, label=label(codec), **drawn[codec].line(len(smooth)))
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("training loss")
    axes.legend(loc="lower left", fontsize=9)
    return svg(made)


def _bytes_by_codec(by_codec: dict[str, list[Record]], drawn: dict[str, Style], ring: float) -> str:
    made, axes = figure()
    names = list(by_codec)
    sent = [float(np.mean([_carried(run) for run in runs])) for runs in by_codec.values()]
    axes.barh(range(len(names)), sent, color=[drawn[name].colour for name in names], height=0.6)
    for i, value in enumerate(sent):
        axes.annotate(bytes_text(value), (value, i), (5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.9)  # the first codec at the top, and place for a word above it
    axes.set_xscale("log")
    positive = [value for value in (*sent, ring) if value > 0]
    if positive:
        axes.set_xlim(min(positive) / 4, max(positive) * 6)
    if ring > 0:
        axes.axvline(ring, color="#777777", linestyle="--", linewidth=1.2)
        axes.annotate(
            "dense ring all-reduce",
            (ring, -0.85),
            (-4, 0),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8.5,
            color="#555555",
            annotation_clip=False,
        )
    axes.xaxis.set_major_formatter(BYTES)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("sent by one worker in one step")
    return svg(made)
