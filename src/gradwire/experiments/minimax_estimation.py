"""The estimation theory behind rTop-k, measured: squared error against nodes, bits, sparsity and dimension."""

from dataclasses import asdict
from typing import Any

from gradwire.experiments.estimation.model import measure_risk, theta
from gradwire.experiments.estimation.schemes import scheme
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Row, Settings, item_rng

__all__ = ["EXPERIMENT"]

CLAIM = (
    "When n nodes each see one sample of ∏ Bern(θ_j) with Σθ_j ≤ s, s far below d, and may send k bits each, the least "
    "worst-case squared error of an estimate of θ is of order s²·log d/(n·k), and a random few of the sample's ones – "
    "rTop-k – reach it."
)

METHOD = """
Each node draws a vector of zeros and ones, entry j being one with probability θ_j; the centre wants θ. Think of the
ones as the large entries of a worker's gradient. Four ways to report were measured. rTop: the number N of ones, and m
of them chosen at random; the centre counts each N/m times, which makes the estimate unbiased. Fixed order: the first
m ones, in the same order at every node, which is top-m when all values are equal. Random-m: the bits of m random
coordinates, agreed beforehand. Centralised: all ones. Where θ is not named it is ½ on 2s coordinates spread evenly
over d, and 0 elsewhere.

Every message is really encoded (varint and indices section of the wire format) and the centre works from the decoded
bytes; bits are 8 × their length, averaged over messages. The frame of some 10 bytes that a message would wear on the
wire is left out, as it is the same for all schemes; the byte for the code's parameter and the padding to whole bytes
are in. Lines are exact formulas, points are measurements.

A seed is an independent repetition with its own samples: in a full run about 20,000 messages at every point, in a
quick one 5,000. Bars and ± are the standard deviation over seeds. Exponents are least-squares fits on logarithms of
every seed's value, with Student's 95 % interval. The upper bound is (s² + s)/(nm) + s/n, the lower one van Trees'
with the constants derived in docs/theory.md: no scheme whatever can be below it for every θ of the model.
"""

MESSAGES = (20_000, 5_000)
"""Messages a point and seed, in a full and in a quick run."""

# The table of where rTop-k wins and loses: θ, d, s, n, m, and how many bits rTop-k's message has, for random-m as its m
LIMITS = (
    ("half", 400, 20, 50, 5, 56),
    ("half", 400, 20, 50, 1, 32),
    ("flat", 400, 20, 5, 1, 32),
    ("flat", 400, 20, 50, 5, 56),
    ("flat", 400, 20, 5000, 5, 56),
    ("steep1", 400, 20, 50, 10, 88),
    ("steep2", 400, 20, 50, 20, 120),
    ("steep2", 400, 20, 50, 5, 56),
    ("steep1", 400, 20, 1, 5, 56),
    ("flat", 10_000, 200, 1, 50, 480),
)


def items(settings: Settings) -> list[Item]:
    """The points of the six parts, each with every seed."""
    quick = settings.quick
    points: list[dict[str, Any]] = []

    def add(part: str, name: str, dim: int, s: int, n: int, m: int, spectrum: str = "half") -> None:
        points.append({"part": part, "scheme": name, "theta": spectrum, "dim": dim, "s": s, "n": n, "m": m})

    for m in (1, 2, 5, 10, 20) if quick else (1, 2, 3, 5, 7, 10, 14, 20, 28):
        add("bits", "rtop", 400, 20, 50, m)
        add("bits", "fixed", 400, 20, 50, m)
    for m in (1, 2, 5, 10, 16, 32, 64, 136) if quick else (1, 2, 5, 10, 16, 32, 48, 64, 88, 136, 200, 400):
        add("bits", "random", 400, 20, 50, m)
    add("bits", "whole", 400, 20, 50, 400)

    for n in (5, 50, 500, 2000) if quick else (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        add("nodes", "rtop", 400, 20, n, 10)
        add("nodes", "fixed", 400, 20, n, 10)
        add("nodes", "random", 400, 20, n, 88)
    for n in (20, 100) if quick else (20, 50, 100):
        for m in (8, 16, 32, 64) if quick else (4, 8, 16, 32, 64):
            add("budget", "rtop", 100_000, 200, n, m)
    for s in (10, 40, 160) if quick else (10, 20, 40, 80, 160, 320):
        add("sparsity", "rtop", 10_000, s, 50, 2)
    for dim in (400, 4000, 40_000) if quick else (100, 400, 1000, 4000, 10_000, 40_000, 100_000):
        add("dimension", "rtop", dim, 20, 50, 10)
        add("dimension", "random", dim, 20, 50, 88)
    for spectrum, dim, s, n, m, random_m in LIMITS:
        add("limits", "rtop", dim, s, n, m, spectrum)
        add("limits", "fixed", dim, s, n, m, spectrum)
        add("limits", "random", dim, s, n, random_m, spectrum)

    def trials(n: int) -> int:
        return max(4, MESSAGES[quick] // n)

    return [{**point, "trials": trials(point["n"]), "seed": seed} for point in points for seed in range(settings.seeds)]


def measure(item: Item, settings: Settings) -> Row:
    """Risk and bits of one scheme at one point, one seed."""
    values = theta(item["theta"], item["dim"], item["s"])
    method = scheme(item["scheme"], item["dim"], item["m"])
    return asdict(measure_risk(method, values, item["n"], item["trials"], item_rng(item)))


def findings(rows: list[Row], settings: Settings) -> Findings:
    """Figures, tables and checks."""
    from gradwire.experiments.estimation.minimax_findings import minimax_findings

    return minimax_findings(rows)


EXPERIMENT = Experiment(
    name="minimax-estimation",
    title="How well can many nodes with short messages estimate a sparse θ?",
    claim=CLAIM,
    source=(
        "Barnes, Inan, Isik, Özgür, rTop-k: A Statistical Estimation Approach to Distributed SGD, arXiv 2005.10761, "
        "2020: the model, the rate, and the scheme. Constants are derived in docs/theory.md."
    ),
    shows="squared error against nodes, bits, sparsity and dimension, between the bounds; where rTop-k loses, too",
    method=METHOD,
    items=items,
    measure=measure,
    findings=findings,
)
