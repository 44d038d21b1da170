"""What the rows of the twenty workers say: checks, tables and figures."""

from typing import TYPE_CHECKING, Any

import gradwire
from gradwire.experiments.convex.distributed import METHODS, RUNS
from gradwire.experiments.convex.distributed_results import DistributedResults, Outcome
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Check, Findings, Plot, Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["distributed_findings"]

BASIC = ("dcgd", "identity")
LINES = {"dcgd": ":", "ef": "-.", "ef21": "--", "diana": "-"}
DRAWN = (
    BASIC,
    ("dcgd", "sd:nu=0.25,rounding=stochastic"),
    ("ef", "sd:alpha=0.1"),
    ("ef", "rtopk:k=0.05,r=0.2"),
    ("ef21", "sd:alpha=0.1"),
    ("ef21", "topk:k=0.05"),
    ("diana", "sd:nu=0.25,rounding=stochastic"),
    ("diana", "randomk:k=0.05,scale=true"),
)
CODECS = {
    "identity": "float32",
    "sd:alpha=0.1": "Sparse Dithering, α = 0.1",
    "sd:nu=0.25,rounding=stochastic": "Sparse Dithering, unbiased, ω = ¼",
    "sd:nu=0.75,rounding=shared": "Sparse Dithering, shared dither, ω = ¼",
    "topk:k=0.05": "top-k, k = d/20",
    "rtopk:k=0.05,r=0.2": "rTop-k, k = d/20, r = d/5",
    "randomk:k=0.05,scale=true": "random-k, k = d/20, unbiased",
}


def distributed_findings(rows: list[Row]) -> Findings:
    """From all rows of a run."""
    results = DistributedResults(rows)
    checks = [_exact(results), _stalls(results), _saves(results), _theory_saves(results)]
    stand_in = any("stand-in" in name for name in results.names)
    differences = [
        "Only what workers send is counted. The model that the server sends back is the same for all methods.",
        "Theory's steps of error feedback and EF21 are far smaller than what they bear, above all with top-k; so both "
        "are shown, theory's step and the best of those tried.",
    ]
    if stand_in:
        differences.append(
            "The data are a stand-in. The data sets are at https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/: "
            "put a9a, w8a, mushrooms and phishing into a folder and name it by --data-dir."
        )
    return Findings(
        verdict=_verdict(results, all(check.holds is not False for check in checks)),
        checks=checks,
        plots=[_figure(results, "best"), _figure(results, "theory")],
        tables=[_table(results, name) for name in results.names],
        differences=differences,
    )


def _saving(results: DistributedResults, name: str, run: tuple[str, str], at: str = "best") -> float | None:
    outcome, basic = getattr(results, at)(name, *run).cost, getattr(results, at)(name, *BASIC).cost
    return basic.frame / outcome.frame if outcome and basic else None


def _exact(results: DistributedResults) -> Check:
    runs = [(name, run) for name in results.names for run in RUNS if run[0] in ("ef21", "diana")]
    arrived = sum(results.best(name, *run).cost is not None for name, run in runs)
    return Check(
        "EF21 and DIANA reach 1e-4 with every codec they admit, however unlike the workers' data",
        f"{len(runs)} of {len(runs)}",
        f"{arrived} of {len(runs)}",
        arrived == len(runs),
    )


def _stalls(results: DistributedResults) -> Check:
    runs = [run for run in RUNS if run[0] == "dcgd" and run != BASIC]
    outcomes = [(results.theory(name, *run).least, name) for name in results.names for run in runs]
    least, name = min(outcomes)
    return Check(
        "DCGD, compressed without any memory, stalls above 1e-4 at theory's step",
        "always",
        f"{sum(error > 1e-4 for error, _ in outcomes)} of {len(outcomes)}; least error {least:.1e}, on {_short(name)}",
        all(error > 1e-4 for error, _ in outcomes),
    )


def _saves(results: DistributedResults) -> Check:
    runs = (("ef21", "sd:alpha=0.1"), ("diana", "sd:nu=0.25,rounding=stochastic"))
    savings = [max(_saving(results, name, run) or 0.0 for run in runs) for name in results.names]
    return Check(
        "Sparse Dithering in EF21 or DIANA: fewer bytes than float32 to 1e-4, whole messages, each at its best step",
        "at least 5×",
        ", ".join(f"{_short(name)} {saving:.1f}×" for name, saving in zip(results.names, savings, strict=True)),
        min(savings) >= 5.0,
    )


