"""What codecs do to whole vectors beside coding them, where no native kernel is called for: numpy on arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.kernels import backends
from gradwire.kernels.backends import Vector

__all__ = [
    "add_dequantised",
    "add_in_buckets",
    "add_signs",
    "add_table",
    "beside",
    "divided",
    "natural_levels",
    "scaled",
    "thinned",
    "to_host",
]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Bytes = bytes | bytearray | memoryview

LARGEST = np.finfo(np.float32).max
BIAS = 150


def to_host(x: Vector) -> npt.NDArray[Any]:
    """A vector, or ascending indices, in the host's memory: float32 or uint32; an array is itself."""
    return x if isinstance(x, np.ndarray) else backends.of(x).to_host(x)


def beside(x: Vector, indices: Words) -> Vector:
    """Ascending indices where x is: for several uses, as each of an array's copies it to the device."""
    return indices if isinstance(x, np.ndarray) else backends.of(x).indices_up(indices, x.device)


def scaled(x: Vector, e: int) -> Vector:
    """x·2^e, rounded once to binary32; −149 ≤ e ≤ 149."""
    if not isinstance(x, np.ndarray):
        return backends.of(x).scaled(x, e)
    return np.ldexp(x.astype(np.float64), e).astype(np.float32)


def thinned(x: Vector, step: int) -> Vector:
    """Entries 0, step, 2·step, …"""
    return np.ascontiguousarray(x[::step]) if isinstance(x, np.ndarray) else backends.of(x).thinned(x, step)


def divided(x: Vector, divisors: Floats, bucket: int) -> Vector:
    """Every entry over its bucket's divisor, a quotient in binary32: float32 (n,).

    Args:
        x: float32 (n,).
        divisors: float32 (⌈n/bucket⌉,), not 0, on the host.
        bucket: entries 0 … bucket − 1 have the first divisor, and so on.

    Example:
        >>> divided(np.array([1, 2, 3], np.float32), np.array([2, 4], np.float32), 2).tolist()
        [0.5, 1.0, 0.75]
    """
    if not isinstance(x, np.ndarray):
        return backends.of(x).divided(x, divisors, bucket)
    return x / divisors if len(divisors) == 1 else _by_bucket(np.divide, x, divisors, bucket)


def _by_bucket(operation: np.ufunc, x: Floats, operands: Floats, bucket: int) -> Floats:
    """The operation of every entry and its bucket's operand."""
    whole = len(x) // bucket
    out = np.empty_like(x)
    inside = out[: whole * bucket].reshape(whole, bucket)
    operation(x[: whole * bucket].reshape(whole, bucket), operands[:whole, None], out=inside)
    operation(x[whole * bucket :], operands[-1], out=out[whole * bucket :])
    return out


def natural_levels(x: Vector, lowest: int, seed: int, stream: int = 0) -> tuple[Words, int]:
    """Levels of x rounded to powers of two by :func:`round_natural`, as zigzag numbers, and the largest exponent.

    Definition: level k = ±(1 + top − exponent), 0 for 0: small where values are large. top is 0 if all are 0.
    """
    if not isinstance(x, np.ndarray):
        return backends.of(x).natural_levels(x, lowest, seed, stream)
    codes = backends.active.round_natural(x, lowest, seed, stream)
    largest = int(codes.max())
    if largest == 0:
        return codes, 0
    # A code is 2·(exponent + 150) + s, s the sign bit; the zigzag of ±k is 2k − s.
    return np.where(codes == 0, np.uint32(0), np.uint32((largest | 1) + 1) - codes), (largest >> 1) - BIAS


def add_signs(out: Vector, bits: Bytes, scale: float, weight: float) -> None:
    """out ← out ± weight·scale, − where the entry's bit is 1, the first in the lowest bit."""
    if not isinstance(out, np.ndarray):
        return backends.of(out).add_signs(out, bits, scale, weight)
    return backends.active.add_signs(bits, out, scale, weight)


def add_table(out: Vector, numbers: Words, table: Floats, weight: float) -> None:
    """out ← out + weight·table[numbers]; every number is below len(table)."""
    if not isinstance(out, np.ndarray):
        return backends.of(out).add_table(out, numbers, table, weight)
    return backends.active.add_dense(out, np.take(table, numbers), weight)


def add_in_buckets(out: Vector, zigzag: Words, steps: Floats, bucket: int, power: float, weight: float) -> None:
    """out ← out + weight·((step·k)·power), saturating, with the step of each entry's bucket; see :func:`divided`."""
    if not isinstance(out, np.ndarray):
        return backends.of(out).add_in_buckets(out, zigzag, steps, bucket, power, weight)
    levels = backends.active.dequantise(zigzag, 1.0, False, 0, 0)
    with np.errstate(over="ignore"):
        values = _by_bucket(np.multiply, levels, steps, bucket)
    return backends.active.add_dense(out, _saturated(values, power), weight)


def add_dequantised(
    out: Vector, zigzag: Words, step: float, power: float, weight: float, shared: bool, seed: int, stream: int = 0
) -> None:
    """out ← out + weight·(dequantised·power), saturating; :func:`add_levels` of levels that are decoded already."""
    if not isinstance(out, np.ndarray):
        return backends.of(out).add_dequantised(out, zigzag, step, power, weight, shared, seed, stream)
    with np.errstate(over="ignore"):
        values = backends.active.dequantise(zigzag, step, shared, seed, stream)
    return backends.active.add_dense(out, _saturated(values, power), weight)


def _saturated(values: Floats, power: float) -> Floats:
    """values·power in place, saturating."""
    if power != 1.0:
        with np.errstate(over="ignore"):
            values *= np.float32(power)
    if backends.active.find_nonfinite(values) >= 0:
        np.clip(values, -LARGEST, LARGEST, out=values)
    return values
