"""The entries that reach a threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Floats
from gradwire.codecs.sparse import (
    Sparsifier,
    Values,
    add_sparse,
    check_values,
    describe_sparse,
    refuse_nonfinite,
    send_entries,
    value_codec,
    write_entries,
)
from gradwire.codecs.steps import no_less
from gradwire.errors import ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Writer
from gradwire.wire.lengths import indices_bytes

__all__ = ["Threshold"]

SCALES = ("rms", "max", "none")


@dataclass(frozen=True)
class Threshold(Sparsifier):
    """The entries whose magnitude reaches a threshold.

    Definition: C(x)_i = x_i where |x_i| ≥ T and x_i ≠ 0, else 0; T = t·‖x‖/√n ("rms"), t·max|x_i| ("max") or t
    ("none").

    Guarantee: strictly contractive. rms: α = t²(1 − 1/n) for t ≤ 1, for fewer than n entries are dropped, each with
    less than t²/n of ‖x‖²; α = 1 for t > 1. max: α = 1 − 1/(1 + (n − 1)t²). none: α = 1. The length follows the data:
    up to all entries.

    Args:
        t: the threshold, above 0; at most 1 relative to max.
        relative_to: "rms", "max" or "none".
        values: how kept entries are sent: "float32", "float16", "bfloat16", or an inner codec.

    Raises:
        ParameterError: a parameter is out of range.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([0.5, -3.0, 2.0, 0.0], np.float32)
        >>> gradwire.decode(gradwire.encode(Threshold(0.5, relative_to="max"), x, 0), 4).tolist()
        [0.0, -3.0, 2.0, 0.0]

    Source: Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech 2015 (a fixed
    threshold); docs/wire-format.md, section 7.2.
    """

    code: ClassVar[int] = 5
    name: ClassVar[str] = "threshold"
    on_device: ClassVar[bool] = True

    t: float
    relative_to: str = "rms"
    values: Values = "float32"

    def __post_init__(self) -> None:
        if isinstance(self.t, bool) or not isinstance(self.t, int | float) or not 0.0 < self.t < math.inf:
            raise ParameterError(f"t must be a number above 0, not {self.t!r}")
        if self.relative_to not in SCALES:
            raise ParameterError(f"relative_to must be one of {', '.join(SCALES)}, not {self.relative_to!r}")
        if self.relative_to == "max" and self.t > 1:
            raise ParameterError(f"t = {self.t} times the largest magnitude is reached by nothing: give at most 1")
        check_values(self.values)

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        indices, kept, bad = kernels.reaching_entries(x, self._threshold(x))
        refuse_nonfinite(x, bad)
        write_entries(len(x), indices, kept, self.values, writer, rng.child(1))

    def encode_sum(self, x: Floats, residual: Floats, total: Floats, writer: Writer, rng: Rng) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            np.add(x, residual, out=total)
        indices, kept, bad = kernels.reaching_entries(total, self._threshold(total))
        refuse_nonfinite(total, bad)
        kernels.put_sparse(total, indices, np.zeros_like(kept))
        send_entries(total, indices, kept, self.values, writer, rng.child(1))

    def _threshold(self, x: Vector) -> float:
        """The least binary32 above 0 that is no less than T; infinity where T is beyond them, or x is not finite."""
        if self.relative_to == "none":
            return _positive(float(self.t))
        largest, squares = kernels.extent(x) if self.relative_to == "rms" else (kernels.max_abs(x), 0.0)
        if not math.isfinite(largest):
            return math.inf
        if self.relative_to == "max":
            return _positive(self.t * largest)
        # A hair lower than the sum's rounding could raise it: a constant vector must reach its own mean.
        return _positive(self.t * math.sqrt(squares / len(x)) * (1.0 - 2.0**-30))

    add = staticmethod(add_sparse)
    describe = staticmethod(describe_sparse)

    def guarantee(self, n: int) -> Guarantee:
        dropped = 1.0
        if self.relative_to == "rms":
            dropped = min(self.t**2 * (1.0 - 1.0 / n), 1.0) if self.t <= 1 else 1.0
        elif self.relative_to == "max":
            dropped = 1.0 - 1.0 / (1.0 + (n - 1) * self.t**2)
        # How many are kept is the data's matter. No inner codec has more error or bytes for fewer entries.
        inner = value_codec(self.values).guarantee(n)
        error = max(dropped + (1.0 - dropped) * inner.error, inner.error)
        size = 5 + indices_bytes(n, n) + 1 + inner.max_bytes
        return Guarantee(unbiased=False, error=error, strict=inner.strict, max_bytes=size)


def _positive(threshold: float) -> float:
    """The least binary32 that is no less, nor 0."""
    return max(float(no_less(np.array([threshold]))[0]), 2.0**-149)
