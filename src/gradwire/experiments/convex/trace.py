"""How a method's error falls with the bytes it sends."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwire.experiments.convex.accounting import Cost, cost
from gradwire.experiments.convex.problems import Vector
from gradwire.experiments.convex.transmit import Iterate

__all__ = ["MARKS", "Trace", "trace"]

MARKS = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6", "1e-8", "1e-10")
"""The errors whose price is kept."""

POINTS = 150
DIVERGED = 1e4


@dataclass(frozen=True)
class Trace:
    """One run. Bytes are those one worker sent, the mean over workers; the error is ‖x^t − x*‖²/‖x⁰ − x*‖².

    Attributes:
        ended: "goal", "limit" (of iterations), or "diverged" (an error above 10^4).
        iterations: how many.
        least: the least error met.
        reached: for each error of ``MARKS`` that was reached, (iterations, paper, payload and frame bytes) by then.
        curve: "error", "iteration", "paper", "payload" and "frame" at up to 151 iterations, x⁰ and the last among them.
    """

    ended: str
    iterations: int
    least: float
    reached: dict[str, Sequence[float]]
    curve: dict[str, list[float]]

    def row(self) -> dict[str, Any]:
        """The same as plain data."""
        return vars(self)


def trace(iterates: Iterator[Iterate], start: Vector, solution: Vector, goal: float, most: int) -> Trace:
    """Follows a method until its error is at most ``goal``, or for ``most`` iterations.

    Example:
        >>> import gradwire
        >>> from gradwire.experiments.convex import Ridge, compressed_gd
        >>> problem, x0 = Ridge(np.diag([1.0, 3.0]), np.ones(2), lam=0.1), np.zeros(2)
        >>> codec, step = gradwire.from_spec("identity"), 1 / problem.smoothness
        >>> run = trace(compressed_gd(problem, codec, step, x0, gradwire.Rng(0)), x0, problem.solution, 1e-4, 1000)
        >>> run.ended, run.iterations, run.reached["1e-4"][1] == 8 * run.iterations
        ('goal', 33, True)
    """
    scale = float(np.sum((start - solution) ** 2))
    errors, sums = [1.0], [np.zeros(len(Cost._fields))]
    reached: dict[str, Sequence[float]] = {}
    pending = list(MARKS)
    ended = "limit"
    for t, (x, messages) in enumerate(iterates, 1):
        costs = [cost(message) for message in messages]
        sums.append(sums[-1] + np.mean(costs, axis=0))
        errors.append(float(np.sum((x - solution) ** 2)) / scale)
        while pending and errors[-1] <= float(pending[0]):
            reached[pending.pop(0)] = (t, *(round(float(value), 2) for value in sums[-1]))
        if errors[-1] <= goal:
            ended = "goal"
        elif not errors[-1] < DIVERGED:
            ended = "diverged"
        if ended != "limit" or t >= most:
            break
    return Trace(ended, len(errors) - 1, min(errors), reached, _curve(errors, sums))


def _curve(errors: list[float], sums: list[Vector]) -> dict[str, list[float]]:
    last = len(errors) - 1
    at = sorted({math.ceil(j * last / POINTS) for j in range(POINTS + 1)})
    curve = {"iteration": [float(t) for t in at], "error": [float(f"{errors[t]:.4g}") for t in at]}
    for c, name in enumerate(Cost._fields):
        curve[name] = [round(float(sums[t][c]), 1) for t in at]
    return curve
