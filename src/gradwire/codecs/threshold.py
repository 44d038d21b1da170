"""The entries that reach a threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec, Floats
from gradwire.codecs.identity import check_finite
from gradwire.codecs.sparse import Values, add_sparse, check_values, describe_sparse, value_codec, write_sparse
from gradwire.codecs.steps import no_less
from gradwire.errors import ParameterError
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Writer
from gradwire.wire.lengths import indices_bytes

__all__ = ["Threshold"]

SCALES = ("rms", "max", "none")


@dataclass(frozen=True)
class Threshold(Codec):
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

    def encode(self, x: Floats, writer: Writer, rng: Rng) -> None:
        check_finite(x)
        write_sparse(x, kernels.reaching(x, self._threshold(x)), self.values, writer, rng.child(1))

    def _threshold(self, x: Floats) -> float:
        """The least binary32 above 0 that is no less than T; infinity where T is beyond them."""
        if self.relative_to == "rms":
            # A hair lower than the sum's rounding could raise it: a constant vector must reach its own mean.
            exact = self.t * math.sqrt(kernels.sum_squares(x) / len(x)) * (1.0 - 2.0**-30)
        else:
            exact = self.t * kernels.max_abs(x) if self.relative_to == "max" else float(self.t)
        return max(float(no_less(np.array([exact]))[0]), 2.0**-149)

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
