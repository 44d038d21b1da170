"""The page: what was measured, how fast everything is beside memcpy, at which sizes, and what threads bring."""

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter

from gradwire.experiments.bench.cells import Row
from gradwire.experiments.bench.machine import Machine
from gradwire.experiments.bench.table import COLUMNS, groups, ratio_range, title
from gradwire.report import Page, Style, figure, styles, svg

__all__ = ["page"]

MUTED = "#666666"

TIMES = FuncFormatter(lambda value, _: f"{value:g}")


def page(rows: Sequence[Row], machine: Machine, command: str, complete: bool) -> str:
    """The page as HTML; needs at least one row."""
    drawn = styles(row["name"] for row in rows if row["library"] is None)
    made = Page(f"Codecs against memcpy on {machine.processor}")
    if not complete:
        made.paragraph("The run was ended early: this page shows what was measured until then.", note=True)
    made.paragraph(
        "Encoding makes a whole message of a float32 vector: header, payload, checksum. Adding decodes one and adds it "
        "to a sum with a weight, which is what a receiver does. In every cell memcpy of the same vector, the codec and "
        "its peers took turns in one process with buffers that were there already; speeds are those of the median "
        "times, and multiples of memcpy's on one thread."
    )
    made.heading("Figures")
    first, *others = _figures(rows, drawn)
    made.figures([first])
    made.figures(others)
    if any(row["library"] for row in rows):
        made.heading("Beside the peers")
        made.table(("codec", "peer", "encodes, times", "adds, times", "bits/entry", "NMSE"), _rivals(rows))
    for group in groups(rows):
        made.heading(title(group))
        made.table(
            [column.head.strip() for column in COLUMNS],
            [[column.text(row) for column in COLUMNS] for row in group],
            [drawn[row["name"]].colour if row["library"] is None else "transparent" for row in group],
        )
    made.heading("The columns")
    made.terms([(column.head.strip(), column.meaning) for column in COLUMNS])
    made.heading("Machine")
    made.terms(
        [
            ("processor", f"{machine.processor}, {machine.cores} core{'s' if machine.cores > 1 else ''}"),
            ("kernels", f"{machine.backend}, {machine.simd}"),
            ("versions", f"gradwire {rows[0]['gradwire']}, numpy {rows[0]['numpy']}"),
        ]
    )
    made.heading("Repeat it")
    made.code(command)
    made.footer("Every row is a line of results.jsonl and of results.csv beside this page.")
    return made.html()


def _figures(rows: Sequence[Row], drawn: dict[str, Style]) -> list[tuple[str, str]]:
    source = rows[0]["source"]
    rows = [row for row in rows if row["source"] == source]
    largest, threads = max(row["n"] for row in rows), min(row["threads"] for row in rows)
    at_largest = [row for row in rows if row["n"] == largest]
    made = [
        (
            _beside_memcpy([row for row in at_largest if row["threads"] == threads], drawn),
            f"Speed as a multiple of memcpy's (the line at 1; logarithmic), {source}, {largest:,} entries, "
            f"{_threads(threads)}. Full: encode; hollow: decode and add; bars from quartile to quartile. Grey: peers.",
        )
    ]
    one = [row for row in rows if row["threads"] == threads and row["library"] is None]
    if len({row["n"] for row in one}) > 1:
        made += [
            (
                _against_size(one, drawn, part),
                f"{what}: GB/s of float32 against the number of entries (both logarithmic), {_threads(threads)}; "
                "the dashed line is memcpy.",
            )
            for part, what in (("encode", "Encoding"), ("add", "Decoding and adding"))
        ]
    most = max(row["threads"] for row in rows)
    if most > threads:
        made.append(
            (
                _gain(at_largest, drawn, threads, most),
                f"How many times as fast {most} threads are as {_threads(threads)}, {largest:,} entries. Full: encode; "
                "hollow: decode and add. Both took turns in one cell.",
            )
        )
    return made


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _labels(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first at the top


def _beside_memcpy(rows: Sequence[Row], drawn: dict[str, Style]) -> str:
    made, axes = figure(10.5, 1.2 + 0.25 * len(rows))
    for y, row in enumerate(rows):
        colour = MUTED if row["library"] else drawn[row["name"]].colour
        for part, face, offset in (("encode", colour, -0.12), ("add", "white", 0.12)):
            low, high = ratio_range(row, part)
            value = row[f"{part}_memcpy"]
            axes.errorbar(
                value,
                y + offset,
                xerr=[[max(0.0, value - low)], [max(0.0, high - value)]],
                fmt="o",
                color=colour,
                markerfacecolor=face,
                markersize=5.5,
                elinewidth=1.2,
            )
    _labels(axes, [row["name"] for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(MUTED if row["library"] else "#222222")
    axes.axvline(1.0, color="#333333", linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(TIMES)
    axes.set_xlabel("× memcpy")
    return svg(made)


def _against_size(rows: Sequence[Row], drawn: dict[str, Style], part: str) -> str:
    made, axes = figure(7.2, 4.6)
    for name, style in drawn.items():
        points = sorted((row["n"], row[f"{part}_gb_s"]) for row in rows if row["name"] == name)
        axes.plot(*zip(*points, strict=True), label=name, **style.line(len(points)))
    sizes = sorted({row["n"] for row in rows})
    memcpy = []
    for n in sizes:
        times = sorted(row["memcpy_s"] for row in rows if row["n"] == n)
        memcpy.append(4 * n / times[len(times) // 2] / 1e9)
    axes.plot(sizes, memcpy, color="#333333", linestyle="--", label="memcpy")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(TIMES)
    axes.set_xlabel("entries")
    axes.set_ylabel("GB/s")
    made.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8.5)
    return svg(made)


def _gain(rows: Sequence[Row], drawn: dict[str, Style], few: int, many: int) -> str:
    by = {(row["name"], row["threads"]): row for row in rows}
    names = [name for name, _ in by if (name, few) in by and (name, many) in by]
    names = list(dict.fromkeys(names))
    made, axes = figure(7.2, 1.2 + 0.27 * len(names))
    for y, name in enumerate(names):
        colour = drawn[name].colour if name in drawn else MUTED
        for part, face, offset in (("encode", colour, -0.12), ("add", "white", 0.12)):
            gain = by[name, few][f"{part}_s"] / by[name, many][f"{part}_s"]
            axes.plot(gain, y + offset, "o", color=colour, markerfacecolor=face, markersize=5.5)
    _labels(axes, names)
    for at in (1.0, float(many) / few):
        axes.axvline(at, color="#333333", linewidth=1.2 if at == 1 else 0.8, linestyle="-" if at == 1 else ":")
    axes.set_xlabel(f"{many} threads : {_threads(few)}")
    return svg(made)


def _rivals(rows: Sequence[Row]) -> list[list[str]]:
    """A line a peer of the longest vectors: how many times as fast the codec is that took turns with it."""
    lines = []
    codec, largest = rows[0], max(row["n"] for row in rows)
    for row in rows:
        if row["library"] is None:
            codec = row
        elif row["n"] == largest:
            encode, add = (row[f"{part}_s"] / codec[f"{part}_s"] for part in ("encode", "add"))
            bits, nmse = (f"{codec[key]:.3g} : {row[key]:.3g}" for key in ("bits_per_coordinate", "nmse"))
            peer = f"{row['name']}, {_threads(row['threads'])}"
            lines.append([codec["name"], peer, _times(encode), _times(add), bits, nmse])
    return lines


def _times(factor: float) -> str:
    return f"{factor:.0f}×" if factor >= 9.5 else f"{factor:.2g}×"
