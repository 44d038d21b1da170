"""How fast the dithering codecs and Identity are, against memcpy of the same vector.

For every instruction set that this processor has: the medians of whole calls, ``gradwire.encode`` and ``gradwire.add``,
in turn with a copy of the input, and their speed as a share of the copy's. Time is that of the processor, so that other
programs disturb it little.

    python benchmarks/dithering.py [--n 25000000] [--repeats 9] [--heavy]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import gradwire
from gradwire import _core

LEVELS = ("portable", "avx2", "avx512")
CODECS = (
    "sd:nu=0.1",
    "sd:alpha=0.1",
    "sd:nu=0.1,rounding=stochastic",
    "sd:nu=0.1,rounding=shared",
    "identity:dtype=float32",
    "identity:dtype=float16",
    "identity:dtype=bfloat16",
)

Call = Callable[[], object]


def medians(calls: list[Call], repeats: int, clock: Callable[[], float]) -> list[float]:
    """Of each call; all take turns, so that what else the machine does falls on all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(repeats + 1):
        for call, mine in zip(calls, times, strict=True):
            begin = clock()
            call()
            if turn > 0:  # the first touch of memory is not what is measured
                mine.append(clock() - begin)
    return [float(np.median(mine)) for mine in times]


def numpy_dithering(x: np.ndarray, out: np.ndarray) -> list[Call]:
    """What numpy takes for the same levels, without a code: norm, rounding to int8; and scaled adding."""
    step = np.float32(2.0 * np.sqrt(0.1 / len(x) * float(np.dot(x, x))))
    levels = np.rint(x / step).astype(np.int8)

    def encode() -> object:
        largest, energy = np.abs(x).max(), np.dot(x, x)
        k = np.rint(x / np.float32(2.0 * np.sqrt(0.1 / len(x) * float(energy))))
        return largest, np.dot(x, k) / np.dot(k, k), k.astype(np.int8)

    def add() -> None:
        np.add(out, levels.astype(np.float32) * step, out=out)

    return [encode, add]


def print_level(level: str, x: np.ndarray, repeats: int) -> None:
    _core.set_simd(level)
    if _core.simd() != level:
        print(f"{level}: not on this processor")
        return
    out, copy = np.zeros_like(x), np.zeros_like(x)
    calls: list[Call] = [lambda: np.copyto(copy, x), *numpy_dithering(x, out)]
    names, bits = ["numpy, no code"], [8.0]
    for spec in CODECS:
        codec = gradwire.from_spec(spec)
        message = gradwire.encode(codec, x, 0)
        calls.append(lambda codec=codec: gradwire.encode(codec, x, 0))  # type: ignore[misc]
        calls.append(lambda message=message: gradwire.add(message, out, 0.5))  # type: ignore[misc]
        names.append(spec)
        bits.append(8 * len(message) / len(x))
    memcpy, *times = medians(calls, repeats, time.thread_time)
    print(f"{level}: memcpy {memcpy * 1e3:.2f} ms, {x.nbytes / memcpy / 1e9:.1f} GB/s")
    for i, name in enumerate(names):
        encode, add = times[2 * i : 2 * i + 2]
        print(
            f"  {name:32}{bits[i]:7.3f} bits  encode {encode * 1e3:8.2f} ms {memcpy / encode:6.3f}"
            f"   add {add * 1e3:8.2f} ms {memcpy / add:6.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=25_000_000, help="entries")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--heavy", action="store_true", help="entries of Student's t, 3 degrees, for Gaussian ones")
    parser.add_argument("--levels", nargs="*", default=list(LEVELS), choices=LEVELS)
    options = parser.parse_args()
    g = np.random.default_rng(0)
    x = g.standard_t(3, options.n).astype(np.float32) if options.heavy else g.standard_normal(options.n, np.float32)
    print(f"n = {options.n:,} float32; medians of {options.repeats} on one thread; speeds beside memcpy's")
    for level in options.levels:
        print_level(level, x, options.repeats)


if __name__ == "__main__":
    main()
