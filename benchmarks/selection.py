"""Selection, random numbers, subsets and checksum against memcpy, torch and numpy.

One thread, one process, medians of calls that take turns with memcpy, because the ratio to it carries over to other
machines and gigabytes a second do not. The bytes that count are those of the input (top) or output (random numbers) or
message (checksum); for subsets, which have no input, nanoseconds an index are told. Whole codecs are measured by
``gradwire bench``; this is about the parts that they share.

    python benchmarks/selection.py [--n 25000000] [--seconds 2] [--simd portable|avx2|avx512]
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch

from gradwire import _core
from gradwire.experiments.bench.timing import Turn, take_turns

SHARES = (0.001, 0.01, 0.1, 0.5)
MIB = 1 << 20
Call = Callable[[], object]


def medians(calls: list[Call], rivals: list[Call], seconds: float) -> list[float]:
    """Of the calls, then of the rivals."""
    mine, others = take_turns([Turn(call) for call in calls], [Turn(call) for call in rivals], seconds)
    return [times.median for times in mine + others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=25_000_000, help="entries of the vector")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each group of rows")
    parser.add_argument("--simd", choices=("portable", "avx2", "avx512"), default=_core.simd())
    options = parser.parse_args()
    n, seconds = options.n, options.seconds
    torch.set_num_threads(1)
    _core.set_simd(options.simd)

    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    copy = np.empty_like(x)
    magnitudes = torch.from_numpy(x)
    bytes_of_x = x.view(np.uint8)

    def memcpy() -> None:
        np.copyto(copy, x)

    print(f"n = {n:,}, instruction set {_core.simd()}, one thread, medians")
    print(f"{'':38}{'ms':>10}{'GB/s':>9}{'× memcpy':>10}")

    def row(name: str, taken: float, copied: float, nbytes: int, remark: str = "") -> None:
        speed = nbytes / taken
        times = speed / (x.nbytes / copied)
        print(f"{name:38}{1e3 * taken:10.3f}{speed / 1e9:9.2f}{times:10.2f}  {remark}".rstrip())

    for share in SHARES:
        r = round(share * n)
        copied, ours, theirs, numpys = medians(
            [memcpy, lambda r=r: _core.top(x, r)],
            [lambda r=r: torch.topk(magnitudes.abs(), r), lambda r=r: np.argpartition(np.abs(x), n - r)],
            seconds,
        )
        row(f"top {share:.1%}", ours, copied, x.nbytes, f"{theirs / ours:.0f} times as fast as torch.topk")
        row(f"torch.topk(|x|) {share:.1%}", theirs, copied, x.nbytes)
        row(f"np.argpartition(|x|) {share:.1%}", numpys, copied, x.nbytes)

    residual, total = np.roll(x, 1), np.empty_like(x)
    k = round(0.01 * n)
    passes: dict[str, Call] = {
        "find_nonfinite": lambda: _core.find_nonfinite(x),
        "extent": lambda: _core.extent(x),
        "top_entries 1.0%": lambda: _core.top_entries(x, k),
        "reaching_entries 1.0%": lambda: _core.reaching_entries(x, 2.5758),
        "subset_values 1.0%": lambda: _core.subset_values(x, 1, 2, k),
        "take_top 1.0% of a sum": lambda: _core.take_top(x, residual, total, k),
        "take_top 1.0% of a sum, in place": lambda: _core.take_top(x, total, total, k),
        "take_subset 1.0% of a sum, in place": lambda: _core.take_subset(x, total, total, 1, 2, k),
    }
    copied, *taken = medians([memcpy, *passes.values()], [], seconds)
    for name, one in zip(passes, taken, strict=True):
        row(name, one, copied, x.nbytes)

    draws: dict[str, Call] = {
        "philox_words, 4 MiB": lambda: _core.philox_words(1, 2, 0, MIB),
        "uniform, 4 MiB": lambda: _core.uniform(1, 2, 0, MIB),
        "torch.rand, 4 MiB": lambda: torch.rand(MIB),
    }
    copied, *taken = medians([memcpy, *draws.values()], [], seconds)
    for name, one in zip(draws, taken, strict=True):
        row(name, one, copied, 4 * MIB)

    counts = {share: round(share * n) for share in (0.001, 0.01, 0.5, 0.99)}
    copied, *taken = medians(
        [memcpy, *(lambda k=k: _core.subset(1, 2, n, k) for k in counts.values())],
        [lambda: torch.randperm(n)],
        seconds,
    )
    for (share, k), one in zip(counts.items(), taken[:-1], strict=True):
        row(f"subset {share:.1%}", one, copied, 4 * k, f"{1e9 * one / k:.2f} ns an index")
    row("torch.randperm", taken[-1], copied, 8 * n)

    sizes = (256, 64 * 1024, min(x.nbytes, 64 * MIB))
    copied, *taken = medians([memcpy, *(lambda s=s: _core.crc32c(bytes_of_x[:s]) for s in sizes)], [], seconds)
    for size, one in zip(sizes, taken, strict=True):
        row(f"crc32c of {size:,} bytes", one, copied, size)


if __name__ == "__main__":
    main()
