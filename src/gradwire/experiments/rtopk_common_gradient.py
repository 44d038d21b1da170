"""How wide rTop-k should draw when workers share a gradient: error against r, and the best r against its formula."""

import math

import numpy as np
import numpy.typing as npt

import gradwire
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Row, Settings, item_rng
from gradwire.rng import Rng
from gradwire.theory.estimation import best_common_r

__all__ = ["DIM", "EXPERIMENT", "expected_error", "least_squares_error", "least_squares_scale"]

CLAIM = (
    "At the same budget rTop-k beats top-k and random-k, because several workers that draw at random from their "
    "largest entries together report more of a gradient that they share than the k largest entries alone."
)

METHOD = """
n workers hold the same vector of d = 10,000 entries, |g_j| = j^−a with a the steepness, to which each may add
Gaussian noise of its own; the noise level is its root mean square over that of the gradient. Each worker sends k
entries, drawn at random from its r largest, as a real message (gradwire's RTopK codec, float32 values); the centre
adds up the n messages, times a scale and divided by n. The error is ‖result − g‖²/‖g‖². There is no error feedback. r
= k is top-k, r = d is random-k.

With the scale r/k the result is unbiased on the r largest entries. Without noise its expected error is (S(d) −
S(r)·(n + 1 − r/k)/n)/S(d), where S(r) is the sum of the r largest squares. With S(r) ∝ r^(1−2a), which holds for a
below ½ and many entries, the best r is r* = (n + 1)·k·(1 − 2a)/(2 − 2a), derived in docs/theory.md. All r are
measured on the same vectors with independent draws; the "best r" of a measurement is the lowest point of a parabola
through the errors around the least one.

The same messages were also added with the scale n/(1 + (n − 1)·k/r), which trades bias for less variance: it is the
one of least expected error, (S(d) − S(r)·n/(r/k + n − 1))/S(d) without noise. It is no part of the claim, but the
fairer way to look at random-k, which with the scale d/k is nothing but variance.

A seed is an independent repetition of 32 trials a point (16 in a quick run). Bars and ± are the standard deviation
over seeds.
"""

DIM = 10_000
TRIALS = (32, 16)
"""In a full and in a quick run."""


def items(settings: Settings) -> list[Item]:
    """Every (a, n, k, noise), each with its whole sweep of r, for each seed; and two with one draw for all workers."""
    quick = settings.quick
    exponents = (0.0, 0.25, 0.5, 1.0) if quick else (0.0, 0.1, 0.25, 0.4, 0.5, 0.75, 1.0)
    workers = ((5, 100), (20, 50)) if quick else ((5, 100), (10, 20), (20, 50))
    noises = (0.0, 1.0) if quick else (0.0, 0.1, 1.0)
    points: list[Item] = [
        {"a": a, "n": n, "k": k, "noise": noise, "draws": "independent"}
        for noise in noises
        for n, k in workers
        for a in exponents
    ]
    points += [{"a": a, "n": 5, "k": 100, "noise": 0.0, "draws": "shared"} for a in (0.0, 0.25)]
    sweep = 9 if quick else 15
    return [
        {**point, "r": _sweep(point["a"], point["n"], point["k"], sweep), "trials": TRIALS[quick], "seed": seed}
        for point in points
        for seed in range(settings.seeds)
    ]


def _sweep(a: float, n: int, k: int, count: int) -> list[int]:
    """From k to (n + 1)·k in equal ratios, the formula's r, and d, which is random-k."""
    values = {round(k * (n + 1) ** (i / (count - 1))) for i in range(count)}
    if a < 0.5:
        values.add(round(best_common_r(n, k, a)))
    return [*sorted(values), DIM]


