"""The rows as a table for a terminal, the same columns for the page, and as CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradwire.experiments.bench.cells import Row
from gradwire.experiments.reproduce.page import number

__all__ = ["COLUMNS", "Column", "as_csv", "groups", "ratio_range", "text", "title"]


@dataclass(frozen=True)
class Column:
    """A column: its head, what it means in a sentence, and its text for a row."""

    head: str
    meaning: str
    text: Callable[[Row], str]


def ratio_range(row: Row, part: str) -> tuple[float, float]:
    """How many times as fast as memcpy ``encode`` or ``add`` is, at the quartiles of its times."""
    return row["memcpy_s"] / row[f"{part}_s_high"], row["memcpy_s"] / row[f"{part}_s_low"]


def _ratio(row: Row, part: str) -> str:
    low, high = ratio_range(row, part)
    return f"{number(row[f'{part}_memcpy'])} ({low:.2g}–{high:.2g})"


def _extra(row: Row) -> str:
    parts = [row[f"{part}_extra_bytes"] for part in ("encode", "add")]
    return "–" if None in parts else " / ".join(f"{extra / (4 * row['n']):.2f}" for extra in parts)


def _name(row: Row) -> str:
    return row["name"] if row["library"] is None else f"  {row['name']}"


COLUMNS = (
    Column("codec", "The codec in its text form; a peer's name is indented.", _name),
    Column("encode, GB/s", "Float32 input per second; whole messages.", lambda r: number(r["encode_gb_s"])),
    Column(
        "× memcpy",
        "Its speed as a multiple of memcpy's of the same vector, on one thread, which took turns with it: of the "
        "median times (of the quartiles).",
        lambda r: _ratio(r, "encode"),
    ),
    Column(
        "add, GB/s",
        "Float32 output per second of decoding a message and adding it to a sum with a weight.",
        lambda r: number(r["add_gb_s"]),
    ),
    Column("× memcpy ", "The same multiple for adding.", lambda r: _ratio(r, "add")),
    Column(
        "bits/entry",
        "Bits of the real message for each entry; float32 has 32.",
        lambda r: f"{r['bits_per_coordinate']:.3f}",
    ),
    Column("NMSE", "‖C(x) − x‖²/‖x‖² of the message.", lambda r: f"{r['nmse']:.3g}"),
    Column(
        "extra, × vector",
        "Peak memory of encoding beyond vector and message / of adding beyond message and sum, in multiples of the "
        "vector; a dash where it is not told.",
        _extra,
    ),
)


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that belong in one table: of one source, size and number of threads, in their order."""
    together: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        together.setdefault((row["source"], row["n"], row["threads"]), []).append(row)
    return list(together.values())


def title(group: Sequence[Row]) -> str:
    """What a group has in common."""
    first, memcpy = group[0], sorted(row["memcpy_s"] for row in group if row["library"] is None)
    threads = f"{first['threads']} thread{'s' if first['threads'] > 1 else ''}"
    speed = 4 * first["n"] / memcpy[len(memcpy) // 2] / 1e9
    return f"{first['source']}, {first['n']:,} entries, {threads}; memcpy {number(speed)} GB/s"


def text(rows: Sequence[Row]) -> str:
    """All groups for a terminal."""
    heads = [column.head.strip() for column in COLUMNS]
    parts = []
    for group in groups(rows):
        lines = [heads, *([column.text(row) for column in COLUMNS] for row in group)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)
        parts.append(f"{title(group)}\n{body}")
    return "\n\n".join(parts)


def as_csv(rows: Sequence[Row]) -> str:
    """All rows with all that is known of them; an empty field for what could not be measured."""
    out = io.StringIO()
    fields = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(out, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    return out.getvalue()
