"""Kashin's coefficients, rounded and put together again (wire format 7.11)."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError
from gradwire.kernels.reference.hadamard import hadamard
from gradwire.kernels.reference.integers import decode_integers, encode_integers
from gradwire.kernels.reference.random import uniform
from gradwire.kernels.reference.values import add_dense

__all__ = ["add_frames", "encode_coefficients"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

LARGEST = np.finfo(np.float32).max


def encode_coefficients(p: Floats, magnitudes: Floats, log2n: int, levels: int, seed: int, before: int) -> list[bytes]:
    """The integers section of t = (p/A)·h + h, h = (levels − 1)/2, rounded at random; of 0 where A = 0."""
    half = np.float32((levels - 1) / 2)
    scale = np.where(magnitudes == 0, np.float32(1), magnitudes).astype(np.float32, copy=False)
    t: Floats = p.reshape(-1, 1 << log2n) / scale[:, None] * half + half
    t[magnitudes == 0] = 0
    below = np.floor(t.reshape(-1))
    up = uniform(seed, 0, before, t.size) < t.reshape(-1) - below
    return [encode_integers((below + up).astype(np.uint32))]


def add_frames(
    data: bytes | bytearray | memoryview,
    out: Floats,
    levels: int,
    log2n: int,
    chosen: Words,
    positions: Words,
    signs: Floats,
    steps: Floats,
    power: float,
    weight: float,
) -> None:
    """out ← out + weight·(what the numbers stand for), saturating; chunk j has row chosen[j] of positions and signs."""
    numbers, used = decode_integers(data, len(steps) << log2n)
    if used != len(memoryview(data)):
        raise MessageError(f"the message has {len(memoryview(data)) - used} bytes too many")
    if numbers.max(initial=0) >= levels:
        raise MessageError(f"the message has a level beyond its {levels}")
    # Integers below 2^24 all the way: the transform is exact.
    odd = 2.0 * numbers.astype(np.float32) - np.float32(levels - 1)
    sums = hadamard(odd, log2n).reshape(len(steps), -1)
    with np.errstate(over="ignore"):
        values = np.take_along_axis(sums, positions[chosen].astype(np.intp), 1) * signs[chosen] * steps[:, None]
        values *= np.float32(power)
    np.clip(values, -LARGEST, LARGEST, out=values)
    add_dense(out, values.reshape(-1)[: len(out)], weight)
