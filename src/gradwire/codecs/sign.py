"""One bit an entry, scaled by the mean magnitude."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.identity import check_finite
from gradwire.codecs.steps import read_step
from gradwire.errors import MessageError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer

__all__ = ["ScaledSign"]


@dataclass(frozen=True)
class ScaledSign(Codec):
    """Signs times the mean magnitude.

    Definition: C(x)_i = (‖x‖₁/n)·sign(x_i), the sign of 0 being +. The scale is the one of least error for these signs.

    Guarantee: strictly contractive: ‖C(x) − x‖² = ‖x‖² − ‖x‖₁²/n ≤ (1 − 1/n)‖x‖², attained by a single entry; 1 − 2/π
    = 0.36 for a Gaussian vector. One bit an entry.

    Raises:
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([1.0, -3.0, 2.0, -2.0], np.float32)
        >>> gradwire.decode(gradwire.encode(ScaledSign(), x, 0), 4).tolist()
        [2.0, -2.0, 2.0, -2.0]

    Source: Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019.
    """

    code: ClassVar[int] = 12
    name: ClassVar[str] = "sign"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        bits, total = kernels.signs(x)
        if not math.isfinite(total):
            check_finite(x)
        scale = np.float32(total / len(x))
        writer.f32(float(scale))
        if scale > 0:
            writer.raw(bits)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        n, scale = len(out), read_step(reader)
        if scale == 0.0:
            reader.end()
            return
        bits = reader.take((n + 7) // 8)
        reader.end()
        if n % 8 and bits[-1] >> n % 8:
            raise MessageError("the message has padding bits that are not zero")
        kernels.add_signs(out, bits, scale, weight)

    def guarantee(self, n: int) -> Guarantee:
        size = HEADER_BYTES_MAX + 4 + (n + 7) // 8
        return Guarantee(unbiased=n == 1, error=1.0 - 1.0 / n, strict=True, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        return {"scale": read_step(reader)}
