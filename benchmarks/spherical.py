"""Spherical Compression: bits and draws against the theorem, and error.

Gaussian vectors; means over seeds. A message's bits are those of its bytes; "other" are the norms and heads, a block.
How fast it is tells ``gradwire bench``.

    python benchmarks/spherical.py [--n 100000] [--seeds 10]
"""

import argparse

import numpy as np

import gradwire
from gradwire.theory import log2_cap_probability

SETTINGS = ((0.5, 16), (0.25, 8), (0.1, 6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="entries of the vector")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()

    print(f"n = {options.n:,}, {options.seeds} seeds")
    print("alpha block   −log2 P   index   excess   other   bits/coord.  −log2 P/block   draws·P    NMSE")
    for alpha, block in SETTINGS:
        x = np.random.default_rng(0).standard_normal(options.n).astype(np.float32)
        codec = gradwire.Spherical(alpha, block)
        rows = []
        for seed in range(options.seeds):
            message = gradwire.encode(codec, x, seed)
            d = gradwire.inspect(message).details
            y = gradwire.decode(message, options.n).astype(np.float64)
            error = ((y - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum()
            index, other = d["index_bits"] / d["searched"], d["other_bits"] / d["blocks"]
            rows.append((index, other, 8 * len(message) / options.n, d["mean_draws"], error))
        index, other, bits, draws, error = np.mean(rows, axis=0)
        log_p = log2_cap_probability(alpha, block)
        print(
            f"{alpha:5} {block:5} {-log_p:9.3f} {index:7.3f} {index + log_p:8.3f} {other:7.3f} {bits:12.4f} "
            f"{-log_p / block:14.4f} {draws * 2**log_p:9.4f} {error:7.4f}"
        )


if __name__ == "__main__":
    main()
