"""The figures of ``rtopk-common-gradient``."""

from typing import TYPE_CHECKING

import numpy as np

from gradwire.experiments.estimation.common_gradient_findings import Curve
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Plot
from gradwire.experiments.rtopk_common_gradient import expected_error, least_squares_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["best_figure", "curves_figure"]

TITLES = {0.0: "a = 0: flat", 0.25: "a = 0.25", 0.5: "a = 0.5", 1.0: "a = 1: steep"}
R_LABEL, ERROR_LABEL = "r / k (1 is top-k)", "error ‖result − g‖²/‖g‖²"
SHADES = ("#7fb8da", style.COLOURS["rtopk"], "#003d61")


def _shades(curves: list[Curve]) -> dict[str, str]:
    """One shade of rTop-k's blue for each (n, k), darker for more workers."""
    names = list(dict.fromkeys(c.name for c in curves))
    return dict(zip(names, SHADES[-len(names) :], strict=True))


def _ratio_axis(axes: "Axes") -> None:
    axes.set(xscale="log", xlabel=R_LABEL, ylabel=ERROR_LABEL)
    style.plain_ticks(axes.xaxis, 1, 2, 3, 5, 10, 20)


def curves_figure(clean: list[Curve]) -> Plot:
    """Error against r, one panel a steepness."""
    shades = _shades(clean)
    with style.drawing(2, 2, 8.8, 7.0) as (figure, panels):
        for axes, (a, title) in zip(panels, TITLES.items(), strict=True):
            for c in (c for c in clean if c.a == a):
                shade, x = shades[c.name], np.asarray(c.r) / c.k
                dense = np.unique(np.geomspace(c.k, (c.n + 1) * c.k, 200).astype(int))
                axes.plot(dense / c.k, expected_error(c.a, c.n, c.k, dense), color=shade, lw=1.3)
                axes.plot(dense / c.k, least_squares_error(c.a, c.n, c.k, dense), color=shade, lw=1, ls=":")
                axes.errorbar(x, c.mean, c.spread, fmt="o", ms=4, lw=1, color=shade, label=f"n = {c.n}, k = {c.k}")
                axes.plot(x, c.least_squares, "o", ms=3, mfc="white", color=shade)
                if c.formula is not None:
                    axes.axvline(c.formula / c.k, color=shade, ls="--", lw=1)
            _ratio_axis(axes)
            axes.set(title=title, ylim=(None, min(1.02, axes.get_ylim()[1])))
        panels[-1].legend(loc="upper left")
        panels[0].plot([], [], "o-", ms=4, color=style.MUTED, label="scale r/k")
        panels[0].plot([], [], "o:", ms=3, mfc="white", color=style.MUTED, label="least-squares scale")
        panels[0].legend(handles=panels[0].get_lines()[-2:], loc="lower left")
    return Plot(
        "error-against-r",
        "Error of the added-up messages against r, no noise, one panel a steepness a of the gradient |g_j| = j^−a. "
        "Filled points: measured with the scale r/k, on the expected line; dashed: the formula's best r for it. "
        "Hollow points on dotted lines: the same messages with the least-squares scale. Where the gradient is flat, "
        "drawing from several times k entries wins; where few entries hold most of it, top-k does.",
        figure,
    )


def best_figure(curves: list[Curve], many: Curve) -> Plot:
    """The best r against the formula, and what noise does."""
    with style.drawing(1, 2, 8.8, 4.0) as (figure, (left, right)):
        _formula_panel(left, [c for c in curves if c.noise == 0 and c.formula is not None])
        _noise_panel(right, [c for c in curves if (c.a, c.name) == (many.a, many.name)], many)
    return Plot(
        "best-r",
        "Left: the best r that was measured against the formula, one point a steepness below ½; bars: standard "
        f"deviation over seeds. Right: the error when each worker's gradient has noise of its own (a = {many.a:g}, n "
        f"= {many.n}, k = {many.k}); dashed: the formula's r, which knows no noise.",
        figure,
    )


def _formula_panel(axes: "Axes", clean: list[Curve]) -> None:
    shades = _shades(clean)
    top = 0.0
    for name, shade in shades.items():
        own = [c for c in clean if c.name == name]
        x = [(c.formula or c.k) / c.k for c in own]
        top = max(top, *x)
        spread = [c.best_spread / c.k for c in own]
        label = f"n = {own[0].n}, k = {own[0].k}"
        axes.errorbar(x, [c.best / c.k for c in own], spread, fmt="o", lw=1, color=shade, label=label)
    axes.plot([0.9, 1.2 * top], [0.9, 1.2 * top], "--", color=style.BOUND, lw=1, label="equal")
    axes.set(xscale="log", yscale="log", title="Best r, no noise")
    axes.set(xlabel="formula: r*/k = (n + 1)(1 − 2a)/(2 − 2a)", ylabel="measured best r / k")
    style.plain_ticks(axes.xaxis, 1, 2, 3, 5, 10)
    style.plain_ticks(axes.yaxis, 1, 2, 3, 5, 10)
    axes.legend(loc="upper left")


def _noise_panel(axes: "Axes", curves: list[Curve], many: Curve) -> None:
    for c, line in zip(sorted(curves, key=lambda c: c.noise), ("-", "--", ":"), strict=False):
        x = np.asarray(c.r) / c.k
        colour = style.COLOURS["rtopk"]
        axes.errorbar(x, c.mean, c.spread, fmt="o", ms=4, ls=line, lw=1.3, color=colour, label=f"noise {c.noise:g}")
    if many.formula is not None:
        axes.axvline(many.formula / many.k, color=style.BOUND, ls="--", lw=1)
    _ratio_axis(axes)
    axes.set(title="Error with noise, scale r/k", ylim=(None, 1.1))
    axes.legend(loc="upper left")
