"""The result as a table: the same columns on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from gradwire.experiments.compare.results import Row

__all__ = ["COLUMNS", "Column", "bytes_text", "label"]


def bytes_text(number: float) -> str:
    """Bytes for people, to three digits: in B, kB, MB or GB (powers of 1000)."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if number >= 0.9995 * 10**power:
            return f"{number / 10**power:#.3g}".rstrip(".") + f" {unit}"
    return f"{number:.0f} B"


def label(codec: str) -> str:
    """The codec's text form, with what a reader may not know of it."""
    return "identity (dense)" if codec == "identity" else codec


def _spread(mean: float, deviation: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + (f" ± {deviation:.{digits}f}" if isfinite(deviation) else "")


@dataclass(frozen=True)
class Column:
    """A column: its head, what it means in a sentence, and its text for a row."""

    head: str
    meaning: str
    text: Callable[[Row], str]


COLUMNS = (
    Column(
        "accuracy, %",
        "Share of the test set that the final model gets right: mean ± standard deviation over the seeds.",
        lambda r: _spread(100 * r.accuracy, 100 * r.accuracy_deviation, 1),
    ),
    Column(
        "loss",
        "Cross-entropy of the final model on the test set: mean ± standard deviation over the seeds.",
        lambda r: _spread(r.loss, r.loss_deviation, 3),
    ),
    Column(
        "message, kB",
        "Kilobytes (1,000 bytes) of one worker's messages in one step, headers and dense tensors included.",
        lambda r: f"{r.message_bytes / 1e3:,.2f}",
    ),
    Column(
        "sent, kB",
        "Kilobytes that leave one worker in one step: its messages once for each other worker, and sizes and padding.",
        lambda r: f"{r.sent_bytes / 1e3:,.2f}",
    ),
    Column(
        "bits/entry",
        "Bits of the messages for each entry of the gradient; dense float32 has 32.",
        lambda r: f"{r.bits_per_coordinate:.3f}",
    ),
    Column(
        "ratio",
        "How many times smaller the messages are than the gradient in float32.",
        lambda r: f"{r.ratio:.1f}×",
    ),
    Column(
        "NMSE",
        "‖C(p) − p‖²/‖p‖², what the messages miss of what they were made of (gradient plus residual).",
        lambda r: f"{r.nmse:.3f}",
    ),
    Column(
        "encode, ms",
        "For adding the residual and encoding, per step (median over steps, mean over workers).",
        lambda r: f"{r.encode_ms:.2f}",
    ),
    Column(
        "comm., ms",
        "Between the end of encoding and the last byte received, waiting for slower workers included.",
        lambda r: f"{r.communicate_ms:.2f}",
    ),
    Column(
        "decode, ms",
        "For decoding all workers' messages into the average, per step.",
        lambda r: f"{r.decode_ms:.2f}",
    ),
)
