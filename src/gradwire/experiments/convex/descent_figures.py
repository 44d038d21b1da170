"""Figures of compressed gradient descent: error against bytes; savings over λ and over k."""

from typing import TYPE_CHECKING, Any

import gradwire
from gradwire.experiments.convex.descent_results import Cell, DescentResults
from gradwire.experiments.convex.series import SERIES, TOPK, Series
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bytes_figure", "label_of", "sweep_figure"]

RATIOS = (0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 6, 8, 10)


def label_of(series: Series, codec: str, alpha: float) -> str:
    """The label, with the k that was best."""
    if series is TOPK:
        return f"top-k, best k = {codec.partition('=')[2]}"
    return series.label.format(alpha=alpha)


def _look(series: Series) -> dict[str, Any]:
    return {"color": style.COLOURS[gradwire.from_spec(series.spec.format(alpha=0.5, block=1, k=1)).name]}


def bytes_figure(results: DescentResults, data: str, alpha: float) -> Plot:
    """Error against bytes, in the paper's accounting and as frames."""
    with style.drawing(1, 2, 9.0, 5.0) as (figure, axes):
        for axis, measure in zip(axes, ("paper", "frame"), strict=True):
            _draw_errors(axis, results, measure, alpha)
        axes[0].set(title="Bits as the paper counts them", ylabel="error ‖xᵗ − x*‖² / ‖x⁰ − x*‖²")
        axes[1].set(title="Whole messages as sent")
    caption = (
        f"{data}: the error of compressed gradient descent with step 1/L from x⁰ = 0, against the bytes sent. Lower "
        "and further left is better; the grey line is the error of 1e-4 at which the savings in the legend are taken. "
        "Left: an ideal code's bits, norm included. Right: the frames that gradwire sends, whose 9 bytes of header and "
        "checksum weigh about as much as the payload of so short a vector. Random codecs: the run of median length."
    )
    return Plot("error-against-bytes", caption, figure)


def _draw_errors(axis: "Axes", results: DescentResults, measure: str, alpha: float) -> None:
    basic = results.price(results.main, "basic")
    for series in SERIES:
        price = results.price(results.main, series.key)
        if price is None or basic is None or not series.drawn:
            continue
        curve = results.curve(series.key, price.codec)["curve"]
        times = getattr(basic.cost, measure) / getattr(price.cost, measure)
        label = label_of(series, price.codec, alpha) + ("" if series.key == "basic" else f": {times:.1f}×")
        axis.plot(
            [value / 1000.0 for value in curve[measure]], curve["error"], series.line, label=label, **_look(series)
        )
    axis.axhline(1e-4, color=style.BOUND, linewidth=0.8)
    axis.set(yscale="log", ylim=(1e-6, 1.5), xlabel="kilobytes sent")
    if basic is not None:
        axis.set_xlim(0.0, 1.15 * getattr(basic.cost, measure) / 1000.0)
    title = "n×: n times fewer bytes than basic to 1e-4"
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), title=title, title_fontsize=8.5)


def sweep_figure(results: DescentResults, alpha: float, paper: dict[str, float]) -> Plot:
    """Savings over λ, and over k for top-k."""
    with style.drawing(1, 2, 9.0, 5.0) as (figure, axes):
        _over_lam(axes[0], results, alpha)
        _over_k(axes[1], results, paper)
        for axis in axes:
            axis.axhline(1.0, color=style.BOUND, linewidth=0.8)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17))
    caption = (
        "How many times fewer bytes than basic, in the paper's accounting, to an error of 1e-4 with step 1/L. Left: "
        "over the weight λ of the regularisation; points from x⁰ = 0, bars from least to greatest over random starts. "
        "Right: top-k for each k, at the λ of the other figure; what small k save is the work of greedy coordinate "
        "descent."
    )
    return Plot("savings", caption, figure)


def _over_lam(axis: "Axes", results: DescentResults, alpha: float) -> None:
    shown = [series for series in SERIES[1:] if series.drawn and series.key != "sd-stochastic"]
    for j, series in enumerate(shown):
        shift = 1.0 + 0.06 * (j - len(shown) / 2)
        points = [(lam, results.saving(Cell(lam, "1/L", "zero"), series.key)) for lam in results.lams]
        reached = [(lam * shift, saving) for lam, saving in points if saving is not None]
        if not reached:
            continue
        look = _look(series)
        label = label_of(series, "k=", alpha).replace(" = ", "") if series is TOPK else label_of(series, "", alpha)
        axis.plot(*zip(*reached, strict=True), series.line, marker="o", markersize=4, label=label, **look)
        for lam in results.lams:
            savings = results.savings(Cell(lam, "1/L", "uniform"), series.key)
            if savings:
                axis.plot([lam * shift] * 2, [min(savings), max(savings)], linewidth=4, alpha=0.35, **look)
    axis.set(
        xscale="log", yscale="log", xlabel="λ", ylabel="times fewer bytes than basic", title="Over the regularisation"
    )
    style.plain_ticks(axis.yaxis, *RATIOS)


def _over_k(axis: "Axes", results: DescentResults, paper: dict[str, float]) -> None:
    uniform = Cell(results.main.lam, "1/L", "uniform")
    colour = _look(TOPK)["color"]
    seeds = sorted({row["seed"] for row in results.rows if row["start"] == "uniform"})
    for cell, runs in ((uniform, seeds), (results.main, [None])):
        for seed in runs:
            basic = results.price(cell, "basic", seed)
            prices = results.prices(cell, "topk", seed)
            if basic is None:
                continue
            ks = {int(codec.partition("=")[2]): basic.cost.paper / price.cost.paper for codec, price in prices.items()}
            main = cell is not uniform
            label = "from x⁰ = 0" if main else "from random starts" if seed == seeds[0] else None
            axis.plot(
                list(ks),
                list(ks.values()),
                marker="s" if main else "",
                color=colour,
                label=label,
                lw=1.8 if main else 0.9,
                alpha=1 if main else 0.5,
            )
    sd = results.saving(results.main, "sd")
    if sd is not None:
        axis.axhline(sd, label="Sparse Dithering, ν = 0.1, from x⁰ = 0", **_look(SERIES[2]))
    value = paper["basic"] / paper["topk"]
    axis.axhline(value, color=style.MUTED, linestyle="--", linewidth=1.0, label=f"the paper's best top-k, {value:.2f}×")
    axis.set(yscale="log", xlabel="k, entries kept", title="Top-k by k")
    style.plain_ticks(axis.yaxis, *RATIOS)
