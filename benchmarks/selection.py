"""Selection, random numbers, subsets and checksum against memcpy, torch and numpy.

One thread, one process, medians: memcpy is measured beside everything else, because the ratio to it carries over to
other machines and gigabytes a second do not. The bytes that count are those of the input (top) or output (random
numbers) or message (checksum); for subsets, which have no input, nanoseconds an index are told.

    python benchmarks/selection.py [--n 25000000] [--repeats 15] [--simd portable|avx2|avx512]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from gradwire import _core

SHARES = (0.001, 0.01, 0.1, 0.5)
MIB = 1 << 20


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()  # the first touch of memory is not what is measured
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=25_000_000, help="entries of the vector")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--simd", choices=("portable", "avx2", "avx512"), default=_core.simd())
    options = parser.parse_args()
    n = options.n
    torch.set_num_threads(1)
    _core.set_simd(options.simd)

    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    copy = np.empty_like(x)
    magnitudes = torch.from_numpy(x)
    bytes_of_x = x.view(np.uint8)

    memcpy = median_seconds(lambda: np.copyto(copy, x), options.repeats)
    copied = x.nbytes / memcpy
    print(f"n = {n:,}, instruction set {_core.simd()}, one thread, medians of {options.repeats}")
    print(f"{'':38}{'ms':>10}{'GB/s':>9}{'× memcpy':>10}")

    def row(name: str, seconds: float, nbytes: int, remark: str = "") -> None:
        speed = nbytes / seconds
        print(f"{name:38}{1e3 * seconds:10.3f}{speed / 1e9:9.2f}{speed / copied:10.2f}  {remark}".rstrip())

    row("memcpy", memcpy, x.nbytes)
    for share in SHARES:
        r = round(share * n)
        ours = median_seconds(lambda r=r: _core.top(x, r), options.repeats)
        theirs = median_seconds(lambda r=r: torch.topk(magnitudes.abs(), r), 3)
        numpys = median_seconds(lambda r=r: np.argpartition(np.abs(x), n - r), 3)
        row(f"top {share:.1%}", ours, x.nbytes, f"{theirs / ours:.0f} times as fast as torch.topk")
        row(f"torch.topk(|x|) {share:.1%}", theirs, x.nbytes)
        row(f"np.argpartition(|x|) {share:.1%}", numpys, x.nbytes)

    words = median_seconds(lambda: _core.philox_words(1, 2, 0, MIB), options.repeats)
    row("philox_words, 4 MiB", words, 4 * MIB)
    uniform = median_seconds(lambda: _core.uniform(1, 2, 0, MIB), options.repeats)
    row("uniform, 4 MiB", uniform, 4 * MIB)
    torchs = median_seconds(lambda: torch.rand(MIB), options.repeats)
    row("torch.rand, 4 MiB", torchs, 4 * MIB)
    for share in (0.001, 0.01, 0.5, 0.99):
        k = round(share * n)
        drawn = median_seconds(lambda k=k: _core.subset(1, 2, n, k), options.repeats)
        row(f"subset {share:.1%}", drawn, 4 * k, f"{1e9 * drawn / k:.2f} ns an index")
    row("torch.randperm", median_seconds(lambda: torch.randperm(n), 3), 8 * n)
    for size in (256, 64 * 1024, min(x.nbytes, 64 * MIB)):
        part = bytes_of_x[:size]
        calls = max(1, MIB // size)

        def checksums(part: np.ndarray = part, calls: int = calls) -> None:
            for _ in range(calls):
                _core.crc32c(part)

        row(f"crc32c of {size:,} bytes", median_seconds(checksums, options.repeats) / calls, size)


if __name__ == "__main__":
    main()
