"""Sparse Dithering: levels 2h apart on the unit sphere, entropy-coded."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.scaling import measured, read_exponent, write_exponent
from gradwire.codecs.step_search import largest_step
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.bounds import sparse_dithering_rate
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer

__all__ = ["SparseDithering"]

ROUNDINGS = ("nearest", "stochastic", "shared")
GAINS = ("paper", "optimal")


@dataclass(frozen=True)
class SparseDithering(Codec):
    """A uniform quantiser whose step follows the vector's norm.

    Definition: with h = √(ν/n), k_i = round(x_i/(2h‖x‖)) and C(x)_i = γ·k_i. Zeros and small levels are many: an
    entropy code makes them cheap. ``rounding``: to the nearest level; stochastically between the two neighbours; or
    "shared", k_i = round(x_i/γ + U_i) decoded as γ(k_i − U_i), U_i uniform in [−½, ½) from the message's seed.
    ``gain``: γ = 2h‖x‖ as in the paper, or the γ of least error for these levels. With ``alpha`` the step is
    searched: the largest whose measured error is within α.

    Guarantee: nearest: strictly contractive, α = ν (or ``alpha``). Stochastic: unbiased, ω ≤ ν. Shared: unbiased, ω
    = ν/3 for every x. Bits: never above the paper's 30 + log2 n + 3.35n at ν = 1/10 (nearest; the frame apart).

    Args:
        nu: ν > 0. Give this or alpha.
        alpha: α in (0, 1); nearest rounding and optimal gain only.
        rounding: "nearest", "stochastic" or "shared".
        gain: "optimal" or "paper"; without it optimal for nearest rounding and paper for the unbiased ones, which
            need it.

    Raises:
        ParameterError: neither or both of nu and alpha, a value out of range, or nu too small for n.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
        >>> message = gradwire.encode(SparseDithering(alpha=0.1), x, 0)
        >>> y = gradwire.decode(message, 10_000)
        >>> bool(((x - y) ** 2).sum() <= 0.1 * (x ** 2).sum()), round(8 * len(message) / 10_000, 1)
        (True, 2.0)

    Source: Albasyoni, Safaryan, Condat, Richtárik, "Optimal Gradient Compression for Distributed and Federated
    Learning", arXiv 2010.03246, section 3; shared dither: Roberts, "Picture coding using pseudo-random noise", 1962.
    Differs: an entropy code in place of the fixed one; optimal gain, searched step and shared dither are additions.
    """

    code: ClassVar[int] = 6
    name: ClassVar[str] = "sd"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    nu: float | None = None
    alpha: float | None = None
    rounding: str = "nearest"
    gain: str | None = None

    def __post_init__(self) -> None:
        if (self.nu is None) == (self.alpha is None):
            raise ParameterError("give nu (the paper's step) or alpha (the error that the step is searched for)")
        if self.rounding not in ROUNDINGS:
            raise ParameterError(f"rounding must be one of {', '.join(ROUNDINGS)}, not {self.rounding!r}")
        if self.gain not in (None, *GAINS):
            raise ParameterError(f"gain must be one of {', '.join(GAINS)}, not {self.gain!r}")
        if self.rounding != "nearest" and self.gain == "optimal":
            raise ParameterError(f"the optimal gain would bias {self.rounding} rounding: leave gain out")
        if self.alpha is not None and (self.rounding != "nearest" or self.gain == "paper"):
            raise ParameterError("alpha needs nearest rounding and the optimal gain: leave rounding and gain out")
        for name, value, most in (("nu", self.nu, math.inf), ("alpha", self.alpha, 1.0)):
            if value is not None and not 1e-8 <= value < most:
                raise ParameterError(f"{name} = {value} must lie in [1e-8, {most}): below, float32 itself is coarser")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        self.check(len(x))
        y, e, largest, energy = measured(x)
        if largest == 0.0:
            return self._write(writer, 0, 0.0)
        if self.alpha is not None:
            step = largest_step(y, energy, largest, self.alpha)
        else:
            step = paper_step(energy, len(x), self.error)
        inverse = float(np.float32(1.0) / np.float32(step))
        if self.rounding == "nearest" and self.gain != "paper":
            return self._encode_with_gain(y, e, inverse, writer)
        drawn = rng.child(0)
        self._write(writer, e, step)
        if self.rounding == "shared":
            writer.u64(drawn.seed)
        return writer.quantised(y, inverse, ROUNDINGS.index(self.rounding), drawn.seed, 0)

    def _encode_with_gain(self, y: Vector, e: int, inverse: float, writer: Writer) -> None:
        # The gain stands before the levels but follows from them: so these are coded first, in the same pass.
        pieces, products, squares, nonzero = kernels.encode_summed_levels(y, inverse)
        if squares == 0.0:
            self._write(writer, 0, 0.0)
            return
        self._write(writer, e, float(np.float32(products / squares)))
        if not writer.dense_levels(len(y), pieces, nonzero):
            writer.levels(kernels.quantise(y, inverse, 0))

    def _write(self, writer: Writer, e: int, step: float) -> None:
        writer.u8(self.rounding == "shared")
        write_exponent(writer, e)
        writer.f32(step)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        shared, e, step, seed = _read_head(reader)
        if step == 0.0:
            reader.end()
            return
        reader.add_levels(out, (step, math.ldexp(1.0, e), weight), shared, seed)

    @property
    def error(self) -> float:
        """ν, or α where that is given."""
        return float(self.nu if self.alpha is None else self.alpha)  # type: ignore[arg-type]

    def check(self, n: int) -> None:
        """The levels of a single large entry, √(n/ν)/2, must stay within 2^22."""
        if self.error < n * 2.0**-46:
            name = "nu" if self.alpha is None else "alpha"
            raise ParameterError(
                f"{name} = {self.error} is too small for {n} entries: give at least {n * 2.0**-46:.3g}"
            )

    def guarantee(self, n: int) -> Guarantee:
        # The levels cost at most their unary code (a bitmap, signs, magnitudes), for a block is unary where that is
        # shorter: one bit more an entry than the paper's bound, whose zeros cost H2 of their share. Unbiased rounding
        # can raise each magnitude by one level more.
        raised = 0 if self.rounding == "nearest" else 2
        bits = (sparse_dithering_rate(self.error) + raised + 1) * n
        size = HEADER_BYTES_MAX + 32 + math.ceil(bits / 8)
        unbiased = self.rounding != "nearest"
        error = self.error / 3 if self.rounding == "shared" else self.error
        return Guarantee(unbiased=unbiased, error=error, strict=not unbiased, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        shared, e, step, _ = _read_head(reader)
        return {"step": math.ldexp(step, e), "shared_dither": shared, "level_bytes": reader.rest}


def paper_step(energy: float, n: int, nu: float) -> float:
    """2h‖x‖ as a binary32, a hair smaller so that rounding in binary32 stays within ν."""
    return float(np.float32(2.0 * math.sqrt(nu / n * energy) * (1.0 - 2.0**-20 / math.sqrt(nu))))


def _read_head(reader: Reader) -> tuple[bool, int, float, int]:
    shared = reader.u8()
    if shared > 1:
        raise MessageError(f"the message has dither {shared}, where 0 or 1 is due")
    e, step = read_exponent(reader), reader.f32()
    if not step >= 0.0 or math.copysign(1.0, step) < 0:
        raise MessageError(f"the message has the step {step}: it cannot be negative")
    return bool(shared), e, step, reader.u64() if shared and step > 0.0 else 0
