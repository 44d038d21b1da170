"""Steps and scales as messages carry them: binary32, not negative."""

import math

import numpy as np
import numpy.typing as npt

from gradwire.codecs.base import Floats
from gradwire.errors import MessageError
from gradwire.wire import Reader, Writer

__all__ = ["no_less", "read_step", "read_steps", "write_steps"]


def no_less(values: npt.NDArray[np.float64]) -> Floats:
    """The least binary32 numbers that are no less than these, which are ≥ 0; infinity beyond the largest."""
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
    # The next larger number has the next larger bits, and a comparison is 0 or 1.
    return (nearest.view(np.uint32) + (nearest < values)).view(np.float32)


def read_step(reader: Reader) -> float:
    """One finite binary32 ≥ 0."""
    step = reader.f32()
    if math.copysign(1.0, step) < 0:
        raise MessageError(f"the message has the scale {step}: it cannot be negative")
    return step


def write_steps(writer: Writer, steps: Floats) -> None:
    """An array of them."""
    writer.raw(steps.astype("<f4").tobytes())


def read_steps(reader: Reader, count: int) -> Floats:
    """float32 (count,), finite and ≥ 0."""
    steps = np.frombuffer(reader.take(4 * count), "<f4").astype(np.float32)
    if not np.isfinite(steps).all() or np.signbit(steps).any():
        raise MessageError("the message has a scale that is negative or not finite")
    return steps
