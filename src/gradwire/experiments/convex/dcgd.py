"""Distributed compressed gradient descent: n workers, nothing remembered."""

from collections.abc import Iterator

import numpy as np

from gradwire import Codec, Rng
from gradwire.experiments.convex.problems import Split, Vector
from gradwire.experiments.convex.transmit import Iterate, transmit
from gradwire.theory.guarantee import Guarantee

__all__ = ["dcgd", "step_size"]


def dcgd(split: Split, codec: Codec, step: float, start: Vector, rng: Rng) -> Iterator[Iterate]:
    """Iterates without end.

    Definition: x⁺ = x − (γ/n)·Σ C_i(∇f_i(x)), the C_i drawn independently.

    Guarantee: for C in U(ω) and γ of :func:`step_size`,
    E‖x^t − x*‖² ≤ (1 − γμ)^t·‖x⁰ − x*‖² + (2γω/(μn²))·Σ‖∇f_i(x*)‖². As ∇f_i(x*) is not 0 where workers differ, it ends
    in a neighbourhood of x*, of a size that shrinks with γ. For a biased C there is no guarantee: it ends where the
    *compressed* gradients sum to 0.

    Example:
        >>> import gradwire, numpy as np
        >>> from gradwire.experiments.convex import Ridge, Split
        >>> split = Split.deal(Ridge(np.vstack([np.eye(2), 2 * np.eye(2)]), np.arange(4.0), lam=0.1), workers=2)
        >>> exact = gradwire.from_spec("identity")
        >>> gamma = step_size(split, exact.guarantee(2))
        >>> for t, (x, messages) in enumerate(dcgd(split, exact, gamma, np.zeros(2), Rng(0))):
        ...     if t == 300:
        ...         break
        >>> bool(np.abs(x - split.whole.solution).max() < 1e-6), len(messages)
        (True, 2)

    Source: Khirirat, Feyzmahdavian, Johansson, "Distributed learning with compressed gradients", arXiv 1806.06573,
    2018; the constants are those of Gorbunov, Hanzely, Richtárik, "A unified theory of SGD", AISTATS 2020, for
    compressed full gradients, as derived in docs/convex.md.
    """
    x, t = start, 0
    while True:
        sent = [transmit(codec, part.gradient(x), rng.child(t).child(i)) for i, part in enumerate(split.parts)]
        x = x - step * np.mean([gradient for _, gradient in sent], axis=0)
        t += 1
        yield Iterate(x, [message for message, _ in sent])


def step_size(split: Split, guarantee: Guarantee) -> float:
    """γ = 1/(L + 2ω·max L_i/n) for C in U(ω); 1/L for a biased C, where nothing is proved."""
    omega = guarantee.error if guarantee.unbiased else 0.0
    return 1.0 / (split.whole.smoothness + 2.0 * omega * float(split.smoothness_of_parts.max()) / len(split.parts))
