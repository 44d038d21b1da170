"""Figures in one style: a colour and a marker for each codec, the same in all figures of a page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["Style", "figure", "styles", "svg"]

# The palette of Okabe and Ito, which colour-blind readers can tell apart; yellow is too pale on white.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

SETTINGS: Any = {  # keys of matplotlib
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#777777",
    "axes.labelcolor": "#333333",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.fonttype": "path",  # the reader's fonts may have other widths, and texts would overlap
    "svg.hashsalt": "gradwire",  # the same figure, the same bytes
}


@dataclass(frozen=True)
class Style:
    """How one codec is drawn."""

    colour: str
    marker: str

    def line(self, points: int) -> dict[str, Any]:
        """Keywords that draw a line of so many points with about eight markers on it."""
        return {"color": self.colour, "marker": self.marker, "markevery": max(1, points // 8)}


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Give each name a colour and a marker, in order; after seven the colours come again with other markers."""
    return {
        name: Style(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(dict.fromkeys(names))
    }


def figure(width: float = 6.4, height: float = 4.0) -> tuple[Figure, Any]:
    """Return a figure of that size in inches, and its axes, in the style of the pages."""
    with mpl.rc_context(SETTINGS):
        drawn = Figure(figsize=(width, height), layout="constrained")
        return drawn, drawn.add_subplot()


def svg(drawn: Figure) -> str:
    """Return the figure as an svg element that scales with the page."""
    file = io.StringIO()
    with mpl.rc_context(SETTINGS):
        drawn.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for size in ("width", "height"):  # the page gives it; the viewBox keeps the proportions
        text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
    return text
