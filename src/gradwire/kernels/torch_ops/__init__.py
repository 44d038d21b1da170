"""The kernels in torch operations, for vectors that are on an accelerator. Native code must give the same bytes.

What looks at every entry runs on the vector's device; what the host needs of it crosses packed (``crossing``), and is
entropy-coded there by the native code. docs/torch-backend.md tells what crosses, codec by codec.
"""

from gradwire.kernels.torch_ops.crossing import indices_up, on_host, to_host, zeros
from gradwire.kernels.torch_ops.hadamard import add_frames, hadamard, in_rows, put_rows, represent, take_rows
from gradwire.kernels.torch_ops.levels import (
    bucket_squares,
    divided,
    encode_levels,
    encode_summed_levels,
    extent,
    find_nonfinite,
    level_sums,
    max_abs,
    quantise,
    rounded,
    scaled,
    sum_abs,
    sum_squares,
    thinned,
)
from gradwire.kernels.torch_ops.natural import natural_levels
from gradwire.kernels.torch_ops.select import reaching, top
from gradwire.kernels.torch_ops.values import (
    add_dense,
    add_dequantised,
    add_floats,
    add_in_buckets,
    add_levels,
    add_signs,
    add_sparse,
    add_table,
    encode_bfloat16,
    encode_float16,
    gather,
    negative_bits,
)

__all__ = [
    "add_dense",
    "add_dequantised",
    "add_floats",
    "add_frames",
    "add_in_buckets",
    "add_levels",
    "add_signs",
    "add_sparse",
    "add_table",
    "bucket_squares",
    "divided",
    "encode_bfloat16",
    "encode_float16",
    "encode_levels",
    "encode_summed_levels",
    "extent",
    "find_nonfinite",
    "gather",
    "hadamard",
    "in_rows",
    "indices_up",
    "level_sums",
    "max_abs",
    "natural_levels",
    "negative_bits",
    "on_host",
    "put_rows",
    "quantise",
    "reaching",
    "represent",
    "rounded",
    "scaled",
    "sum_abs",
    "sum_squares",
    "take_rows",
    "thinned",
    "to_host",
    "top",
    "zeros",
]
