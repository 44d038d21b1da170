"""How figures look: one colour for a codec in every figure, and canvases that need no screen.

The colours are those of gradwire.report, Okabe's and Ito's, which stay apart for the colour-blind and in print; there
they go by the order of a comparison's codecs, here by the codec's name.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["BOUND", "COLOURS", "MARKERS", "MUTED", "drawing", "new_figure", "plain_ticks", "png", "svg"]

COLOURS = {
    "identity": "#444444",
    "rtopk": "#0072B2",
    "topk": "#D55E00",
    "randomk": "#009E73",
    "sd": "#CC79A7",
    "universal": "#E69F00",
    "spherical": "#56B4E9",
}
"""By codec name; an estimation scheme has the colour of the codec that it stands for."""

MARKERS = {
    "identity": "D",
    "rtopk": "o",
    "topk": "s",
    "randomk": "^",
    "sd": "v",
    "universal": "P",
    "spherical": "X",
}

BOUND = "#888888"
"""Bounds of theory: grey, never a codec's colour."""

MUTED = "#666666"
"""Notes inside a figure."""

_OWN: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "errorbar.capsize": 2.0,
}


def _settings() -> dict[Any, Any]:
    from gradwire.report.figures import SETTINGS  # imports matplotlib

    return {**SETTINGS, **_OWN}


def new_figure(rows: int, columns: int, width: float = 8.0, height: float = 4.0) -> "tuple[Figure, list[Axes]]":
    """A figure of rows × columns panels (row by row), inches wide and high, laid out without overlaps."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_settings()):
        figure = Figure(figsize=(width, height))
        figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
        return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


@contextmanager
def drawing(rows: int, columns: int, width: float = 8.0, height: float = 4.0) -> "Iterator[tuple[Figure, list[Axes]]]":
    """The same as a with-block, in which titles and legends have the style as well: what one draws in."""
    import matplotlib as mpl

    with mpl.rc_context(_settings()):
        yield new_figure(rows, columns, width, height)


def plain_ticks(axis: "Axis", *ticks: float) -> None:
    """These numbers, written out, and no others: for logarithmic axes of few decades."""
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def png(figure: "Figure") -> bytes:
    """The figure as PNG, 150 dots an inch."""
    return _render(figure, "png")


def svg(figure: "Figure") -> bytes:
    """The figure as SVG, the same bytes for the same figure."""
    return _render(figure, "svg")


def _render(figure: "Figure", form: str) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
    with mpl.rc_context(_settings()):
        figure.savefig(out, format=form, dpi=150, metadata=metadata)
    return out.getvalue()
