"""Bits a coordinate against error, for every codec on vectors of many kinds, between the bounds."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

import gradwire
from gradwire.codecs.base import Floats
from gradwire.experiments.rate_distortion_vectors import ADVERSARIAL, VECTORS, vector
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Check, Experiment, Findings, Item, Plot, Row, Settings, Table
from gradwire.rng import Rng
from gradwire.theory.bounds import gaussian_rate, sparse_dithering_rate, universal_dithering_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXPERIMENT", "SWEEPS", "bits_at"]

CLAIM = (
    "No compressor with error α can need fewer than about ½·log2(1/α) bits a coordinate on every vector; Sparse "
    "Dithering comes within 1.69 bits of that for the worst vector, and the compressors before it do not come near."
)

METHOD = """
A codec turns a vector x of n entries into a message; bits a coordinate are 8·len(message)/n, header and checksum
included. The error is NMSE = ‖y − x‖²/‖x‖², y the decoded vector. Unbiased codecs are multiplied by 1/(1 + ω), ω their
measured error, which is the best that a factor can do: U(ω) becomes B(ω/(1 + ω)). Each codec's parameter is swept,
which draws a curve: further down and further left is better.

Vectors: Gaussian, Laplace and Student-t (3 degrees of freedom) entries, a Gaussian of which 10 % are not zero, a
constant vector, two that are made to hurt Sparse Dithering (all entries at the midpoint between two of its levels; 17 %
zeros and the rest just above a rounding threshold), and a real gradient: that of a network of one hidden layer on
scikit-learn's digits after one epoch.

