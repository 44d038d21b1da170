"""Powers of two times a common factor, as signed levels: what natural compression and natural dithering share."""

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.base import Floats
from gradwire.codecs.scaling import LARGEST

__all__ = ["add_powers", "levels_of"]

BIAS = 150


def levels_of(codes: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], int]:
    """Zigzag levels of the codes that :func:`kernels.round_natural` gives, and the largest exponent.

    Definition: level k = ±(1 + top − exponent), 0 for 0: small where values are large. top is 0 if all are 0.
    """
    largest = int(codes.max())
    if largest == 0:
        return codes, 0
    # A code is 2·(exponent + 150) + s, s the sign bit; the zigzag of ±k is 2k − s.
    return np.where(codes == 0, np.uint32(0), np.uint32((largest | 1) + 1) - codes), (largest >> 1) - BIAS


def add_powers(out: Floats, zigzag: npt.NDArray[np.uint32], factor: float, exponent: int, weight: float) -> None:
    """out += weight·(±factor·2^(exponent + 1 − |k|)), each rounded once to binary32, saturating; levels are few."""
    deepest = int(zigzag.max()) + 1 >> 1
    magnitudes = np.ldexp(float(factor), exponent + 1 - np.arange(1, deepest + 1))
    table = np.zeros(2 * deepest + 1)
    table[2::2], table[1::2] = magnitudes, -magnitudes
    values = np.take(np.clip(table, -LARGEST, LARGEST).astype(np.float32), zigzag)
    kernels.add_dense(out, values, weight)
