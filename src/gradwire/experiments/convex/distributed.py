"""Twenty workers with unlike data: every method with every codec it admits, over step sizes."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gradwire
from gradwire.errors import MissingError
from gradwire.experiments.convex.data import LIBSVM, load
from gradwire.experiments.convex.dcgd import dcgd
from gradwire.experiments.convex.dcgd import step_size as dcgd_step
from gradwire.experiments.convex.diana import diana
from gradwire.experiments.convex.diana import step_size as diana_step
from gradwire.experiments.convex.ef21 import ef21
from gradwire.experiments.convex.ef21 import step_size as ef21_step
from gradwire.experiments.convex.error_feedback import error_feedback
from gradwire.experiments.convex.error_feedback import step_size as error_feedback_step
from gradwire.experiments.convex.problems import Logistic, Split
from gradwire.experiments.convex.trace import trace
from gradwire.experiments.convex.transmit import Iterate
from gradwire.experiments.reproduce.experiment import Item, Row, Settings, item_rng
from gradwire.theory.guarantee import Guarantee

__all__ = ["METHODS", "RUNS", "STEPS", "WORKERS", "Method", "distributed_items", "measure_distributed", "split_of"]

WORKERS = 20
CONDITION = 100.0
"""L/μ, by the choice of λ."""

STEPS = (0.5, 1.0, 2.0, 4.0)
"""γL, besides the step that theory gives. L is a bound that a logistic loss seldom meets, so 4/L may still converge."""

GOAL, MOST = 1e-6, 800


@dataclass(frozen=True)
class Method:
    """A method, as shown and as run."""

    label: str
    run: Callable[..., Iterator[Iterate]]
    step_size: Callable[[Split, Guarantee], float]


METHODS = {
    "dcgd": Method("DCGD", dcgd, dcgd_step),
    "ef": Method("error feedback", error_feedback, error_feedback_step),
    "ef21": Method("EF21", ef21, ef21_step),
    "diana": Method("DIANA", diana, diana_step),
}

CONTRACTIVE = ("sd:alpha=0.1", "topk:k=0.05", "rtopk:k=0.05,r=0.2")
UNBIASED = ("sd:nu=0.25,rounding=stochastic", "sd:nu=0.75,rounding=shared", "randomk:k=0.05,scale=true")

RUNS = (
    ("dcgd", "identity"),
    *(("dcgd", codec) for codec in (CONTRACTIVE[0], *UNBIASED[:2])),
    *(("ef", codec) for codec in CONTRACTIVE),
    *(("ef21", codec) for codec in CONTRACTIVE),
    *(("diana", codec) for codec in UNBIASED),
)
"""Method and codec. DCGD with ``identity`` is gradient descent."""


def distributed_items(settings: Settings) -> list[Item]:
    """Every run on every data set that there is; a quick run takes one."""
    names = _names(settings)
    items: list[Item] = []
    for name in names:
        data = load(name, settings.data_dir)
        for method, codec in RUNS:
            steps = ("theory", *((2.0,) if settings.quick else STEPS))
            for step in steps:
                random = not gradwire.from_spec(codec).guarantee(data.features.shape[1]).strict
                items += [
                    {
                        "data": data.name,
                        "digest": data.digest,
                        "set": name,
                        "workers": WORKERS,
                        "condition": CONDITION,
                        "method": method,
                        "codec": codec,
                        "step": step,
                        "goal": GOAL,
                        "most": MOST // 2 if settings.quick else MOST,
                        "seed": seed,
                    }
                    for seed in range(settings.seeds if random else 1)
                ]
    return items


def _names(settings: Settings) -> list[str]:
    names = []
    for name in LIBSVM:
        try:
            load(name, settings.data_dir)
            names.append(name)
        except MissingError as error:
            print(f"left out: {error}", file=sys.stderr)
        if settings.quick:
            break
    return names or ["digits"]


def measure_distributed(item: Item, settings: Settings) -> Row:
    """One run."""
    split = split_of(item["set"], settings.data_dir)
    codec, method = gradwire.from_spec(item["codec"]), METHODS[item["method"]]
    smoothness = split.whole.smoothness
    theory = method.step_size(split, codec.guarantee(split.whole.dim))
    step = theory if item["step"] == "theory" else item["step"] / smoothness
    start = np.zeros(split.whole.dim)
    run = trace(
        method.run(split, codec, step, start, item_rng(item)), start, split.whole.solution, item["goal"], item["most"]
    )
    return {**run.row(), "step_times_smoothness": step * smoothness}


@cache
def split_of(name: str, data_dir: Path) -> Split:
    """The rows sorted by class, and within a class by their most variable feature, in runs of equal length.

    λ makes the condition number 100.
    """
    data = load(name, data_dir)
    loss = Logistic(data.features, data.targets, 1.0).smoothness - 1.0
    whole = Logistic(data.features, data.targets, loss / (CONDITION - 1.0))
    return Split.deal(whole, WORKERS, np.lexsort((_most_variable(data.features), data.targets)))


def _most_variable(features: Any) -> npt.NDArray[np.float64]:
    """The column of greatest variance."""
    squares = features * features if isinstance(features, np.ndarray) else features.multiply(features)
    mean, mean_square = np.asarray(features.mean(axis=0)).ravel(), np.asarray(squares.mean(axis=0)).ravel()
    column = features[:, int(np.argmax(mean_square - mean**2))]
    return np.asarray(column if isinstance(column, np.ndarray) else column.toarray(), np.float64).ravel()
