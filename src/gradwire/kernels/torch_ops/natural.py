"""Random rounding to powers of two (wire format 7.7, 7.8)."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradwire.kernels.torch_ops.crossing import CHUNK, numbers_down
from gradwire.kernels.torch_ops.random import philox_words

__all__ = ["natural_levels"]

BIAS = 150


def natural_levels(x: Tensor, lowest: int, seed: int, stream: int) -> tuple[npt.NDArray[np.uint32], int]:
    """Zigzag levels below the largest exponent, on the host, and that exponent.

    Example:
        >>> natural_levels(torch.tensor([0.0, -4, 3]), -149, 1, 0)
        (array([0, 1, 2], dtype=uint32), 2)
    """
    codes = torch.empty(len(x), dtype=torch.int32, device=x.device)
    for begin in range(0, len(x), CHUNK):
        chunk = x[begin : begin + CHUNK]
        codes[begin : begin + len(chunk)] = _codes(chunk, lowest, seed, stream, begin)
    largest = int(codes.max())
    if largest == 0:
        return np.zeros(len(x), np.uint32), 0
    levels = torch.where(codes == 0, 0, (largest | 1) + 1 - codes)
    return numbers_down(levels), (largest >> 1) - BIAS


def _codes(x: Tensor, lowest: int, seed: int, stream: int, begin: int) -> Tensor:
    """2·(exponent + 150) + (x < 0), or 0, of entries begin, begin + 1, … of a vector."""
    words = philox_words(seed, stream, begin, len(x), x.device)
    magnitude = x.abs()
    bits = magnitude.to(torch.float64).view(torch.int64)  # normal even where the binary32 is not
    mantissa = bits >> 29 & 0x7FFFFF
    up = mantissa + (words >> 9) >> 23
    code = (bits >> 52) - 1023 + BIAS + up
    u = (words >> 8).to(torch.float32) * 2.0**-24
    below = torch.where(u < magnitude * 2.0 ** min(-lowest, 126), lowest + BIAS, 0)
    code = torch.where(magnitude < 2.0**lowest, below, code)
    return torch.where(code == 0, 0, 2 * code + (x < 0)).to(torch.int32)
