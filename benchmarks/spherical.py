"""Spherical Compression: bits and draws against the theorem, error, and speed on each instruction set.

Gaussian vectors; means over seeds; speeds are those of the best of the repeats. A message's bits are those of its
bytes; "other" are the norms and heads, a block.

    python benchmarks/spherical.py [--n 100000] [--seeds 10] [--repeats 7]
"""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np

import gradwire
from gradwire import _core
from gradwire.theory import log2_cap_probability

SETTINGS = ((0.5, 16), (0.25, 8), (0.1, 6))


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="entries of the vector")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
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

    print("\nmillion entries a second       encode, 1 thread   encode, 2 threads   decode")
    before = os.environ.get("OMP_NUM_THREADS")
    for alpha, block in SETTINGS:
        x = np.random.default_rng(0).standard_normal(options.n).astype(np.float32)
        codec = gradwire.Spherical(alpha, block)
        message = gradwire.encode(codec, x, 0)
        for level in ("portable", "avx2", "avx512"):
            _core.set_simd(level)
            if _core.simd() != level:
                continue
            speeds = []
            for threads in (1, 2):
                os.environ["OMP_NUM_THREADS"] = str(threads)
                speeds.append(best_seconds(lambda c=codec, x=x: gradwire.encode(c, x, 0), options.repeats))
            speeds.append(best_seconds(lambda m=message: gradwire.decode(m, options.n), options.repeats))
            shown = "".join(f"{options.n / s / 1e6:19.1f}" for s in speeds)
            print(f"alpha {alpha:4}, block {block:2}, {level:8}{shown}")
    if before is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = before


if __name__ == "__main__":
    main()
