"""Logistic regression on twenty workers with unlike data: which methods are exact, and what each codec costs."""

from gradwire.experiments.convex.distributed import distributed_items, measure_distributed
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Row, Settings

__all__ = ["EXPERIMENT"]

METHOD = """
Logistic regression with f = (1/n)·Σ f_i on n = 20 workers: the rows of a data set sorted by class, and within a class
by their most variable feature, are dealt out in runs of equal length, so that workers' data are unlike. λ is chosen
such that L/μ = 100. x* is found by Newton's method to machine precision; x⁰ = 0; the error is ‖xᵗ − x*‖²/‖x⁰ − x*‖².

Methods: DCGD sends C(∇f_i(x)). Error feedback adds what a message left out to the next. EF21 sends C(∇f_i(x) − g_i),
where g_i is what the server already has. DIANA does so for unbiased C, with a learning rate 1/(1 + ω) for its shift.
Each runs at the step that its theorem gives, and at γ = ½, 1, 2 and 4 times 1/L, until 1e-6 or for 800 iterations
(a quick run: theory's and 2/L, 400 iterations). Every vector is a real message, encoded and decoded; bytes are those
that one worker sends, the mean over workers.

A seed is a repetition with other draws of the random codecs; the others run once. Numbers are means over seeds, least
errors medians.
"""


def items(settings: Settings) -> list[Item]:
    """The runs."""
    return distributed_items(settings)


def measure(item: Item, settings: Settings) -> Row:
    """One run."""
    return measure_distributed(item, settings)


def findings(rows: list[Row], settings: Settings) -> Findings:
    """Figures, tables and checks."""
    from gradwire.experiments.convex.distributed_findings import distributed_findings

    return distributed_findings(rows)


EXPERIMENT = Experiment(
    name="distributed-logistic",
    title="Twenty workers with unlike data: which method reaches the solution, with how many bytes?",
    claim=(
        "Compression alone (DCGD) stops short of the solution when workers' data are unlike; methods that send "
        "compressed differences (EF21 for contractive, DIANA for unbiased compressors) reach it, at a linear rate."
    ),
    source=(
        "Richtárik, Sokolov, Fatkhullin, EF21, NeurIPS 2021; Mishchenko, Gorbunov, Takáč, Richtárik, arXiv 1901.09269, "
        "2019 (DIANA); Khirirat, Feyzmahdavian, Johansson, arXiv 1806.06573, 2018 (DCGD)."
    ),
    shows="error against bytes of DCGD, error feedback, EF21 and DIANA, several codecs: a9a, w8a, mushrooms, phishing",
    method=METHOD,
    items=items,
    measure=measure,
    findings=findings,
    seeds=(3, 1),
)
