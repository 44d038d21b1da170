"""The kernels in numpy: the readable oracle. Native code must give the same bytes."""

from gradwire.kernels.reference.checksum import crc32c, seal
from gradwire.kernels.reference.indices import decode_indices, encode_indices
from gradwire.kernels.reference.integers import decode_integers, encode_integers
from gradwire.kernels.reference.levels import add_levels, dequantise, encode_levels
from gradwire.kernels.reference.quantise import level_sums, quantise, sum_abs, sum_squares
from gradwire.kernels.reference.random import child_seed, philox_words, subset, uniform
from gradwire.kernels.reference.select import top
from gradwire.kernels.reference.values import (
    add_dense,
    add_sparse,
    decode_bfloat16,
    decode_float16,
    encode_bfloat16,
    encode_float16,
    find_nonfinite,
    gather,
    max_abs,
)

__all__ = [
    "add_dense",
    "add_levels",
    "add_sparse",
    "child_seed",
    "crc32c",
    "decode_bfloat16",
    "decode_float16",
    "decode_indices",
    "decode_integers",
    "dequantise",
    "encode_bfloat16",
    "encode_float16",
    "encode_indices",
    "encode_integers",
    "encode_levels",
    "find_nonfinite",
    "gather",
    "level_sums",
    "max_abs",
    "philox_words",
    "quantise",
    "seal",
    "subset",
    "sum_abs",
    "sum_squares",
    "top",
    "uniform",
]
