"""The sparse Bernoulli model: θ, samples of n nodes, and the measured risk of a scheme from the bytes it sends."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError
from gradwire.experiments.estimation.schemes import Scheme
from gradwire.rng import Rng
from gradwire.theory import estimation

__all__ = ["THETAS", "Measured", "exact_risk", "measure_risk", "supports", "theta"]

Vector = npt.NDArray[np.float64]
Indices = npt.NDArray[np.uint32]

THETAS = ("half", "flat", "steep1", "steep2")


def theta(kind: str, dim: int, s: float) -> Vector:
    """A θ of d entries that sum to s.

    Definition: "half": ½ on 2s coordinates, evenly spread over the d, 0 elsewhere (s whole). "flat": s/d everywhere.
    "steep1", "steep2": min(0.95, c/j), min(0.95, c/j²) for j = 1 … d, c such that the sum is s; the likeliest come
    first, which is the best that can happen to a fixed order.

    >>> theta("half", 8, 2)
    array([0.5, 0. , 0.5, 0. , 0.5, 0. , 0.5, 0. ])
    """
    if kind == "half":
        values = np.zeros(dim)
        count = round(2 * s)
        values[np.arange(count) * dim // count] = 0.5
        return values
    if kind == "flat":
        return np.full(dim, s / dim)
    if kind in ("steep1", "steep2"):
        shape = np.arange(1.0, dim + 1.0) ** -float(kind[-1])
        low, high = 0.0, float(s) / shape[-1]
        for _ in range(200):  # the sum grows with c: halve until the interval is one number wide
            c = (low + high) / 2
            low, high = (c, high) if np.minimum(0.95, c * shape).sum() < s else (low, c)
        return np.asarray(np.minimum(0.95, low * shape), dtype=np.float64)
    raise ParameterError(f"{kind!r} is no spectrum: give one of {', '.join(THETAS)}")


def supports(values: Vector, count: int, rng: Rng) -> Iterator[Indices]:
    """Where ``count`` independent samples of ∏ Bern(θ_j) are one: ascending uint32 indices."""
    where = np.flatnonzero(values)
    uniform = rng.uniform(count * where.size).reshape(count, where.size)
    node, column = np.nonzero(uniform < values[where])
    ends = np.cumsum(np.bincount(node, minlength=count))[:-1]
    yield from np.split(where[column].astype(np.uint32), ends)


@dataclass(frozen=True)
class Measured:
    """Over the trials: mean squared error, its standard error, and the bits of a node's message, mean and most."""

    risk: float
    risk_error: float
    bits: float
    bits_most: int


def measure_risk(method: Scheme, values: Vector, n: int, trials: int, rng: Rng) -> Measured:
    """The risk E‖θ̂ − θ‖² of n nodes, each trial with fresh samples; every message is encoded, and decoded again.

    Args:
        method: the scheme.
        values: θ, float64 (d,).
        n: nodes.
        trials: at least 2.
        rng: trial t draws from rng.child(t), node i's choice from rng.child(t).child(i).
    """
    errors = np.empty(trials)
    sizes = np.empty(trials * n, np.int64)
    total = np.empty_like(values)
    for t in range(trials):
        trial = rng.child(t)
        total.fill(0.0)
        for i, support in enumerate(supports(values, n, trial)):
            own = trial.child(i)
            message = method.send(support, own)
            method.add(message, total, own)
            sizes[t * n + i] = 8 * len(message)
        total /= n
        total -= values
        errors[t] = np.square(total, out=total).sum()  # a dot product would start BLAS's threads
    return Measured(
        risk=float(errors.mean()),
        risk_error=float(errors.std(ddof=1) / np.sqrt(trials)),
        bits=float(sizes.mean()),
        bits_most=int(sizes.max()),
    )


def exact_risk(scheme: str, values: Vector, n: int, m: int) -> float:
    """The risk by the exact formula of gradwire.theory.

    >>> round(exact_risk("rtop", theta("half", 400, 20), n=50, m=10), 2)
    0.62
    """
    if scheme == "rtop":
        return estimation.rtop_risk(values, n, m)
    if scheme == "fixed":
        return estimation.fixed_order_risk(values, n, m)
    if scheme == "random":
        return estimation.random_risk(values, n, m)
    return estimation.centralised_risk(values, n)
