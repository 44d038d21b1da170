"""EF21: workers send the compressed change of their gradient's estimate."""

import math
from collections.abc import Iterator

import numpy as np

from gradwire import Codec, Rng
from gradwire.errors import ParameterError
from gradwire.experiments.convex.problems import Split, Vector
from gradwire.experiments.convex.transmit import Iterate, transmit
from gradwire.theory.guarantee import Guarantee

__all__ = ["ef21", "step_size"]


def ef21(split: Split, codec: Codec, step: float, start: Vector, rng: Rng) -> Iterator[Iterate]:
    """Iterates without end.

    Definition: g_i ← g_i + C(∇f_i(x) − g_i), at both ends; x⁺ = x − (γ/n)·Σ g_i; g_i = 0 at first, so that the first
    estimate is C(∇f_i(x⁰)).

    Guarantee: for C in B(α) and γ of :func:`step_size`, with G^t = (1/n)·Σ‖g_i − ∇f_i‖² and θ = 1 − √α,
    E[f(x^t) − f* + (γ/θ)·G^t] ≤ (1 − γμ)^t·[f(x⁰) − f* + (γ/θ)·G⁰]: exact in the limit, however much workers differ.

    Example:
        >>> import gradwire, numpy as np
        >>> from gradwire.experiments.convex import Ridge, Split
        >>> split = Split.deal(Ridge(np.vstack([np.eye(2), 2 * np.eye(2)]), np.arange(4.0), lam=0.1), workers=2)
        >>> codec = gradwire.from_spec("topk:k=1")
        >>> gamma = step_size(split, codec.guarantee(2))
        >>> for t, (x, messages) in enumerate(ef21(split, codec, gamma, np.zeros(2), Rng(0))):
        ...     if t == 400:
        ...         break
        >>> bool(np.abs(x - split.whole.solution).max() < 1e-9)
        True

    Source: Richtárik, Sokolov, Fatkhullin, "EF21: A new, simpler, theoretically better, and practically faster error
    feedback", NeurIPS 2021, the theorem for functions with the Polyak–Łojasiewicz inequality.
    """
    x, t = start, 0
    estimates = [np.zeros_like(start) for _ in split.parts]
    while True:
        messages = []
        for i, part in enumerate(split.parts):
            message, change = transmit(codec, part.gradient(x) - estimates[i], rng.child(t).child(i))
            estimates[i] = estimates[i] + change
            messages.append(message)
        x = x - step * np.mean(estimates, axis=0)
        t += 1
        yield Iterate(x, messages)


def step_size(split: Split, guarantee: Guarantee) -> float:
    """γ = min{1/(L + L̃·√(2α)/(1 − √α)), (1 − √α)/(2μ)} for C in B(α); L̃² is the mean of the L_i².

    Raises:
        ParameterError: C is unbiased with ω > 0, hence perhaps not contractive.
    """
    if guarantee.unbiased and guarantee.error > 0.0:
        raise ParameterError("EF21 needs a contractive codec: give nearest rounding, top-k or rTop-k")
    theta = 1.0 - math.sqrt(guarantee.error)
    mean_square = math.sqrt(float(np.mean(split.smoothness_of_parts**2)))
    smooth = split.whole.smoothness + mean_square * math.sqrt(2.0 * guarantee.error) / theta
    return min(1.0 / smooth, theta / (2.0 * split.whole.convexity))
