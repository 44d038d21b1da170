"""Compressed gradient descent: one worker."""

from collections.abc import Iterator

from gradwire import Codec, Rng
from gradwire.experiments.convex.problems import Problem, Vector
from gradwire.experiments.convex.transmit import Iterate, transmit
from gradwire.theory.guarantee import Guarantee

__all__ = ["compressed_gd", "step_size"]


def compressed_gd(problem: Problem, codec: Codec, step: float, start: Vector, rng: Rng) -> Iterator[Iterate]:
    """Iterates without end.

    Definition: x⁺ = x − γ·C(∇f(x)).

    Guarantee: with γ of :func:`step_size`, E f(x^t) − f* ≤ (1 − ρ)^t·(f(x⁰) − f*), where ρ = (1 − α)μ/L for C in B(α)
    and μ/((1 + ω)L) for C in U(ω).

    Example:
        >>> import gradwire, numpy as np
        >>> from gradwire.experiments.convex import Ridge
        >>> problem = Ridge(np.diag([1.0, 2.0, 3.0]), np.ones(3), lam=0.1)
        >>> codec = gradwire.from_spec("sd:nu=0.1")
        >>> gamma = step_size(problem, codec.guarantee(3))
        >>> for t, (x, messages) in enumerate(compressed_gd(problem, codec, gamma, np.zeros(3), Rng(0))):
        ...     if t == 400:
        ...         break
        >>> bool(np.abs(x - problem.solution).max() < 1e-12)
        True

    Source: Albasyoni, Safaryan, Condat, Richtárik, arXiv 2010.03246; both rates are derived in docs/theory.md,
    section 1.
    """
    x, t = start, 0
    while True:
        message, gradient = transmit(codec, problem.gradient(x), rng.child(t))
        x = x - step * gradient
        t += 1
        yield Iterate(x, [message])


def step_size(problem: Problem, guarantee: Guarantee) -> float:
    """γ = 1/L for C in B(α), whatever α < 1; 1/((1 + ω)L) for C in U(ω)."""
    return 1.0 / ((1.0 + guarantee.error if guarantee.unbiased else 1.0) * problem.smoothness)
