"""Error feedback: what a message left out is added to the next vector. State in, state out; no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import gradwire

if TYPE_CHECKING:
    from gradwire import Codec, Rng

__all__ = ["Step", "start", "step"]


class Step(NamedTuple):
    """What one step of error feedback gives: the message to send, and the residual to keep if it was sent."""

    message: bytes
    residual: Any


def start(n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the residual before the first step: n zeros, float32.

    >>> start(3)
    array([0., 0., 0.], dtype=float32)
    """
    return np.zeros(n, np.float32)


def step(codec: Codec, x: Any, residual: Any, rng: Rng | int) -> Step:
    """Encode x plus the residual; give the message and the residual that follows from it.

    With p = x + residual (each entry rounded once to float32): message = C(p), new residual = p − C(p).
    So sent + new residual = x + old residual: what is not sent now is sent later, nothing is lost. The
    last difference is exact for every sparsifier and for values in float32, float16 and bfloat16: a sent
    float32 entry leaves exactly 0, an entry not sent stays as it was.

    The codec must be contractive (E‖C(p) − p‖² ≤ (1 − α)‖p‖² with α > 0), or the residual grows without
    bound: an unbiased random-k, scaled by n/k, is not.

    Pure: x and residual are left as they are, and the caller commits the new residual when the message has
    really been sent (and drops it when the step is skipped).

    Args:
        codec: any codec.
        x: (n,) vector, in float32, float64, float16 or bfloat16: numpy array or CPU torch tensor.
        residual: (n,) float32, of the same kind as x.
        rng: source of the codec's randomness; an int is a seed.

    Raises:
        InputError: p is not finite. The residual is still good.

    Example:
        >>> import numpy as np, gradwire
        >>> x = np.array([3, -1, 2, 0.5], np.float32)
        >>> message, residual = step(gradwire.TopK(k=1), x, start(4), 0)
        >>> residual
        array([ 0. , -1. ,  2. ,  0.5], dtype=float32)
        >>> gradwire.decode(message, 4) + residual
        array([ 3. , -1. ,  2. ,  0.5], dtype=float32)

    Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., ICML 2019, Algorithm 1 with the
    learning rate left outside (the residual is in gradient units).
    """
    total = residual.clone() if hasattr(residual, "clone") else np.array(residual, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # encode says it, with the position
        total += x
    message = gradwire.encode(codec, total, rng)
    gradwire.add(message, total, -1.0)
    return Step(message, total)
