"""Natural dithering: levels that are powers of two, down from the Euclidean norm."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire.codecs.base import Codec
from gradwire.codecs.powers import add_powers, powers_section
from gradwire.codecs.scaling import measured, read_exponent, write_exponent
from gradwire.codecs.steps import read_step
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer
from gradwire.wire.lengths import levels_bytes

__all__ = ["NaturalDithering"]

MOST_LEVELS = 64


@dataclass(frozen=True)
class NaturalDithering(Codec):
    """Levels 0, 2^(1−s), …, ½, 1 times the norm, rounded at random to one of the two around each entry.

    Definition: with u_i = |x_i|/‖x‖ and h = 2^(1−s): from h on, u_i becomes one of the two powers of two around it,
    as in natural compression; below, h with probability u_i/h, else 0.

    Guarantee: unbiased; ω = √n·h − 1 if √n·h ≥ 9/4, attained by constant vectors, else 1/8 + (2/9)·n·h². The variance
    of an entry is at most u²/8 from h on and u(h − u) below; that is u²/8 + 2h²/9 at most. (The source's 1/8 +
    √n·h·min(1, √n·h) is larger.)

    Args:
        levels: s, 1 … 64. Near 1 + ½log2 n the two terms balance.

    Raises:
        ParameterError: levels is out of range.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.full(4, -3.0, np.float32)  # each is half the norm
        >>> gradwire.decode(gradwire.encode(NaturalDithering(levels=2), x, 0), 4).tolist()
        [-3.0, -3.0, -3.0, -3.0]

    Source: Horváth, Ho, Horváth, Sahu, Canini, Richtárik, "Natural compression for distributed deep learning", arXiv
    1905.10988, section 4 (with p = 2). Differs: the levels are entropy-coded.
    """

    code: ClassVar[int] = 10
    name: ClassVar[str] = "naturaldithering"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    levels: int

    def __post_init__(self) -> None:
        s = self.levels
        if isinstance(s, bool) or not isinstance(s, int) or not 1 <= s <= MOST_LEVELS:
            raise ParameterError(f"levels must be an integer in 1 … {MOST_LEVELS}, not {s!r}")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        y, e, largest, energy = measured(x)
        norm = float(np.float32(math.sqrt(energy)))
        write_exponent(writer, e)
        writer.f32(norm)
        if largest > 0.0:
            section, top = powers_section(y, norm, 1 - self.levels, rng.child(0).seed, largest)
            writer.u8(1 - top)  # rounding may have raised the norm's own level by one
            writer.append(section)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        e, norm = read_exponent(reader), read_step(reader)
        if norm == 0.0:
            reader.end()
            return
        below = _read_below(reader)
        add_powers(reader, out, norm, e + 1 - below, MOST_LEVELS + 1 - below, weight)

    def guarantee(self, n: int) -> Guarantee:
        spread = math.sqrt(n) * 2.0 ** (1 - self.levels)
        omega = spread - 1.0 if spread >= 2.25 else 0.125 + spread * spread * 2.0 / 9.0
        size = HEADER_BYTES_MAX + 2 + 4 + 1 + levels_bytes(n, self.levels + 1)
        return Guarantee(unbiased=True, error=omega, strict=False, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        e, norm = read_exponent(reader), read_step(reader)
        largest = math.ldexp(norm, e + 1 - _read_below(reader)) if norm else 0.0
        return {"norm": math.ldexp(norm, e), "largest_level": largest, "level_bytes": reader.rest}


def _read_below(reader: Reader) -> int:
    below = reader.u8()
    if below > MOST_LEVELS:
        raise MessageError(f"the message has levels from 2^{1 - below} of the norm on, beyond 2^{1 - MOST_LEVELS}")
    return below
