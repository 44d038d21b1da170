"""Paper B's figure on ridge regression: error against bytes, Body-Fat data."""

from gradwire.experiments.convex.descent import Descent, descent_items, measure_descent
from gradwire.experiments.convex.problems import Ridge
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Row, Settings

__all__ = ["EXPERIMENT"]

SETUP = Descent(
    data="bodyfat",
    problem=Ridge,
    lam=None,
    alpha=0.15,
    paper={"basic": 63.0, "topk": 51.0, "spherical": 9.0, "sd": 9.0, "unbiased": 10.0},
)

METHOD = """
Ridge regression: f(x) = (1/2m)‖Ax − b‖² + (λ/2)‖x‖², where b is the body's density and A has body fat and 13
measurements of m = 252 men, all standardised. x* is solved for exactly. Gradient descent sends a compressed gradient
in each iteration, x⁺ = x − γ·C(∇f(x)), from x⁰ = 0, with γ = 1/L, L the largest eigenvalue of the Hessian. Every
C(∇f(x)) is a real message, encoded and decoded. λ = 1/m in the first figure.

Compressors: none (basic: 32 bits an entry); top-k for every k, the best one shown; Sparse Dithering with the paper's
step (ν = 0.1) and with a step searched so that the error is 0.1; unbiased Sparse Dithering with stochastic rounding
and with shared dither, both ω = ¼; Spherical Compression, all 14 entries in one block.

The table over λ, step and start repeats this for five λ, for γ = 1.5/L, and from starts drawn uniformly from [−1,
1)^d. A seed is such a start and, for a random compressor, its draws; spread is from the least to the greatest over
seeds. Spherical Compression, whose search is slow, has two seeds there, and 1/L only.
"""


def items(settings: Settings) -> list[Item]:
    """The runs."""
    return descent_items(SETUP, settings)


def measure(item: Item, settings: Settings) -> Row:
    """One run."""
    return measure_descent(SETUP, item, settings)


def findings(rows: list[Row], settings: Settings) -> Findings:
    """Figures, tables and checks."""
    from gradwire.experiments.convex.descent_findings import descent_findings

    return descent_findings(SETUP, rows)


EXPERIMENT = Experiment(
    name="ridge-bodyfat",
    title="Ridge regression with compressed gradients: error against bytes",
    claim=(
        "Spherical Compression and Sparse Dithering bring gradient descent to the same error with about 7 times fewer "
        "bits than float32 and top-k with the best k, on the Body-Fat data."
    ),
    source=(
        "Albasyoni, Safaryan, Condat, Richtárik, Optimal Gradient Compression for Distributed and Federated Learning, "
        "arXiv 2010.03246, 2020, experiments; its values are read off the figure, ± 5 %."
    ),
    shows="error of compressed gradient descent against bytes: float32, best top-k, Sparse Dithering, Spherical",
    method=METHOD,
    items=items,
    measure=measure,
    findings=findings,
    seeds=(5, 2),
)