def measure(item: Item, settings: Settings) -> Row:
    """For each r: mean error and its standard error with the scale r/k, mean error with the least-squares scale."""
    n, k, sweep = item["n"], item["k"], item["r"]
    rng = item_rng(item)
    gradient = np.arange(1, DIM + 1, dtype=np.float64) ** -item["a"]
    energy = float(gradient @ gradient)
    sigma = item["noise"] * math.sqrt(energy / DIM)
    unbiased, least = np.empty((item["trials"], len(sweep))), np.empty((item["trials"], len(sweep)))
    size = 0
    for t in range(item["trials"]):
        trial = rng.child(t)
        inputs = [(gradient + sigma * _normal(trial.child(i))).astype(np.float32) for i in range(n)]
        for j, r in enumerate(sweep):
            codec, mean = gradwire.RTopK(k=k, r=r), np.zeros(DIM, np.float32)
            for i, x in enumerate(inputs):
                draw = trial.child(n + j * n + (i if item["draws"] == "independent" else 0))
                message = gradwire.encode(codec, x, draw)
                gradwire.add(message, mean, 1 / n)
                size += len(message)
            unbiased[t, j] = _square(mean * (r / k) - gradient) / energy
            least[t, j] = _square(mean * least_squares_scale(n, k, r) - gradient) / energy
    return {
        "errors": unbiased.mean(axis=0).tolist(),
        "standard_errors": (unbiased.std(axis=0, ddof=1) / math.sqrt(item["trials"])).tolist(),
        "least_squares_errors": least.mean(axis=0).tolist(),
        "bytes": size / (unbiased.size * n),
    }


def _square(x: npt.NDArray[np.float64]) -> float:
    return float(np.square(x).sum())


def _normal(rng: Rng) -> npt.NDArray[np.float64]:
    """DIM standard normal numbers, by Box and Muller's formula."""
    uniform = rng.uniform(DIM).astype(np.float64)
    radius, angle = np.sqrt(-2.0 * np.log1p(-uniform[::2])), 2.0 * np.pi * uniform[1::2]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])


def _share(a: float, r: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """S(r)/S(d): the part of the energy that the r largest entries hold."""
    sums = np.cumsum(np.arange(1, DIM + 1, dtype=np.float64) ** (-2.0 * a))
    return np.asarray(sums[r - 1] / sums[-1], np.float64)


def expected_error(a: float, n: int, k: int, r: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The expected error without noise, scale r/k, for each r: 1 − S(r)/S(d)·(n + 1 − r/k)/n, d = 10,000.

    >>> expected_error(0.0, 5, 100, [100, 300]).round(4)
    array([0.99 , 0.982])
    """
    counts = np.asarray(r, np.int64)
    return np.asarray(1.0 - _share(a, counts) * (n + 1 - counts / k) / n, np.float64)


def least_squares_scale(n: int, k: int, r: int) -> float:
    """The scale of least expected error without noise: n/(1 + (n − 1)·k/r), from 1 (r = k) to nearly n (r ≫ n·k).

    An entry of the r largest is sent by B ~ Bin(n, q) workers, q = k/r; E(1 − c·B/n)² is least at
    c = E(B/n)/E(B/n)² = 1/((1 − q)/n + q), where it is 1 − q·c.

    >>> least_squares_scale(5, 100, 100), round(least_squares_scale(5, 100, 10_000), 2)
    (1.0, 4.81)
    """
    return n / (1 + (n - 1) * k / r)


def least_squares_error(a: float, n: int, k: int, r: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The expected error without noise with that scale, for each r: 1 − S(r)/S(d)·n/(r/k + n − 1), d = 10,000.

    >>> least_squares_error(0.0, 5, 100, [100, 10_000]).round(4)
    array([0.99  , 0.9519])
    """
    counts = np.asarray(r, np.int64)
    return np.asarray(1.0 - _share(a, counts) * n / (counts / k + n - 1), np.float64)


def findings(rows: list[Row], settings: Settings) -> Findings:
    """Figures, tables and checks."""
    from gradwire.experiments.estimation.common_gradient_findings import common_gradient_findings

    return common_gradient_findings(rows)


EXPERIMENT = Experiment(
    name="rtopk-common-gradient",
    title="From how many of its largest entries should a worker draw?",
    claim=CLAIM,
    source=(
        "Barnes, Inan, Isik, Özgür, rTop-k: A Statistical Estimation Approach to Distributed SGD, arXiv 2005.10761, "
        "2020: operator and claim. The formula for the best r is derived in docs/theory.md."
    ),
    shows="error of added-up rTop-k messages against r; the best r against (n+1)k(1−2a)/(2−2a), with and without noise",
    method=METHOD,
    items=items,
    measure=measure,
    findings=findings,
)
