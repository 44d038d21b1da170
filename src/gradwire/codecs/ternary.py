"""TernGrad: a sign or zero for each entry, times the largest magnitude."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.identity import check_finite
from gradwire.codecs.steps import read_step
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer
from gradwire.wire.lengths import levels_bytes

__all__ = ["Ternary"]


@dataclass(frozen=True)
class Ternary(Codec):
    """The largest magnitude times a random −1, 0 or 1.

    Definition: M = max|x_i|; C(x)_i = M·sign(x_i) with probability |x_i|/M, else 0.

    Guarantee: unbiased, ω = (√n − 1)/2: E‖C(x) − x‖² = M‖x‖₁ − ‖x‖², which is the most, relative to ‖x‖², when all
    entries but one are M/(√n + 1). Where all magnitudes are equal nothing is lost. At most log2 3 bits an entry.

    Raises:
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([2.0, 0.0, -2.0, 1.0], np.float32)
        >>> gradwire.decode(gradwire.encode(Ternary(), x, 0), 4).tolist() in ([2, 0, -2, 2], [2, 0, -2, 0])
        True

    Source: Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", NeurIPS
    2017.
    Differs: an entropy code in place of two bits an entry; no clipping, which would bias it.
    """

    code: ClassVar[int] = 11
    name: ClassVar[str] = "ternary"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        largest = kernels.max_abs(x)
        if not math.isfinite(largest):
            check_finite(x)
        writer.f32(largest)
        if largest > 0.0:
            # A quotient, not a product with the reciprocal: the largest entries become ±1 exactly.
            writer.divided(x, np.array([largest], np.float32), len(x), rng.child(0).seed)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        largest = read_step(reader)
        if largest == 0.0:
            reader.end()
        else:
            reader.add_levels(out, (largest, 1.0, weight), False, 0)

    def guarantee(self, n: int) -> Guarantee:
        size = HEADER_BYTES_MAX + 4 + levels_bytes(n, 1)
        return Guarantee(unbiased=True, error=(math.sqrt(n) - 1.0) / 2.0, strict=n == 1, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        return {"largest": read_step(reader), "level_bytes": reader.rest}
