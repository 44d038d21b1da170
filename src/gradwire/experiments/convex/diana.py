"""DIANA: workers send the compressed difference to a shift that learns their gradient at the solution."""

from collections.abc import Iterator

import numpy as np

from gradwire import Codec, Rng
from gradwire.errors import ParameterError
from gradwire.experiments.convex.problems import Split, Vector
from gradwire.experiments.convex.transmit import Iterate, transmit
from gradwire.theory.guarantee import Guarantee

__all__ = ["diana", "step_size"]


def diana(split: Split, codec: Codec, step: float, start: Vector, rng: Rng) -> Iterator[Iterate]:
    """Iterates without end.

    Definition: Δ_i = C_i(∇f_i(x) − h_i); x⁺ = x − (γ/n)·Σ (h_i + Δ_i); h_i⁺ = h_i + Δ_i/(1 + ω), at both ends; h_i = 0
    at first. The C_i are drawn independently.

    Guarantee: for C in U(ω) and γ of :func:`step_size`, E‖x^t − x*‖² ≤ (1 − min{γμ, 1/(2(1 + ω))})^t·V⁰: exact in the
    limit, however much workers differ, as h_i → ∇f_i(x*) and the noise of C_i vanishes with its input.

    Raises:
        ParameterError: the codec is not unbiased.

    Example:
        >>> import gradwire, numpy as np
        >>> from gradwire.experiments.convex import Ridge, Split
        >>> split = Split.deal(Ridge(np.vstack([np.eye(2), 2 * np.eye(2)]), np.arange(4.0), lam=0.1), workers=2)
        >>> codec = gradwire.from_spec("sd:nu=0.75,rounding=shared")
        >>> gamma = step_size(split, codec.guarantee(2))
        >>> for t, (x, messages) in enumerate(diana(split, codec, gamma, np.zeros(2), Rng(0))):
        ...     if t == 300:
        ...         break
        >>> bool(np.abs(x - split.whole.solution).max() < 1e-9)
        True

    Source: Mishchenko, Gorbunov, Takáč, Richtárik, "Distributed learning with compressed gradient differences", arXiv
    1901.09269, 2019, for quantised differences; Gorbunov, Hanzely, Richtárik, "A unified theory of SGD", AISTATS 2020,
    for every C in U(ω); the step is derived in docs/convex.md.
    """
    rate = 1.0 / (1.0 + _omega(codec.guarantee(len(start))))
    x, t = start, 0
    shifts = [np.zeros_like(start) for _ in split.parts]
    while True:
        messages, total = [], np.zeros_like(start)
        for i, part in enumerate(split.parts):
            message, change = transmit(codec, part.gradient(x) - shifts[i], rng.child(t).child(i))
            total += shifts[i] + change
            shifts[i] = shifts[i] + rate * change
            messages.append(message)
        x = x - step * total / len(split.parts)
        t += 1
        yield Iterate(x, messages)


def step_size(split: Split, guarantee: Guarantee) -> float:
    """γ = 1/(L + 6ω·max L_i/n) for C in U(ω).

    Raises:
        ParameterError: C is not unbiased.
    """
    noise = 6.0 * _omega(guarantee) * float(split.smoothness_of_parts.max()) / len(split.parts)
    return 1.0 / (split.whole.smoothness + noise)


def _omega(guarantee: Guarantee) -> float:
    if not guarantee.unbiased:
        raise ParameterError("DIANA needs an unbiased codec: give stochastic or shared rounding, or scaled random-k")
    return guarantee.error
