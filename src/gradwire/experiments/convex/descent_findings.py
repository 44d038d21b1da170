"""What the rows of compressed gradient descent say: checks and tables."""

from statistics import median

from gradwire.experiments.convex.descent import Descent
from gradwire.experiments.convex.descent_figures import bytes_figure, label_of, sweep_figure
from gradwire.experiments.convex.descent_results import Cell, DescentResults
from gradwire.experiments.convex.series import SERIES
from gradwire.experiments.reproduce.experiment import Check, Findings, Row, Table

__all__ = ["descent_findings"]

FEWEST = {"sd": 4.5, "spherical": 5.0}
"""Times fewer bytes than basic that are asked of these."""

BIASED = ("sd", "sd-alpha", "spherical")


def descent_findings(setup: Descent, rows: list[Row]) -> Findings:
    """From all rows of a run."""
    results = DescentResults(rows)
    data, stand_in = rows[0]["data"], "stand-in" in rows[0]["data"]
    main = results.main
    missing = [series.key for series in SERIES if not results.of(main, series.key)]
    checks = [*_saving_checks(setup, results, missing), _ahead(results), _random_starts(results)]
    return Findings(
        verdict=_verdict(setup, results, data, all(check.holds is not False for check in checks)),
        checks=checks,
        plots=[bytes_figure(results, data, setup.alpha), sweep_figure(results, setup.alpha, setup.paper)],
        tables=[_main_table(setup, results, data), _sweep_table(results, data)],
        differences=_differences(setup, results, data, stand_in, missing),
    )


def _times(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.1f}×"


def _paper_saving(setup: Descent, series: str) -> float | None:
    key = {"sd-stochastic": "unbiased"}.get(series, series)
    return setup.paper["basic"] / setup.paper[key] if key in setup.paper else None


def _saving_checks(setup: Descent, results: DescentResults, missing: list[str]) -> list[Check]:
    checks = []
    for key in ("sd", "spherical", "sd-stochastic", "topk"):
        if key in missing:
            continue
        label, least = "top-k, best k" if key == "topk" else _label(setup, key), FEWEST.get(key)
        saving, paper = results.saving(results.main, key), f"paper {_paper_saving(setup, key):.1f}×"
        checks.append(
            Check(
                f"{label}: fewer bytes than basic to an error of 1e-4, step 1/L, from x⁰ = 0",
                paper if least is None else f"at least {least:g}× ({paper})",
                f"{_times(saving)}; over all λ {_least_and_most(results, key)}",
                None if least is None else saving is not None and saving >= least,
            )
        )
    return checks


def _least_and_most(results: DescentResults, key: str) -> str:
    cells = [Cell(lam, "1/L", "zero") for lam in results.lams]
    savings = [results.saving(cell, key) for cell in cells if results.of(cell, key)]
    reached = [saving for saving in savings if saving is not None]
    never = "" if len(reached) == len(savings) else f", not reached for {len(savings) - len(reached)}"
    return f"{_times(min(reached, default=None))} to {_times(max(reached, default=None))}{never}"


def _label(setup: Descent, key: str) -> str:
    return next(series for series in SERIES if series.key == key).label.format(alpha=setup.alpha)


def _ahead(results: DescentResults) -> Check:
    cells = [cell for cell in results.cells if cell.start == "zero"]
    pairs = [(results.saving(cell, "sd") or 0.0, results.saving(cell, "topk") or 0.0, cell) for cell in cells]
    sd, topk, cell = min(pairs, key=lambda pair: pair[0] / max(pair[1], 1e-9))
    return Check(
        f"Sparse Dithering ahead of the best top-k, from x⁰ = 0, at each of {len(cells)} settings of λ and step",
        "always",
        f"{sum(a > b for a, b, _ in pairs)} of {len(cells)}; closest at λ = {cell.lam:.2g}, step {cell.step}: "
        f"{_times(sd)} against {_times(topk)}",
        all(a > b for a, b, _ in pairs),
    )


def _random_starts(results: DescentResults) -> Check:
    """Reported, not judged: a start that happens to lie along few coordinates suits top-k."""
    pairs = [
        (results.saving(cell, "sd", seed) or 0.0, results.saving(cell, "topk", seed) or 0.0)
        for cell in results.cells
        if cell.start == "uniform"
        for seed in sorted({row["seed"] for rows in results.of(cell, "sd").values() for row in rows})
    ]
    sd, topk = zip(*pairs, strict=True)
    return Check(
        "the same from random starts, k chosen anew for each",
        "mostly",
        f"{sum(a > b for a, b in pairs)} of {len(pairs)}; Sparse Dithering {_times(min(sd))} to {_times(max(sd))}, "
        f"top-k {_times(min(topk))} to {_times(max(topk))}",
        None,
    )


def _verdict(setup: Descent, results: DescentResults, data: str, confirmed: bool) -> str:
    main = results.main
    best = {key: saving for key in BIASED if (saving := results.saving(main, key)) is not None}
    listed = "; ".join(f"{_label(setup, key)}: {_times(value)}" for key, value in best.items())
    basic, sd, topk = (results.price(main, key) for key in ("basic", "sd", "topk"))
    head = "The claim is confirmed" if confirmed else "NOT all of it was confirmed (see the checks). The claim"
    text = (
        f"{head} on {data}: to an error of 1e-4 compressed gradient descent sends many times fewer bits than with "
        f"float32, as the paper counts them ({listed})."
    )
    if basic and sd:
        text += (
            f" Sparse Dithering takes {sd.iterations:.0f} iterations for the {basic.iterations:.0f} of float32. In "
            f"real messages of so few entries it saves {_times(basic.cost.frame / sd.cost.frame)}, as 9 bytes of each "
            "are header and checksum."
        )
    if basic and topk:
        paper = _paper_saving(setup, "topk") or 0.0
        found = basic.cost.paper / topk.cost.paper
        text += f" Top-k with the best k saves {_times(found)}{', more than in the paper' if found > paper else ''}."
    return text


