"""Error feedback: what a message left out is added to the next vector. State in, state out; no framework."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import gradwire
from gradwire.codecs.arrays import as_output, as_vector
from gradwire.codecs.sparse import Sparsifier
from gradwire.errors import InputError
from gradwire.rng import as_rng
from gradwire.wire import Writer, seal_frame

if TYPE_CHECKING:
    from gradwire import Codec, Rng
    from gradwire.codecs.base import Floats

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


def step(codec: Codec | str, x: Any, residual: Any, rng: Rng | int, out: Any = None) -> Step:
    """Encode x plus the residual; give the message and the residual that follows from it.

    With p = x + residual (each entry rounded once to float32): message = C(p), new residual = p − C(p).
    So sent + new residual = x + old residual: what is not sent now is sent later, nothing is lost. The
    last difference is exact for every sparsifier and for values in float32, float16 and bfloat16: a sent
    float32 entry leaves exactly 0, an entry not sent stays as it was.

    The codec must be contractive (E‖C(p) − p‖² ≤ (1 − α)‖p‖² with α > 0), or the residual grows without
    bound: an unbiased random-k, scaled by n/k, is not.

    Pure without ``out``: x and residual are left as they are, and the caller commits the new residual when the
    message has really been sent (and drops it when the step is skipped). Long vectors want ``out``: the first touch of
    fresh memory costs more than the step. Two buffers that swap roles keep the old residual for a step that is skipped;
    ``out=residual`` is faster and gives it up.

    Args:
        codec: any codec, or its spec string.
        x: (n,) vector, in float32, float64, float16 or bfloat16: numpy array or torch tensor.
        residual: (n,) float32, of the same kind as x, on the same device.
        rng: source of the codec's randomness; an int is a seed.
        out: (n,) float32, of the same kind, contiguous: takes the new residual. It may be ``residual`` or x itself, but
            must not overlap either in part.

    Raises:
        InputError: p is not finite. The residual is still good, unless it was ``out``; what that holds is not defined.
            Or lengths differ, or out is not as said.

    Example:
        >>> import numpy as np, gradwire
        >>> x = np.array([3, -1, 2, 0.5], np.float32)
        >>> message, residual = step(gradwire.TopK(k=1), x, start(4), 0)
        >>> residual
        array([ 0. , -1. ,  2. ,  0.5], dtype=float32)
        >>> gradwire.decode(message, 4) + residual
        array([ 3. , -1. ,  2. ,  0.5], dtype=float32)
        >>> _ = step(gradwire.TopK(k=1), x, residual, 0, out=residual)
        >>> residual
        array([ 3., -2.,  0.,  1.], dtype=float32)

    Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., ICML 2019, Algorithm 1 with the
    learning rate left outside (the residual is in gradient units).
    """
    total = _like(residual) if out is None else out
    if not len(x) == len(residual) == len(total):
        raise InputError(
            f"x has {len(x)} entries, the residual {len(residual)} and out {len(total)}: give equal lengths"
        )
    if isinstance(codec, str):
        codec = gradwire.from_spec(codec)
    if isinstance(codec, Sparsifier) and (vectors := _in_place(x, residual, total)) is not None:
        writer = Writer()
        codec.encode_sum(*vectors, writer, as_rng(rng))
        return Step(seal_frame(codec.code, len(total), writer), total)
    _add(x, residual, total)
    message = gradwire.encode(codec, total, rng)
    gradwire.add(message, total, -1.0)
    return Step(message, total)


def _like(residual: Any) -> Any:
    return residual.new_empty(residual.shape) if _is_tensor(residual) else np.empty(len(residual), np.float32)


def _in_place(x: Any, residual: Any, total: Any) -> tuple[Floats, Floats, Floats] | None:
    """The three as a sparsifier's ``encode_sum`` takes them; None where they are not in float32, or on a device."""
    view, a, b = as_output(total), _in_memory(x), _in_memory(residual)
    if a is None or b is None or not isinstance(view, np.ndarray) or not len(view):
        return None
    if any(0 < abs(_address(view) - _address(v)) < view.nbytes for v in (a, b)):
        raise InputError("out overlaps x or the residual in part: give one of them, or memory of its own")
    return a, b, view


def _in_memory(x: Any) -> Floats | None:
    """A vector of float32 in the host's memory as an array."""
    if isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim == 1 and x.flags.c_contiguous:
        return x
    if str(getattr(x, "dtype", "")).removeprefix("torch.") != "float32":
        return None
    vector = as_vector(x)
    return vector if isinstance(vector, np.ndarray) else None


def _address(x: Floats) -> int:
    address: int = x.__array_interface__["data"][0]
    return address


def _add(x: Any, residual: Any, total: Any) -> None:
    """total ← x + residual, each entry rounded once."""
    if _is_tensor(residual):
        sys.modules["torch"].add(x.detach(), residual.detach(), out=total)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # encode says it, with the position
            np.add(x, residual, out=total, casting="same_kind")


def _is_tensor(x: Any) -> bool:
    return not isinstance(x, np.ndarray) and hasattr(x, "new_empty")
