"""The figures of ``minimax-estimation``."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradwire.experiments.estimation.minimax_findings import LABELS, Point
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bits_figure", "scaling_figure"]

CODEC = {"rtop": "rtopk", "fixed": "topk", "random": "randomk", "whole": "identity"}
UPPER, LOWER, GUIDE = "--", ":", "-."
ERROR_LABEL = "squared error ‖θ̂ − θ‖²"


def _of(points: Sequence[Point], scheme: str) -> list[Point]:
    return [p for p in points if p.scheme == scheme]


def _draw(
    axes: "Axes", points: list[Point], x: Callable[[Point], float], unit: Callable[[Point], float] = lambda p: 1.0
) -> None:
    """Markers with the seeds' spread, and the exact formula as a line; errors times ``unit``."""
    codec = CODEC[points[0].scheme]
    at = [x(p) for p in points]
    axes.plot(at, [p.exact * unit(p) for p in points], color=style.COLOURS[codec], lw=1.3)
    axes.errorbar(
        at,
        [p.risk * unit(p) for p in points],
        [p.spread * unit(p) for p in points],
        color=style.COLOURS[codec],
        fmt=style.MARKERS[codec],
        lw=1,
        label=LABELS[points[0].scheme],
    )


def bits_figure(points: list[Point]) -> Plot:
    """Squared error against the bits of a node's message."""
    with style.drawing(1, 1, 7.6, 4.4) as (figure, (axes,)):
        for scheme in LABELS:  # random-m of 1 … 8 coordinates would stand on top of one another, at one byte
            _draw(axes, [p for p in _of(points, scheme) if scheme != "random" or p.m % 8 == 0], lambda p: p.bits)
        rtop = _of(points, "rtop")
        bits, upper = [p.bits for p in rtop], [p.upper for p in rtop]
        axes.plot(bits, upper, UPPER, color=style.BOUND, lw=1.2, label="upper bound of rTop")
        axes.set(xscale="log", yscale="log", xlabel="bits a node (real messages)", ylabel=ERROR_LABEL)
        style.plain_ticks(axes.xaxis, 16, 32, 64, 128, 256, 400)
        style.plain_ticks(axes.yaxis, 0.2, 0.5, 1, 2, 5, 10, 20)
        axes.legend()
    low = min(p.lower for p in rtop)
    return Plot(
        "error-against-bits",
        "Squared error against bits a node, at d = 400, s = 20, n = 50, θ = ½ on 40 coordinates. Lines: exact "
        "formulas; points: measured. A fixed order hardly gains from more bits until it can send nearly all ones; "
        f"rTop falls to the centralised error. The lower bound of all schemes ({low:.3f} here) is too low to be "
        "drawn: it comes near when there are many nodes, as in the next figure.",
        figure,
    )


def scaling_figure(parts: dict[str, list[Point]]) -> Plot:
    """The rate, one factor a panel."""
    with style.drawing(2, 2, 8.8, 7.4) as (figure, (nodes, budget, sparsity, dimension)):
        _nodes_panel(nodes, parts["nodes"])
        _budget_panel(budget, parts["budget"])
        _sparsity_panel(sparsity, parts["sparsity"])
        _dimension_panel(dimension, parts["dimension"])
    return Plot(
        "scaling",
        "The rate s²·log d/(n·k), one factor a panel. Nodes (d = 400, s = 20, m = 10; random-m with as many bits): "
        "rTop's error falls as 1/n between the bounds, the fixed order's stops at its bias. Bits (d = 100,000, s = "
        "200): a little steeper than 1/k. Sparsity (d = 10,000, n = 50, m = 2): s². Dimension (s = 20, n = 50; m = "
        "10, or 88 coordinates): what a given error costs grows with log d for rTop, with d for random-m.",
        figure,
    )


def _nodes_panel(axes: "Axes", points: list[Point]) -> None:
    for scheme in ("rtop", "fixed", "random"):
        _draw(axes, _of(points, scheme), lambda p: p.n)
    rtop = _of(points, "rtop")
    n = [p.n for p in rtop]
    axes.plot(n, [p.upper for p in rtop], UPPER, color=style.BOUND, lw=1.2, label="upper bound of rTop")
    axes.plot(n, [p.lower for p in rtop], LOWER, color=style.BOUND, label="lower bound of all schemes")
    axes.set(xscale="log", yscale="log", title="Nodes: error ∝ 1/n", xlabel="nodes n", ylabel=ERROR_LABEL)
    axes.set_ylim(bottom=min(p.lower for p in rtop) / 30)  # room for the legend
    axes.legend(loc="lower left", fontsize=7.5)


def _budget_panel(axes: "Axes", points: list[Point]) -> None:
    shades = ("#7fb8da", style.COLOURS["rtopk"], "#003d61")
    for n, shade in zip(sorted({p.n for p in points}), shades, strict=False):
        own = [p for p in points if p.n == n]
        bits = [p.bits for p in own]
        axes.plot(bits, [p.exact for p in own], color=shade, lw=1.3)
        axes.errorbar(
            bits, [p.risk for p in own], [p.spread for p in own], fmt="o", color=shade, lw=1, label=f"n = {n}"
        )
    ends = np.array([min(p.bits for p in points), max(p.bits for p in points)])
    top = max(points, key=lambda p: p.risk)
    axes.plot(ends, 1.3 * top.risk * top.bits / ends, GUIDE, color=style.BOUND, lw=1.2, label="∝ 1/k")
    axes.set(xscale="log", yscale="log", title="Bits: error ∝ 1/k", xlabel="bits a node k", ylabel=ERROR_LABEL)
    style.plain_ticks(axes.xaxis, 100, 200, 400, 800)
    axes.legend(loc="lower left")


def _sparsity_panel(axes: "Axes", points: list[Point]) -> None:
    _draw(axes, points, lambda p: p.s)
    s, upper = [p.s for p in points], [p.upper for p in points]
    axes.plot(s, upper, UPPER, color=style.BOUND, lw=1.2, label="upper bound of rTop")
    axes.set(
        xscale="log", yscale="log", title="Sparsity: error ∝ s²", xlabel="mean number of ones s", ylabel=ERROR_LABEL
    )
    style.plain_ticks(axes.xaxis, *sorted({p.s for p in points}))
    axes.legend(loc="upper left")


def _dimension_panel(axes: "Axes", points: list[Point]) -> None:
    def unit(p: Point) -> float:
        return p.n * p.bits / p.s**2

    for scheme in ("rtop", "random"):
        _draw(axes, _of(points, scheme), lambda p: p.dim, unit)
    rtop = _of(points, "rtop")
    dims = np.array([p.dim for p in rtop])
    guide = 0.6 * rtop[0].exact * unit(rtop[0]) * np.log(dims) / np.log(dims[0])
    axes.plot(dims, guide, GUIDE, color=style.BOUND, lw=1.2, label="∝ log d")
    axes.set(xscale="log", yscale="log", title="Dimension: only log d", xlabel="coordinates d")
    axes.set(ylabel="squared error × n × bits / s²")
    axes.legend(loc="upper left")