def _main_table(setup: Descent, results: DescentResults, data: str) -> Table:
    main, rows = results.main, []
    basic = results.price(main, "basic")
    for series in SERIES:
        for step in ("1/L", "theory") if series.unbiased else ("1/L",):
            price = results.price(main._replace(step=step), series.key)
            if price is None or basic is None:
                continue
            cost, paper = price.cost, _paper_saving(setup, series.key)
            rows.append(
                (
                    label_of(series, price.codec, setup.alpha),
                    "1/((1+ω)L)" if step == "theory" else "1/L",
                    round(price.iterations),
                    cost.paper / 1000.0,
                    _times(basic.cost.paper / cost.paper),
                    "–" if step == "theory" or paper is None else _times(paper),
                    cost.payload / 1000.0,
                    cost.frame / 1000.0,
                    _times(basic.cost.frame / cost.frame),
                )
            )
    return Table(
        "To an error of 1e-4",
        (
            "compressor",
            "step",
            "iterations",
            "paper's bits, kB",
            "saves",
            "in the paper",
            "payload, kB",
            "messages, kB",
            "saves",
        ),
        rows,
        f"{data}, λ = {main.lam:.3g}, from x⁰ = 0, means over seeds where the codec is random. Paper's bits: an ideal "
        "code, norm included. Payload: what the codec writes. Messages: whole frames, header and checksum included.",
    )


def _sweep_table(results: DescentResults, data: str) -> Table:
    keys = [series.key for series in SERIES[1:] if results.of(results.main, series.key)]
    rows: list[tuple[str | float | int | None, ...]] = []
    for cell in results.cells:
        basic = results.price(cell, "basic")
        topk = results.price(cell, "topk")
        savings = {key: results.savings(cell, key) for key in keys}
        rows.append(
            (
                f"{cell.lam:.3g}",
                cell.step,
                "0" if cell.start == "zero" else "random",
                round(basic.iterations) if basic else None,
                basic.cost.paper / 1000.0 if basic else None,
                "–" if topk is None else topk.codec.partition("=")[2],
                *(_range(savings[key]) if results.of(cell, key) else "–" for key in keys),
            )
        )
    return Table(
        "Over λ, step and start",
        ("λ", "step", "x⁰", "basic: iterations", "kB", "best k", *(f"{key}, ×" for key in keys)),
        rows,
        f"{data}: how many times fewer bytes than basic, in the paper's accounting, to 1e-4. The median over seeds "
        "and, in brackets, least and greatest. From random starts top-k has the best k of each seed; 'best k' is that "
        "of the mean. not reached: not within the limit of iterations. –: not run.",
    )


def _range(savings: list[float]) -> str:
    if not savings:
        return "not reached"
    middle = f"{median(savings):.1f}"
    return (
        middle
        if max(savings) - min(savings) < 0.05
        else f"{middle}\N{NO-BREAK SPACE}({min(savings):.1f}–{max(savings):.1f})"
    )


def _differences(setup: Descent, results: DescentResults, data: str, stand_in: bool, missing: list[str]) -> list[str]:
    main = results.main
    basic = results.price(main, "basic")
    notes = []
    if stand_in:
        notes.append(f"The data are {data}: with --data-dir DIR the original is read from a file there.")
    if missing:
        notes.append(f"Left out, for this gradwire has no such codec: {', '.join(missing)}.")
    if basic is not None:
        notes.append(
            f"The paper gives neither λ nor x⁰. Here basic needs {basic.cost.paper / 1000.0:.3g} kB at "
            f"λ = {main.lam:.3g} (paper about {setup.paper['basic']:g} kB). The table over λ shows how the savings "
            "depend on either."
        )
    notes += [
        _about_topk(setup, results),
        "The searched step, the optimal gain and shared dither are additions to the paper (docs/theory.md, section 5). "
        "The paper's bits are counted by its own code, even where gradwire's entropy code is shorter.",
    ]
    return notes


def _about_topk(setup: Descent, results: DescentResults) -> str:
    basic, topk = results.price(results.main, "basic"), results.price(results.main, "topk")
    paper = f"The paper's best top-k saves {_paper_saving(setup, 'topk'):.2f}×"
    if basic is None or topk is None:
        return f"{paper}; here no k arrived."
    k, d = int(topk.codec.partition("=")[2]), len(results.of(results.main, "topk"))
    return (
        f"{paper}, ours {_times(results.saving(results.main, 'topk'))} with k = {k} of {d}. In the worst case top-k "
        "needs d/k times the iterations of basic, and saves nothing. Here the gradient lies along few coordinates at a "
        "time, and stepping along the largest (greedy coordinate descent) takes "
        f"{topk.iterations / basic.iterations:.1f} times the iterations of basic in place of {d / k:.3g} times. The "
        "paper's value is what a k near d gives, where the iterations stay those of basic (second figure, right), or "
        "what a less fortunate start gives; which, the paper does not tell."
    )
