"""Compressed gradient descent on one problem, by every compressor: the work behind paper B's two figures."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import gradwire
from gradwire.experiments.convex.compressed_gd import compressed_gd, step_size
from gradwire.experiments.convex.data import load
from gradwire.experiments.convex.problems import Problem, Vector
from gradwire.experiments.convex.series import SERIES, TOPK, Series, available, spec_of
from gradwire.experiments.convex.trace import trace
from gradwire.experiments.reproduce.experiment import Item, Row, Settings, item_rng

__all__ = ["Descent", "descent_items", "measure_descent"]

STEPS = ("1/L", "1.5/L", "theory")
"""γ = 1/L and 1.5/L for every compressor; ``theory`` is 1/((1 + ω)L), for unbiased ones only (else it is 1/L)."""


@dataclass(frozen=True)
class Descent:
    """One of the two experiments.

    Attributes:
        data: name of the data set, for :func:`gradwire.experiments.convex.data.load`.
        problem: ridge or logistic regression.
        lam: λ of the figure; None is 1/m.
        alpha: of Spherical Compression.
        paper: kilobytes to an error of 1e-4, read off the paper's figure, by series.
    """

    data: str
    problem: type[Problem]
    lam: float | None
    alpha: float
    paper: dict[str, float]


def descent_items(setup: Descent, settings: Settings) -> list[Item]:
    """The figure's runs, from x⁰ = 0 to 1e-6; then runs to 1e-4 for each λ, step and start."""
    data = load(setup.data, settings.data_dir)
    rows, dim = data.features.shape
    default = setup.lam or 1.0 / rows
    shown = [series for series in SERIES if available(series, setup.alpha, dim)]
    for series in SERIES:
        if series not in shown:
            spec = spec_of(series, setup.alpha, dim)
            print(f"{series.key} is left out: this gradwire has no codec {spec!r}", file=sys.stderr)
    common = {"data": data.name, "digest": data.digest, "problem": setup.problem.__name__.lower()}
    lams = sorted({default, *((0.1,) if settings.quick else (0.1, 0.01, 1.0 / rows, 0.001, 0.0001))}, reverse=True)
    most = 4_000 if settings.quick else 60_000

    items: list[Item] = []
    for lam in lams:
        for step in STEPS[: 1 if settings.quick else 2]:
            for start in ("zero", "uniform"):
                main = (lam, step, start) == (default, "1/L", "zero")
                for series in shown:
                    seeds = _seeds(series, step, start, main, settings)
                    steps = (step, "theory") if series.unbiased and step == "1/L" else (step,)
                    for k in range(1, dim + 1) if series is TOPK else (0,):
                        items += [
                            {
                                **common,
                                "lam": lam,
                                "step": used,
                                "start": start,
                                "series": series.key,
                                "codec": spec_of(series, setup.alpha, dim, k),
                                "goal": 1e-6 if main else 1e-4,
                                "most": most,
                                "seed": seed,
                            }
                            for used in steps
                            for seed in range(seeds)
                        ]
    return items


def _seeds(series: Series, step: str, start: str, main: bool, settings: Settings) -> int:
    if not series.random and start == "zero":
        return 1
    if not series.slow:
        return settings.seeds
    if settings.quick:
        return int(main)
    return settings.seeds if main else min(settings.seeds, 2) if step == "1/L" else 0


def measure_descent(setup: Descent, item: Item, settings: Settings) -> Row:
    """One run; its curve is kept for the figure's runs only."""
    problem = _problem(setup.problem, setup.data, settings.data_dir, item["lam"])
    codec = gradwire.from_spec(item["codec"])
    factor = {"1/L": 1.0, "1.5/L": 1.5}.get(item["step"])
    gamma = factor / problem.smoothness if factor else step_size(problem, codec.guarantee(problem.dim))
    start = _start(item, problem.dim)
    run = trace(
        compressed_gd(problem, codec, gamma, start, item_rng(item)), start, problem.solution, item["goal"], item["most"]
    )
    row = dict(run.row())
    if item["goal"] > 1e-6:
        del row["curve"]
    return {**row, "smoothness": problem.smoothness, "convexity": problem.convexity}


def _start(item: Item, dim: int) -> Vector:
    """x⁰: zeros, or uniform on [−1, 1)^d, the same for every compressor."""
    if item["start"] == "zero":
        return np.zeros(dim)
    return np.asarray(2.0 * gradwire.Rng(item["seed"]).child(0).uniform(dim) - 1.0, np.float64)


@cache
def _problem(kind: type[Problem], name: str, data_dir: Path, lam: float) -> Problem:
    data = load(name, data_dir)
    return kind(data.features, data.targets, lam)
