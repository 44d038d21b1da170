"""Error feedback: what a message left out is added to the next one."""

from collections.abc import Iterator

import numpy as np

from gradwire import Codec, Rng
from gradwire.errors import ParameterError
from gradwire.experiments.convex.problems import Split, Vector
from gradwire.experiments.convex.transmit import Iterate, transmit
from gradwire.theory.guarantee import Guarantee

__all__ = ["error_feedback", "step_size"]


def error_feedback(split: Split, codec: Codec, step: float, start: Vector, rng: Rng) -> Iterator[Iterate]:
    """Iterates without end.

    Definition: p_i = e_i + γ∇f_i(x); x⁺ = x − (1/n)·Σ C(p_i); e_i⁺ = p_i − C(p_i); e_i⁰ = 0.

    Guarantee: for C in B(α) and γ of :func:`step_size` the error falls at rate 1 − γμ/2 down to a neighbourhood of size
    proportional to (1/n)·Σ‖∇f_i(x*)‖² and to γ; it is 0 for one worker, and wherever every f_i has the minimum x*.

    Example:
        >>> import gradwire, numpy as np
        >>> from gradwire.experiments.convex import Ridge, Split
        >>> split = Split.deal(Ridge(np.diag([1.0, 2.0, 3.0]), np.ones(3), lam=0.1), workers=1)
        >>> codec = gradwire.from_spec("topk:k=1")
        >>> for t, (x, messages) in enumerate(error_feedback(split, codec, 0.1, np.zeros(3), Rng(0))):
        ...     if t == 1500:
        ...         break
        >>> bool(np.abs(x - split.whole.solution).max() < 1e-9)
        True

    Source: Stich, Karimireddy, "The error-feedback framework", JMLR 21(237), 2020, for one worker; Beznosikov,
    Horváth, Richtárik, Safaryan, "On biased compression for distributed learning", JMLR 24(276), 2023, for n.
    """
    x, t = start, 0
    residuals = [np.zeros_like(start) for _ in split.parts]
    while True:
        messages, total = [], np.zeros_like(start)
        for i, part in enumerate(split.parts):
            pending = residuals[i] + step * part.gradient(x)
            message, received = transmit(codec, pending, rng.child(t).child(i))
            residuals[i] = pending - received
            total += received
            messages.append(message)
        x = x - total / len(split.parts)
        t += 1
        yield Iterate(x, messages)


def step_size(split: Split, guarantee: Guarantee) -> float:
    """γ = (1 − α)/(28·max L_i) for C in B(α): 1/(14(2δ + B)L) of Beznosikov et al., δ = 1/(1 − α), B = 0 (no noise).

    Raises:
        ParameterError: C is unbiased with ω > 0, hence perhaps not contractive.
    """
    if guarantee.unbiased and guarantee.error > 0.0:
        raise ParameterError("error feedback needs a contractive codec: give nearest rounding, top-k or rTop-k")
    return (1.0 - guarantee.error) / (28.0 * float(split.smoothness_of_parts.max()))
