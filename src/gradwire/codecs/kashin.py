"""Kashin compression: coefficients of nearly equal magnitude in a random frame, quantised uniformly."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.codecs.frames import CHUNK_BITS, Layout, RandomFrame, layout_for, read_layout
from gradwire.codecs.scaling import normalised, read_exponent, write_exponent
from gradwire.codecs.sd import SparseDithering
from gradwire.codecs.spreading import ATTEMPTS, spread
from gradwire.codecs.steps import read_steps, write_steps
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer
from gradwire.wire.lengths import integers_bytes

__all__ = ["Kashin"]

MOST_LEVELS = 4096

HEAD_BYTES = 1 + 2 + 6 + 2 + 8 + 5 + 60
"""Form, exponent, layout, levels, seed, one chunk's bits, and the fixed part of the section of frame numbers."""


@dataclass(frozen=True)
class Kashin(Codec):
    """Spread by a random frame, then quantised: no entry stands out, so few levels serve.

    Definition: chunks y of c entries have coefficients p in a tight frame of N ≥ λc vectors (random signs, a random c
    of N rows of a Hadamard matrix of order N = 2^j), y = Hp/N at these rows, with max|p_i| ≤ K‖y‖, K² = (25/16)·λ/(λ
    − 1). Each p_i is rounded at random to one of the two around it of m levels from −max|p| to max|p|; the receiver
    transforms these.

    Guarantee: unbiased; ω = (K² − 1)/λ for m = 2, else K²/(λ(m − 1)²): an error of variance σ² in each coefficient
    becomes cσ²/N, and σ² ≤ max|p|² − p_i², or a quarter of the level distance squared. For every x: where K is not
    reached with 16 frames, all of x is sent by stochastic Sparse Dithering with ν = ω. Bits: λ·log2 m an entry.

    Args:
        redundancy: λ, 1.1 … 3; N/c is up to twice that for n < 100.
        levels: m, 2 … 4096.

    Raises:
        ParameterError: a parameter is out of range.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.zeros(1000, np.float32)
        >>> x[7] = 2.5  # all coefficients have the same magnitude: nothing is lost
        >>> y = gradwire.decode(gradwire.encode(Kashin(), x, 0), 1000)
        >>> bool(np.abs(y - x).max() < 1e-6)
        True

    Source: Safaryan, Shulgin, Richtárik, "Uncertainty principle for communication compression in distributed and
    federated learning and the search for an optimal compressor", 2020; Lyubarskii, Vershynin, "Uncertainty principles
    and vector quantization", 2010. Differs: reflected truncation (Douglas and Rachford), which reaches a smaller K in
    fewer rounds.
    """

    code: ClassVar[int] = 13
    name: ClassVar[str] = "kashin"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    redundancy: float = 2.0
    levels: int = 2

    def __post_init__(self) -> None:
        r, m = self.redundancy, self.levels
        if isinstance(r, bool) or not isinstance(r, int | float) or not 1.1 <= r <= 3.0:
            raise ParameterError(f"redundancy must be a number in 1.1 … 3, not {r!r}")
        if isinstance(m, bool) or not isinstance(m, int) or not 2 <= m <= MOST_LEVELS:
            raise ParameterError(f"levels must be an integer in 2 … {MOST_LEVELS}, not {m!r}")

    @property
    def _width(self) -> int:
        return (self.levels - 1).bit_length()

    @property
    def _spread_squared(self) -> float:
        return 25.0 / 16.0 * self.redundancy / (self.redundancy - 1.0)

    @property
    def omega(self) -> float:
        """ω, the same for every n."""
        m, k2 = self.levels, self._spread_squared
        return (k2 - 1.0) / self.redundancy if m == 2 else k2 / (self.redundancy * (m - 1) ** 2)

    @property
    def _fallback(self) -> SparseDithering:
        return SparseDithering(nu=self.omega, rounding="stochastic")

    def check(self, n: int) -> None:
        try:
            self._fallback.check(n)
        except ParameterError:
            raise ParameterError(f"{self.levels} levels are too many for {n} entries: give fewer") from None

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        self.check(len(x))
        y, e, _ = normalised(x)
        layout, _ = layout_for(len(x), self.redundancy, self._width)
        seed = rng.child(1).seed
        chunks = spread(y, layout, seed, self._spread_squared, self.levels, rng.child(0))
        writer.u8(chunks is None)
        if chunks is None:
            self._fallback.encode(x, writer, rng.child(2))
            return
        write_exponent(writer, e)
        layout.write(writer)
        writer.varint(self.levels)
        writer.u64(seed)
        steps = chunks.steps(layout, self.levels)
        write_steps(writer, steps)
        if steps.any():
            writer.integers(chunks.frames)
            for piece in chunks.section:
                writer.raw(piece)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        form = reader.u8()
        if form == 1:
            SparseDithering.add(reader, out, weight)
            return
        n = len(out)
        e, layout, levels, seed = _read_head(reader, form, n)
        steps = read_steps(reader, layout.chunks)
        if not steps.any():
            reader.end()
            return
        frames = reader.integers(layout.chunks)
        if frames.max() >= ATTEMPTS:
            raise MessageError(f"the message has a frame beyond its {ATTEMPTS}")
        used = {number: RandomFrame(seed, number, layout) for number in np.unique(frames).tolist()}
        bases = {number: (frame.positions, frame.signs) for number, frame in used.items()}
        section, power = reader.take(reader.rest), math.ldexp(1.0, e)
        kernels.add_frames(section, out, levels, layout.log2, frames, bases, steps, power, weight)

    def guarantee(self, n: int) -> Guarantee:
        # The layout's bits bound what it may cost and never fall with n, so that no shorter vector has a longer bound.
        _, bits = layout_for(n, self.redundancy, self._width)
        numbers = integers_bytes((bits - CHUNK_BITS) // self._width + 1, 2**self._width - 1)
        size = max(HEADER_BYTES_MAX + HEAD_BYTES + numbers, 1 + self._fallback.guarantee(n).max_bytes)
        return Guarantee(unbiased=True, error=self.omega, strict=False, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        form = reader.u8()
        if form == 1:
            return {"form": "sd", **SparseDithering.describe(reader)}
        _, layout, levels, seed = _read_head(reader, form, reader.n)
        chunks = {"order": layout.order, "length": layout.length, "chunks": layout.chunks}
        return {"form": "frames", **chunks, "levels": levels, "seed": seed}


def _read_head(reader: Reader, form: int, n: int) -> tuple[int, Layout, int, int]:
    if form != 0:
        raise MessageError(f"the message has form {form}, where 0 or 1 is due")
    e, layout, levels, seed = read_exponent(reader), read_layout(reader, n), reader.varint(MOST_LEVELS), reader.u64()
    if levels < 2:
        raise MessageError(f"the message has {levels} levels, where at least 2 are due")
    return e, layout, levels, seed