def _theory_saves(results: DistributedResults) -> Check:
    run = ("diana", "sd:nu=0.25,rounding=stochastic")
    savings = [_saving(results, name, run, "theory") or 0.0 for name in results.names]
    return Check(
        "the same for DIANA with theory's step, against gradient descent with 1/L",
        "at least 5×",
        ", ".join(f"{_short(name)} {saving:.1f}×" for name, saving in zip(results.names, savings, strict=True)),
        min(savings) >= 5.0,
    )


def _short(name: str) -> str:
    return name.partition(" ")[0]


def _verdict(results: DistributedResults, confirmed: bool) -> str:
    best = {}
    for name in results.names:
        savings = {run: saving for run in RUNS[1:] if (saving := _saving(results, name, run)) is not None}
        if savings:
            run = max(savings, key=lambda run: savings[run])
            best[name] = f"{_short(name)}: {METHODS[run[0]].label} with {CODECS[run[1]]}, {savings[run]:.0f}×"
    head = "Confirmed" if confirmed else "NOT all of it was confirmed (see the checks)"
    return (
        f"{head}. With unlike data on 20 workers, DCGD and error feedback end at an error that the compression leaves; "
        "EF21 (for contractive codecs) and DIANA (for unbiased ones) reach the solution, with many times fewer bytes "
        f"than gradient descent with float32. The fewest bytes to 1e-4, in whole messages: {'; '.join(best.values())}."
    )


def _look(method: str, codec: str) -> dict[str, Any]:
    dashes = "-" if codec == "identity" else LINES[method]
    return {"color": style.COLOURS[gradwire.from_spec(codec).name], "linestyle": dashes}


def _figure(results: DistributedResults, at: str) -> Plot:
    """A panel for each data set."""
    rows = 2 if len(results.names) > 2 else 1
    with style.drawing(rows, -(-len(results.names) // rows), 9.0, 3.6 * rows + 1.2) as (figure, axes):
        for axis, name in zip(axes, results.names, strict=False):
            _draw(axis, results, name, at)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    steps = {
        "best": "each at the best of the steps tried",
        "theory": "each at the step that theory gives; those of error feedback and EF21 are cautious",
    }[at]
    caption = (
        "Logistic regression on 20 workers whose rows are sorted by class, so that their data are unlike: error "
        f"against the bytes that one worker has sent in whole messages, {steps}. Colours are codecs, dashes are "
        "methods: dotted DCGD, dash-dotted error feedback, dashed EF21, full DIANA. "
        "A curve that turns level gets no further."
    )
    return Plot(f"error-against-bytes-{at}-step", caption, figure)


def _draw(axis: "Axes", results: DistributedResults, name: str, at: str) -> None:
    reach = 0.0
    for method, codec in DRAWN:
        outcome = getattr(results, at)(name, method, codec)
        curve = outcome.row["curve"]
        label = f"{'gradient descent' if codec == 'identity' else METHODS[method].label}: {CODECS[codec]}"
        kilobytes = [value / 1000.0 for value in curve["frame"]]
        axis.plot(kilobytes[1:], curve["error"][1:], label=label, **_look(method, codec))
        reach = max(reach, curve["frame"][-1] / 1000.0)
    axis.set(xscale="log", yscale="log", ylim=(1e-6, 5.0), xlim=(0.05, reach))
    axis.set(title=_short(name), xlabel="kilobytes sent by one worker", ylabel="error ‖xᵗ − x*‖² / ‖x⁰ − x*‖²")


def _table(results: DistributedResults, name: str) -> Table:
    rows = []
    for run in RUNS:
        theory, best = results.theory(name, *run), results.best(name, *run)
        rows.append(
            (
                "gradient descent" if run == BASIC else METHODS[run[0]].label,
                CODECS[run[1]],
                theory.step_times_smoothness,
                theory.least,
                _kilobytes(theory),
                best.step_times_smoothness,
                best.least,
                None if best.iterations is None else round(best.iterations),
                None if best.cost is None else best.cost.paper / 1000.0,
                _kilobytes(best),
                _saving(results, name, run),
            )
        )
    return Table(
        f"{name}: to an error of 1e-4",
        (
            "method",
            "codec",
            "theory's γL",
            "least error",
            "kB",
            "best γL",
            "least error",
            "iterations",
            "ideal bits, kB",
            "kB",
            "saves",
        ),
        rows,
        "kB: whole messages of one worker; ideal bits: as the papers count. least error: met within the limit, or "
        "the 1e-6 at which a run ends. –: 1e-4 was not reached. saves: times fewer kB than gradient descent, both at "
        "their best.",
    )


def _kilobytes(outcome: Outcome) -> float | None:
    return None if outcome.cost is None else outcome.cost.frame / 1000.0
