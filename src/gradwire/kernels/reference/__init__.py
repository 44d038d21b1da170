"""The kernels in numpy: the readable oracle. Native code must give the same bytes."""

from gradwire.kernels.reference.buckets import bucket_squares
from gradwire.kernels.reference.checksum import crc32c, seal
from gradwire.kernels.reference.context_tables import (
    cost_contextual,
    count_contextual,
    decode_tables,
    dither_contexts,
    fit_tables,
    normalise_tables,
)
from gradwire.kernels.reference.contextual import decode_contextual, encode_contextual
from gradwire.kernels.reference.dithered import add_dithered, count_dithered, encode_dithered
from gradwire.kernels.reference.hadamard import hadamard, represent
from gradwire.kernels.reference.indices import decode_indices, encode_indices
from gradwire.kernels.reference.integers import decode_integers, encode_integers
from gradwire.kernels.reference.levels import (
    add_bucket_levels,
    add_levels,
    add_table_levels,
    dequantise,
    encode_divided_levels,
    encode_level_numbers,
    encode_levels,
    encode_summed_levels,
)
from gradwire.kernels.reference.natural import encode_powers, largest_power, round_natural
from gradwire.kernels.reference.quantise import extent, level_sums, quantise, sum_abs, sum_squares
from gradwire.kernels.reference.random import (
    child_seed,
    philox_words,
    subset,
    subset_values,
    take_subset,
    thin_entries,
    thin_taken,
    uniform,
)
from gradwire.kernels.reference.select import take_top, top, top_entries
from gradwire.kernels.reference.signs import add_signs, pack_signs
from gradwire.kernels.reference.spherical import SphericalBlocks, add_spherical, spherical_search, spherical_values
from gradwire.kernels.reference.spherical_code import decode_spherical, encode_spherical
from gradwire.kernels.reference.spreading import add_frames, encode_coefficients
from gradwire.kernels.reference.threshold import reaching_entries
from gradwire.kernels.reference.values import (
    add_dense,
    add_floats,
    add_sparse,
    decode_bfloat16,
    decode_float16,
    encode_bfloat16,
    encode_float16,
    find_nonfinite,
    gather,
    max_abs,
    put_sparse,
)

__all__ = [
    "SphericalBlocks",
    "add_bucket_levels",
    "add_dense",
    "add_dithered",
    "add_floats",
    "add_frames",
    "add_levels",
    "add_signs",
    "add_sparse",
    "add_spherical",
    "add_table_levels",
    "bucket_squares",
    "child_seed",
    "cost_contextual",
    "count_contextual",
    "count_dithered",
    "crc32c",
    "decode_bfloat16",
    "decode_contextual",
    "decode_float16",
    "decode_indices",
    "decode_integers",
    "decode_spherical",
    "decode_tables",
    "dequantise",
    "dither_contexts",
    "encode_bfloat16",
    "encode_coefficients",
    "encode_contextual",
    "encode_dithered",
    "encode_divided_levels",
    "encode_float16",
    "encode_indices",
    "encode_integers",
    "encode_level_numbers",
    "encode_levels",
    "encode_powers",
    "encode_spherical",
    "encode_summed_levels",
    "extent",
    "find_nonfinite",
    "fit_tables",
    "gather",
    "hadamard",
    "largest_power",
    "level_sums",
    "max_abs",
    "normalise_tables",
    "pack_signs",
    "philox_words",
    "put_sparse",
    "quantise",
    "reaching_entries",
    "represent",
    "round_natural",
    "seal",
    "spherical_search",
    "spherical_values",
    "subset",
    "subset_values",
    "sum_abs",
    "sum_squares",
    "take_subset",
    "take_top",
    "thin_entries",
    "thin_taken",
    "top",
    "top_entries",
    "uniform",
]
