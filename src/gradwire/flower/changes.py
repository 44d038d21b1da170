"""A client's changes as parts of a bundle, with error feedback."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradwire
from gradwire import feedback
from gradwire.errors import InputError
from gradwire.flower import bundle
from gradwire.flower.layout import Layout

__all__ = ["Changes", "changes", "same_bits", "squared_norm"]

Array = np.ndarray[Any, Any]


@dataclass
class Changes:
    """What is sent, and the residuals to keep if it arrives."""

    parts: dict[str, bundle.Part] = field(default_factory=dict)
    residuals: dict[str, Array] = field(default_factory=dict)


def changes(
    layout: Layout,
    start: Mapping[str, Array],
    arrays: Mapping[str, Array],
    residuals: Mapping[str, Array],
    codec: gradwire.Codec,
    rng: gradwire.Rng,
    error_feedback: bool = True,
    norm_limit: float = math.inf,
) -> Changes:
    """What the app changed, encoded.

    Definition: for a compressed tensor p = (array − start) + residual, the message is C(s·p), the new residual
    p − C(s·p), so sent + new residual = change + old residual. s = 1 unless what is sent, all tensors together, would
    have a norm above ``norm_limit``; then the s that brings it there. Without error feedback, and for tensors on which
    the codec is not contractive (its error is 1 or more), there is no residual. All other tensors go raw.

    Pure: nothing given is changed.

    Args:
        layout: the model's.
        start: what the app was given, as both sides keep it.
        arrays: what the app gave back; the model's names.
        residuals: float32, by name; a missing one is zero.
        codec: for the compressed tensors.
        rng: of this client and this round.
        error_feedback: keep residuals.
        norm_limit: Euclidean norm that the sent change may have: under differential privacy with clipping at the
            client, error feedback must not undo the clipping.

    Raises:
        InputError: a change is not finite; the tensor is named.
        ParameterError: other names or shapes, or a codec that does not fit a tensor's size.
    """
    layout.check_names(arrays)
    found, fixed = Changes(), 0.0
    moved: dict[str, Array] = {}
    for tensor in layout.tensors:
        after, before = tensor.keep(arrays[tensor.name]), start[tensor.name]
        if tensor.compressed:
            with np.errstate(over="ignore", invalid="ignore"):  # encoding says it, with the position
                moved[tensor.name] = (after - before).reshape(-1)
            continue
        found.parts[tensor.name] = None if same_bits(after, before) else after.reshape(-1).view(np.uint8).data
        if after.dtype.kind in "fiub":
            fixed += squared_norm(after.astype(np.float64) - before)
    scale = 1.0
    sent = _encode(layout, moved, residuals, codec, rng, scale, error_feedback, found)
    while fixed + sent > norm_limit**2 and sent > 0:  # once; again only where rounding left it a hair above
        scale *= math.sqrt(max(0.0, norm_limit**2 - fixed) / sent) * (1 - 2.0**-20)
        sent = _encode(layout, moved, residuals, codec, rng, scale, error_feedback, found)
    return found


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays of one dtype have the same bits, NaN included."""
    return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))


def squared_norm(x: Array) -> float:
    """The sum of squares, in float64; not by BLAS, whose threads did not come back after ray had forked the process."""
    flat = x.reshape(-1).astype(np.float64, copy=False)
    return float(np.einsum("i,i->", flat, flat))


def _encode(
    layout: Layout,
    moved: Mapping[str, Array],
    residuals: Mapping[str, Array],
    codec: gradwire.Codec,
    rng: gradwire.Rng,
    scale: float,
    error_feedback: bool,
    found: Changes,
) -> float:
    """Fills in the compressed tensors; the squared norm of what they send."""
    sent = 0.0
    for index, tensor in enumerate(layout.tensors):
        if not tensor.compressed:
            continue
        change = moved[tensor.name]
        old = residuals.get(tensor.name, np.zeros_like(change))
        if not change.any() and not old.any():  # untouched, as a frozen layer is
            found.parts[tensor.name] = None
            continue
        messages: list[bytes] = []
        left = np.empty_like(change)
        generator = rng.child(index)
        for piece, first in enumerate(range(0, len(change), bundle.PIECE)):
            where = slice(first, first + bundle.PIECE)
            try:
                message, left[where] = _step(codec, change[where], old[where], generator.child(piece), scale)
            except InputError as e:
                raise InputError(f"the change of {tensor.name} cannot be encoded: {e}") from None
            messages.append(message)
        found.parts[tensor.name] = messages
        if error_feedback and codec.guarantee(min(tensor.size, bundle.PIECE)).error < 1:
            found.residuals[tensor.name] = left
        sent += squared_norm(change + old - left)
    return sent


def _step(codec: gradwire.Codec, change: Array, old: Array, rng: gradwire.Rng, scale: float) -> feedback.Step:
    """The message of s·(change + old), and what it leaves of change + old."""
    if scale == 1.0:
        return feedback.step(codec, change, old, rng)
    total = change + old
    scaled = np.float32(scale) * total
    message, left = feedback.step(codec, scaled, feedback.start(len(total)), rng)
    return feedback.Step(message, left + (total - scaled))
