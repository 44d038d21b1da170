"""Powers of two times a common factor, as signed levels: what natural compression and natural dithering share."""

import numpy as np

from gradwire import kernels
from gradwire.codecs.scaling import LARGEST
from gradwire.errors import MessageError
from gradwire.kernels import Vector
from gradwire.wire import Reader, Writer
from gradwire.wire.writer import SHORT

__all__ = ["add_powers", "powers_section"]


def powers_section(x: Vector, divisor: float, lowest: int, seed: int, magnitude: float) -> tuple[Writer, int]:
    """The levels section of x/divisor rounded to powers of two from 2^lowest on, and the largest exponent.

    Definition: level k = ±(1 + largest − exponent), 0 for 0: small where values are large. x is finite, and
    ``magnitude`` the largest of it.
    """
    section = Writer()
    if len(x) > SHORT:
        largest, blocks, nonzero = kernels.encode_powers(x, divisor, lowest, seed, magnitude)
        if section.dense_levels(len(x), blocks, nonzero):
            return section, largest
    quotients = kernels.divided(x, np.array([divisor], np.float32), len(x))
    zigzag, largest = kernels.natural_levels(quotients, lowest, seed)
    section.levels(zigzag)
    return section, largest


def add_powers(reader: Reader, out: Vector, factor: float, exponent: int, deepest: int, weight: float) -> None:
    """out += weight·(±factor·2^(exponent + 1 − |k|)), each rounded once to binary32, saturating.

    The levels k are the rest of the payload, and none is above ``deepest``.
    """
    magnitudes = np.ldexp(float(factor), exponent + 1 - np.arange(1, deepest + 1))
    table = np.zeros(2 * deepest + 1)
    table[2::2], table[1::2] = magnitudes, -magnitudes
    values = np.clip(table, -LARGEST, LARGEST).astype(np.float32)
    section = reader.dense_levels()
    if section is not None:
        kernels.add_table_levels(section, out, values, weight)
        return
    zigzag = reader.levels(len(out))
    reader.end()
    if zigzag.max() >= len(values):
        raise MessageError(f"the message holds a level beyond {deepest}, the smallest that its codec has")
    kernels.add_table(out, zigzag, values, weight)
