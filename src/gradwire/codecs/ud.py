"""The universal dithered code: subtractive dither and a Gaussian model that no vector beats."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire.codecs.base import Codec
from gradwire.codecs.dither_models import LEVELS, MODELS, TRIED, Dithered, add_dithered, write_shortest
from gradwire.codecs.gaussian_tables import most_bits
from gradwire.codecs.scaling import measured, read_exponent, write_exponent
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.bounds import scaled_contraction
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer

__all__ = ["UniversalDithering"]

HEAD_BYTES_MAX = 1 + 3 + 4 + 8 + 4
BLOCK = 2**20
BLOCK_BYTES_MAX = 2 + 5 + 5 + 4 * 64 + 1
RANS_LOSS = 0.09
"""Bits a level, at most, by which rANS misses what its tables say: its states are no less than 16 times a frequency, so
a step adds at most log2(1 + 1/16) = 0.0875; and 0.0025 for the estimates by which the encoder chooses."""


@dataclass(frozen=True)
class UniversalDithering(Codec):
    """Unbiased, with exactly the error asked for and near the fewest bits, whatever the vector.

    Definition: σ = ‖x‖/√n, step = σ√(12ω), k_i = round(x_i/step + U_i), C(x)_i = (k_i − U_i)·step, with U_i uniform
    in [−½, ½) from the message's seed. The receiver knows U, so k is coded given U: with the law of a Gaussian of
    variance 1 + ω, or with tables fitted to this vector where that is shorter. With ``contractive`` C(x)/(1 + ω).

    Guarantee: unbiased, E‖C(x) − x‖² = ω‖x‖² for every x; contractive: α = ω/(1 + ω) instead. Mean bits for every x:
    33 + n(½log2(1 + 1/ω) + 0.2546) plus some 50 bytes and 0.2 % for tables, lanes and frame: 1.42 a coordinate at ω
    = 1/4, 1.92 at ω = 1/9 (α = 0.1); fewer where x is not Gaussian. No message exceeds ``max_bytes``.

    Args:
        omega: ω in [1e-7, 1e6].
        contractive: whether the receiver's step is divided by 1 + ω (use it with error feedback).

    Raises:
        ParameterError: ω is out of range, or too small for n.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
        >>> message = gradwire.encode(UniversalDithering(omega=0.25), x, 0)
        >>> y = gradwire.decode(message, 100_000)
        >>> round(float(((x - y) ** 2).sum() / (x ** 2).sum()), 2), round(8 * len(message) / 100_000, 2)
        (0.25, 1.42)

    Source: derived in docs/theory.md, section 5.4; subtractive dither with universal coding: Ziv, "On universal
    quantization", 1985; Zamir, Feder, "On universal quantization by randomized uniform/lattice quantizers", 1992.
    """

    code: ClassVar[int] = 7
    name: ClassVar[str] = "ud"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    omega: float
    contractive: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.omega, bool) or not isinstance(self.omega, int | float) or not 1e-7 <= self.omega <= 1e6:
            raise ParameterError(f"omega = {self.omega!r} must be a number in [1e-7, 1e6]: the error for every x")
        if not isinstance(self.contractive, bool):
            raise ParameterError(f"contractive must be true or false, not {self.contractive!r}")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        self.check(len(x))
        y, e, largest, energy = measured(x)
        if largest == 0.0:
            _write_head(writer, LEVELS, 0, 0.0)
            return
        step = np.float32(math.sqrt(12.0 * self.omega * (energy / len(x))))
        levels = Dithered(y, float(np.float32(1.0) / step), rng.child(0).seed)
        model, form = write_shortest(levels, self._spacing, self._unary_bits(len(x)))
        _write_head(writer, model, e, float(step) / (1.0 + self.omega) if self.contractive else float(step))
        writer.u64(levels.seed)
        writer.append(form)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        model, e, step, seed = _read_head(reader)
        if step == 0.0:
            reader.end()
            return
        add_dithered(reader, out, model, seed, (step, math.ldexp(1.0, e), weight))

    @property
    def _spacing(self) -> float:
        """a: the step in standard deviations of C(x)."""
        return float(np.float32(math.sqrt(12.0 * self.omega / (1.0 + self.omega))))

    def check(self, n: int) -> None:
        """The level of a single large entry, √(n/12ω), must stay within 2^22."""
        if self.omega < n * 2.0**-47:
            raise ParameterError(f"omega = {self.omega} is too small for {n} entries: give at least {n * 2.0**-47:.3g}")

    def _unary_bits(self, n: int) -> float:
        """Bits of a unary block, at most: three a level, and Σ|x_i|/step ≤ n/√(12ω)."""
        return n * (3.0 + (1.0 + 2.0**-16) / math.sqrt(12.0 * self.omega))

    def guarantee(self, n: int) -> Guarantee:
        # ‖C(x)‖ ≤ ‖x‖ + √n·step/2, so the mean of z² is at most (1 + √(12ω)/2)²/(1 + ω).
        reach = (1.0 + math.sqrt(3.0 * self.omega)) ** 2 / (1.0 + self.omega) * (1.0 + 2.0**-16)
        bits = min(n * most_bits(self._spacing, reach), self._unary_bits(n)) + n * RANS_LOSS
        size = -(-n // BLOCK) * BLOCK_BYTES_MAX + math.ceil(bits / 8)
        if n <= TRIED:
            size = min(size, 2 + math.ceil(self._unary_bits(n) / 8))
        error = scaled_contraction(self.omega) if self.contractive else float(self.omega)
        return Guarantee(not self.contractive, error, strict=False, max_bytes=HEADER_BYTES_MAX + HEAD_BYTES_MAX + size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        model, e, step, _ = _read_head(reader)
        return {"step": math.ldexp(step, e), "model": MODELS[model & 15], "level_bytes": reader.rest}


def _write_head(writer: Writer, model: int, e: int, step: float) -> None:
    writer.u8(model)
    write_exponent(writer, e)
    writer.f32(step)


def _read_head(reader: Reader) -> tuple[int, int, float, int]:
    model, e, step = reader.u8(), read_exponent(reader), reader.f32()
    if model & 15 >= len(MODELS):
        raise MessageError(f"the message has a model of kind {model}, which version 1 does not know")
    if not step >= 0.0 or math.copysign(1.0, step) < 0:
        raise MessageError(f"the message has the step {step}: it cannot be negative")
    if step == 0.0 and model != LEVELS:
        raise MessageError(f"the message has no step, and yet a model of kind {model}")
    return model, e, step, reader.u64() if step > 0.0 else 0
