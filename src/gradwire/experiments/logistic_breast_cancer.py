"""Paper B's figure on logistic regression: error against bytes, Breast-Cancer data."""

from gradwire.experiments.convex.descent import Descent, descent_items, measure_descent
from gradwire.experiments.convex.problems import Logistic
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Row, Settings

__all__ = ["EXPERIMENT"]

SETUP = Descent(
    data="breast-cancer",
    problem=Logistic,
    lam=0.01,
    alpha=0.2,
    paper={"basic": 13.5, "topk": 12.0, "spherical": 2.4, "sd": 2.6, "unbiased": 2.7},
)

METHOD = """
Logistic regression: f(x) = (1/m)·Σ log(1 + exp(−b_j⟨a_j, x⟩)) + (λ/2)‖x‖², b_j = ±1 the class of m = 683 tumours, a_j
their 10 features, scaled to [−1, 1]. x* is found by Newton's method to machine precision. Gradient descent sends a
compressed gradient in each iteration, x⁺ = x − γ·C(∇f(x)), from x⁰ = 0, with γ = 1/L, L = λ_max(AᵀA)/4m + λ. Every
C(∇f(x)) is a real message, encoded and decoded. λ = 0.01 in the first figure: there basic needs about the bytes that
it needs in the paper.

Compressors: none (basic: 32 bits an entry); top-k for every k, the best one shown; Sparse Dithering with the paper's
step (ν = 0.1) and with a step searched so that the error is 0.1; unbiased Sparse Dithering with stochastic rounding
and with shared dither, both ω = ¼; Spherical Compression, all 10 entries in one block.

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
    name="logistic-breast-cancer",
    title="Logistic regression with compressed gradients: error against bytes",
    claim=(
        "Spherical Compression and Sparse Dithering bring gradient descent to the same error with 5 to 6 times fewer "
        "bits than float32 and top-k with the best k, on the Breast-Cancer data."
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