Lines: ½·log2(1/NMSE), which no codec can beat on every vector (it is also Shannon's rate for a Gaussian); and what the
paper proves that its deterministic Sparse Dithering needs at most. A sparse or heavy-tailed vector may be coded
with far fewer bits than the first line: it bounds the worst vector, not each.

A seed draws another vector of the kind and other randomness of the codec.
"""

ALPHA = 0.1
N = (100_000, 10_000)
"""Entries, in a full and in a quick run; the gradient has its own number."""

SHARES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
ERRORS = (0.5, 0.35, 0.25, 0.15, 0.1, 0.06, 0.03, 0.01)
VARIANCES = tuple(a / (1 - a) for a in ERRORS)

SWEEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Sparse Dithering, searched step": ("sd", tuple(f"sd:alpha={a}" for a in ERRORS)),
    "Sparse Dithering, the paper's": ("sd", tuple(f"sd:nu={a},gain=paper" for a in ERRORS)),
    "Universal Dithering": ("ud", tuple(f"ud:omega={v:.6g}" for v in VARIANCES)),
    "top-k": ("topk", tuple(f"topk:k={k}" for k in SHARES)),
    "top-k, values by sd": ("topk", tuple(f"topk:k={k},values=sd(nu=0.05)" for k in SHARES)),
    "random-k": ("randomk", tuple(f"randomk:k={k}" for k in SHARES)),
    "rTop-k, r = 4k": ("rtopk", tuple(f"rtopk:k={k},r={min(1.0, 4 * k)}" for k in SHARES)),
    "standard dithering (QSGD)": ("qsgd", tuple(f"qsgd:levels={s},bucket=512" for s in (1, 2, 4, 8, 16, 32, 64))),
    "natural dithering": ("naturaldithering", tuple(f"naturaldithering:levels={s}" for s in (2, 4, 6, 8, 12, 16))),
    "natural compression": ("natural", ("natural",)),
    "ternary (TernGrad)": ("ternary", ("ternary",)),
    "scaled sign": ("sign", ("sign",)),
    "Kashin": ("kashin", tuple(f"kashin:redundancy=1.1,levels={s}" for s in (2, 3, 5, 7, 9, 16))),
    "threshold": ("threshold", tuple(f"threshold:t={math.sqrt(a):.4g}" for a in ERRORS)),
    "Spherical Compression": (
        "spherical",
        tuple(f"spherical:alpha={a},block={b}" for a, b in ((0.1, 6), (0.25, 8), (0.5, 16))),
    ),
}
"""Label → codec, and the texts of its sweep."""


def items(settings: Settings) -> list[Item]:
    """Every text on every kind of vector, for each seed."""
    every = 2 if settings.quick else 1
    return [
        {"vector": kind, "label": label, "spec": spec, "n": N[settings.quick], "seed": seed}
        for kind in VECTORS
        for label, (codec, specs) in SWEEPS.items()
        if codec in gradwire.CODECS
        for spec in specs[::every]
        for seed in range(settings.seeds)
    ]


REPEATS = 4
"""Messages of one vector: a random codec's ω is their mean error."""


def measure(item: Item, settings: Settings) -> Row:
    """Bits a coordinate and error of one text on one vector."""
    x = vector(item["vector"], item["n"], item["seed"])
    codec, rng = gradwire.from_spec(item["spec"]), Rng(item["seed"], stream=1)
    size, error = 0, 0.0
    for repeat in range(REPEATS):
        message = gradwire.encode(codec, x, rng.child(repeat))
        size += len(message)
        error += _nmse(gradwire.decode(message, len(x)), x) / REPEATS
    unbiased = codec.guarantee(len(x)).unbiased
    return {
        "bits": 8 * size / REPEATS / len(x),
        "bytes": size / REPEATS,
        "entries": len(x),
        "error": error,
        "nmse": error / (1 + error) if unbiased else error,
        "unbiased": unbiased,
    }


def _nmse(y: Floats, x: Floats) -> float:
    difference = y.astype(np.float64) - x
    return float(difference @ difference) / float(np.dot(x.astype(np.float64), x))


def bits_at(alpha: float, points: Iterable[tuple[float, float]]) -> float | None:
    """Bits of a curve of (bits, NMSE) at an error of at most alpha: between its points log2 NMSE goes linearly.

    >>> bits_at(0.25, [(1.0, 0.5), (3.0, 0.125)])
    2.0
    """
    curve = sorted((max(e, 1e-12), b) for b, e in points)
    inside = [b for e, b in curve if e <= alpha]
    if not inside:
        return None
    best = min(inside)
    for (e1, b1), (e2, b2) in itertools.pairwise(curve):
        if e1 <= alpha < e2:
            best = min(best, b1 + (b2 - b1) * math.log2(alpha / e1) / math.log2(e2 / e1))
    return best


def findings(rows: list[Row], settings: Settings) -> Findings:
    """Curves for each vector, bits at α = 0.1 as a table and as bars, and the statements that are judged."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {kind: {} for kind in VECTORS}
    for (kind, label, _), group in _grouped(rows, lambda r: (r["vector"], r["label"], r["spec"])).items():
        point = float(np.mean([r["bits"] for r in group])), float(np.mean([r["nmse"] for r in group]))
        curves[kind].setdefault(label, []).append(point)
    at = {
        kind: {label: bits_at(ALPHA, points) for label, points in by_label.items()} for kind, by_label in curves.items()
    }
    labels = [label for label in SWEEPS if any(label in by_label for by_label in curves.values())]
    table = Table(
        f"Bits a coordinate at an error of {ALPHA}",
        ["codec", *VECTORS.values()],
        [[label, *(at[kind].get(label) for kind in VECTORS)] for label in labels],
        note="Empty where no parameter of the sweep reaches that error. The limit for every vector is 1.66.",
    )
    gauss = at["gauss"]
    verdict = (
        f"At an error of {ALPHA} Sparse Dithering with its searched step needs "
        f"{gauss['Sparse Dithering, searched step']:.2f} bits a coordinate on a Gaussian vector, where the limit is "
        f"{gaussian_rate(ALPHA):.2f} and the paper's fixed code may need {sparse_dithering_rate(ALPHA):.2f}; on sparse "
        f"vectors it needs {at['sparse']['Sparse Dithering, searched step']:.2f}."
    )
    return Findings(
        verdict=verdict,
        checks=_checks(rows),
        plots=[
            Plot(
                "rate-distortion",
                "Error (NMSE, logarithmic) against bits a coordinate, a panel for each kind of vector; down and left "
                "is better. Grey: the limit ½·log2(1/NMSE) that no codec can beat on every vector (full), and the most "
                "that the paper's Sparse Dithering may need (dotted). On sparse and real vectors good codecs go left "
                "of the limit: it bounds the worst vector.",
                _curves_figure(curves),
            ),
            Plot(
                "bits-at-a-tenth",
                f"Bits a coordinate that a codec needs to keep the error within {ALPHA} of the energy, on a Gaussian "
                "vector and on a real gradient. float32 has 32. Codecs that do not reach the error are left out.",
                _bars_figure(at, labels),
            ),
        ],
        tables=[table],
        differences=[
            "The paper codes levels with a fixed code; these messages are entropy-coded, and so below its formula.",
            "The searched step and the universal code are additions; the paper's own form is drawn beside them.",
            "Standard dithering has buckets of 512 entries, as its authors use it; one bucket has more error.",
        ],
    )


def _grouped(rows: list[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


FRAME_BITS = 8 * 75
"""What the rates leave out: frame, heads and tables of sections; 0.006 bits of 100,000 entries."""

MOST_BITS = {"gauss": 1.94, "laplace": 1.80, "sparse": 0.45, **dict.fromkeys(ADVERSARIAL, 2.1)}
"""Of the searched step at α = 0.1, n = 100,000."""


def _checks(rows: list[Row]) -> list[Check]:
    checks = []
    paper = [r for r in rows if r["spec"] == f"sd:nu={ALPHA},gain=paper"]
    if paper:
        worst = max(paper, key=lambda r: r["error"])
        checks.append(
            Check(
                f"Sparse Dithering at ν = {ALPHA} stays within ν on every vector",
                f"≤ {ALPHA}",
                f"{worst['error']:.4f} ({VECTORS[worst['vector']]})",
                worst["error"] <= ALPHA,
            )
        )
        rate = sparse_dithering_rate(ALPHA)
        over = max(8 * r["bytes"] - (30 + math.log2(r["entries"]) + rate * r["entries"] + FRAME_BITS) for r in paper)
        most = max(r["bits"] for r in paper)
        checks.append(
            Check(
                "its messages stay below 30 + log2 n + 3.35·n bits and the frame",
                f"≤ {rate:.2f} bits a coordinate",
                f"{most:.2f} at most",
                over <= 0,
            )
        )
    searched = [r for r in rows if r["spec"] == f"sd:alpha={ALPHA}"]
    if searched:
        most = max(r["error"] for r in searched)
        checks.append(Check(f"the searched step keeps its α = {ALPHA}", f"≤ {ALPHA}", f"{most:.5f}", most <= ALPHA))
    for kind, limit in MOST_BITS.items():
        bits = [r["bits"] for r in searched if r["vector"] == kind]
        if bits:
            allowed = limit + FRAME_BITS / min(r["entries"] for r in searched)
            found = max(bits)
            checks.append(
                Check(
                    f"the searched step's bits: {VECTORS[kind]}",
                    f"≤ {allowed:.2f}",
                    f"{found:.3f}",
                    found <= allowed,
                )
            )
    return checks + _universal_checks(rows)


def _universal_checks(rows: list[Row]) -> list[Check]:
    universal = [r for r in rows if r["label"] == "Universal Dithering"]
    if not universal:
        return []
    checks = []
    for spec, group in _grouped(universal, lambda r: r["spec"]).items():
        omega = gradwire.from_spec(spec).guarantee(1).error
        worst = max(group, key=lambda r: r["bits"])
        limit = universal_dithering_rate(omega) + 33 / worst["entries"] + 0.02 + FRAME_BITS / worst["entries"]
        checks.append(
            Check(
                f"Universal Dithering, ω = {omega:.3g}: bits on every vector",
                f"≤ {limit:.3f}",
                f"{worst['bits']:.3f} ({VECTORS[worst['vector']]})",
                worst["bits"] <= limit,
            )
        )
    return checks


def _curves_figure(curves: dict[str, dict[str, list[tuple[float, float]]]]) -> Any:
    rows = -(-len(curves) // 2)
    with style.drawing(rows, 2, width=10.5, height=3.3 * rows) as (figure, axes):
        for panel, (kind, by_label) in zip(axes, curves.items(), strict=False):
            _panel(panel, kind, by_label)
        for panel in axes[len(curves) :]:
            panel.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return figure


def _panel(panel: "Axes", kind: str, by_label: dict[str, list[tuple[float, float]]]) -> None:
    nmse = np.geomspace(0.005, 0.999, 200)
    panel.plot(0.5 * np.log2(1 / nmse), nmse, color=style.BOUND, label="limit: ½·log2(1/NMSE)")
    panel.plot(
        [sparse_dithering_rate(float(v)) for v in nmse],
        nmse,
        color=style.BOUND,
        linestyle=":",
        label="the paper's bound on Sparse Dithering",
    )
    for label, points in by_label.items():
        look = _look(label)
        reached = sorted((b, max(e, 1e-6)) for b, e in points)
        panel.plot(*zip(*reached, strict=True), label=label, **look)
    panel.set(title=VECTORS[kind], xlim=(0, 6.5), ylim=(0.005, 1.15), yscale="log")
    panel.set_xlabel("bits a coordinate")
    panel.set_ylabel("error (NMSE)")
    style.plain_ticks(panel.yaxis, 0.01, 0.03, 0.1, 0.3, 1)


EXTRA_COLOURS = {
    "qsgd": "#8B4513",
    "naturaldithering": "#6A3D9A",
    "natural": "#B15928",
    "ternary": "#1B7837",
    "sign": "#E7298A",
    "kashin": "#666633",
    "threshold": "#A6761D",
}
"""For the compressors that appear in this figure only."""


def _look(label: str) -> dict[str, Any]:
    codec = SWEEPS[label][0]
    known = {**style.COLOURS, **EXTRA_COLOURS}
    main = label in ("Sparse Dithering, searched step", "Universal Dithering")
    dashed = label in ("Sparse Dithering, the paper's", "top-k, values by sd")
    return {
        "color": known.get(codec, known.get("universal" if codec == "ud" else codec, "#777777")),
        "marker": style.MARKERS.get(codec, "." if len(SWEEPS[label][1]) > 1 else "*"),
        "markersize": 9 if len(SWEEPS[label][1]) == 1 else 4,
        "linewidth": 2.4 if main else 1.2,
        "linestyle": "--" if dashed else "-",
        "zorder": 4 if main else 3,
    }


def _bars_figure(at: dict[str, dict[str, float | None]], labels: list[str]) -> Any:
    shown = [label for label in labels if at["gauss"].get(label) is not None]
    shown.sort(key=lambda label: at["gauss"][label] or 0.0, reverse=True)
    place = np.arange(len(shown))
    with style.drawing(1, 1, width=9.0, height=0.9 + 0.42 * len(shown)) as (figure, axes):
        panel = axes[0]
        for offset, kind, shade in ((0.2, "gauss", 1.0), (-0.2, "gradient", 0.45)):
            values = [at[kind].get(label) or 0.0 for label in shown]
            colours = [_look(label)["color"] for label in shown]
            panel.barh(place + offset, values, 0.38, color=colours, alpha=shade, label=VECTORS[kind])
            for y, value in zip(place + offset, values, strict=True):
                if value:
                    panel.text(value + 0.08, y, f"{value:.2f}", va="center", fontsize=8, color=style.MUTED)
        panel.axvline(gaussian_rate(ALPHA), color=style.BOUND)
        panel.text(gaussian_rate(ALPHA) + 0.05, len(shown) - 0.42, "limit 1.66", color=style.MUTED, fontsize=8)
        panel.set_yticks(place, shown)
        panel.set_ylim(-0.6, len(shown) - 0.2)
        panel.set_xlabel(f"bits a coordinate at NMSE ≤ {ALPHA} (full colour: Gaussian; pale: real gradient)")
        panel.grid(False, axis="y")
        return figure


EXPERIMENT = Experiment(
    name="rate-distortion",
    title="How few bits for how small an error?",
    claim=CLAIM,
    source="Albasyoni, Safaryan, Condat, Richtárik, arXiv 2010.03246, sections 2 and 3",
    shows="bits a coordinate against error for every codec on eight kinds of vectors, between the bounds",
    method=METHOD,
    items=items,
    measure=measure,
    findings=findings,
    seeds=(3, 1),
)
