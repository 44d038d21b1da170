"""All entries, in one of three float formats."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Codec
from gradwire.errors import InputError, MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import HEADER_BYTES_MAX, Reader, Writer

__all__ = ["DTYPES", "Identity", "check_finite", "write_finite"]

DTYPES = ("float32", "float16", "bfloat16")
"""In the order of their wire codes."""

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
EXPONENTS = range(-126, 113)


def check_finite(x: Vector, positions: Vector | None = None) -> None:
    """Raises InputError naming the first NaN or infinity of x (at ``positions[i]`` of the whole vector, if given)."""
    i = kernels.find_nonfinite(x)
    if i >= 0:
        where = i if positions is None else int(positions[i])
        raise InputError(
            f"x[{where}] is {float(x[i])}: only finite vectors can be encoded; skip this step or mask the entry"
        )


@dataclass(frozen=True)
class Identity(Codec):
    """Every entry, as float32, scaled float16 or bfloat16.

    Definition: C(x)_i = x_i rounded to ``dtype``. float16 entries share a power of two that puts the largest
    magnitude just
    below 2^16, so nothing overflows and only entries below 2^−40 of the largest vanish.

    Guarantee: strictly contractive; α = 0 for float32, 2^−18 for bfloat16, 2^−22 + n·2^−80 for float16 (for entries
    that are zero or
    normal binary32 numbers).

    Args:
        dtype: "float32", "float16" or "bfloat16".

    Raises:
        ParameterError: another dtype.
        InputError: when encoding NaN or infinity.

    Example:
        >>> import gradwire, numpy as np
        >>> gradwire.decode(gradwire.encode(Identity("float16"), np.array([2.0**20, 3.0], np.float32), 0), 2).tolist()
        [1048576.0, 3.0]

    Source: docs/wire-format.md, section 7.1.
    """

    code: ClassVar[int] = 1
    name: ClassVar[str] = "identity"
    inner: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ParameterError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")

    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        largest = kernels.max_abs(x) if self.dtype == "float16" else None  # finite if and only if x is
        if largest is None or not math.isfinite(largest):
            check_finite(x)
        write_finite(x, self.dtype, writer, largest)

    @staticmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        dtype, exponent = _read_dtype(reader), 0
        if dtype == "float16":
            exponent = reader.i8()
            if exponent not in EXPONENTS:
                raise MessageError(f"the message scales float16 by 2^{exponent}, outside −126 … 112")
        data = reader.take(BYTES[dtype] * len(out))
        reader.end()
        kernels.add_floats(data, out, DTYPES.index(dtype), exponent, weight)

    def guarantee(self, n: int) -> Guarantee:
        error = {"float32": 0.0, "float16": 2.0**-22 + n * 2.0**-80, "bfloat16": 2.0**-18}[self.dtype]
        size = HEADER_BYTES_MAX + 1 + (self.dtype == "float16") + n * BYTES[self.dtype]
        return Guarantee(unbiased=error == 0.0, error=error, strict=True, max_bytes=size)

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        return {"dtype": _read_dtype(reader)}


def write_finite(x: Vector, dtype: str, writer: Writer, largest: float | None = None) -> None:
    """Identity's payload of entries known to be finite; ``largest`` is their largest magnitude, where that is known."""
    writer.u8(DTYPES.index(dtype))
    if dtype == "float32":
        writer.raw(kernels.to_host(x).astype("<f4", copy=False).data)
    elif dtype == "float16":
        largest = kernels.max_abs(x) if largest is None else largest
        exponent = int(np.frexp(largest)[1]) - 16 if largest > 0 else 0
        exponent = min(max(exponent, EXPONENTS[0]), EXPONENTS[-1])
        writer.i8(exponent)
        writer.rounded(x, exponent)
    else:
        writer.rounded(x, None)


def _read_dtype(reader: Reader) -> str:
    number = reader.u8()
    if number >= len(DTYPES):
        raise MessageError(f"the message names float format {number}, which is not known")
    return DTYPES[number]
