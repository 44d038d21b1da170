"""Standard dithering, QSGD: levels of equal distance on each bucket's Euclidean norm."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec, Floats
from gradwire.codecs.scaling import measured_buckets, read_exponent, write_exponent
from gradwire.codecs.steps import no_less, read_steps, write_steps
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer
from gradwire.wire.lengths import levels_bytes

__all__ = ["StandardDithering"]

MOST_LEVELS = 2**20


@dataclass(frozen=True)
class StandardDithering(Codec):
    """Levels 0, 1/s, 2/s, …, 1 times the norm, rounded at random to one of the two around each entry.

    Definition: in each bucket of b entries, with N its Euclidean norm, C(x)_i = sign(x_i)·(N/s)·k_i, k_i = ⌊t⌋ + 1
    with probability t − ⌊t⌋, else ⌊t⌋, t = s|x_i|/N.

    Guarantee: unbiased; ω = √b/s − 1 if 2s ≤ √b, else b/(4s²), and no less serves all x: the variance of an entry is
    (N/s)²·f(1 − f) with f = t − ⌊t⌋, and the least concave majorant of it in t² is t − t² up to t = ½, then ¼. (The
    source's min(b/s², √b/s) is larger.)

    Args:
        levels: s, 1 … 2^20.
        bucket: entries that share a norm; 0 for all.

    Raises:
        ParameterError: a parameter is out of range.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> x = np.array([3.0, -4.0], np.float32)
        >>> gradwire.decode(gradwire.encode(StandardDithering(levels=5), x, 0), 2).tolist()
        [3.0, -4.0]

    Source: Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: communication-efficient SGD via gradient quantization and
    encoding", NeurIPS 2017, Lemma 3.1. Differs: an adaptive entropy code in place of Elias codes.
    """

    code: ClassVar[int] = 8
    name: ClassVar[str] = "qsgd"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    levels: int
    bucket: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("levels", self.levels, 1, MOST_LEVELS),
            ("bucket", self.bucket, 0, 2**32 - 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ParameterError(f"{name} must be an integer in {least} … {most}, not {value!r}")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        size = self._size(len(x))
        y, e, squares = measured_buckets(x, size)
        steps = no_less(np.sqrt(squares) / self.levels)
        write_exponent(writer, e)
        writer.varint(size if size < len(x) else 0)
        write_steps(writer, steps)
        if steps.any():
            writer.divided(y, np.where(steps == 0, np.float32(1), steps), size, rng.child(0).seed)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        n = len(out)
        e, size, steps = _read_head(reader, n)
        power = math.ldexp(1.0, e)
        if not steps.any():
            reader.end()
        elif len(steps) == 1:
            reader.add_levels(out, (float(steps[0]), power, weight), False, 0)
        elif (section := reader.dense_levels()) is not None:
            kernels.add_bucket_levels(section, out, steps, size, power, weight)
        else:
            zigzag = reader.levels(n)
            reader.end()
            kernels.add_in_buckets(out, zigzag, steps, size, power, weight)

    def guarantee(self, n: int) -> Guarantee:
        b, s = self._size(n), self.levels
        omega = math.sqrt(b) / s - 1.0 if 4 * s * s <= b else b / (4.0 * s * s)
        # |k| ≤ t + 1, and a bucket's t sum to s√b at most, up to rounding.
        buckets = -(-n // b)
        size = HEADER_BYTES_MAX + 7 + 4 * buckets
        size += levels_bytes(n, s + 1, n + buckets * s * math.sqrt(b) * (1 + 2.0**-20))
        return Guarantee(unbiased=True, error=omega, strict=False, max_bytes=size)

    def _size(self, n: int) -> int:
        return min(self.bucket or n, n)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        e, size, steps = _read_head(reader, reader.n)
        return {"bucket": size, "largest_step": math.ldexp(float(steps.max()), e), "level_bytes": reader.rest}


def _read_head(reader: Reader, n: int) -> tuple[int, int, Floats]:
    e, bucket = read_exponent(reader), reader.varint()
    size = min(bucket or n, n)
    if bucket > n:
        raise MessageError(f"the message has buckets of {bucket} entries, more than the vector's {n}")
    return e, size, read_steps(reader, -(-n // size))
