"""The entropy coder and index coding at every SIMD level, against the entropy, log2 C(n, k) and what others offer.

One thread, one process, medians; the levels and the rivals take turns, so that a busy machine disturbs all alike.
Whole codecs are measured by ``gradwire bench``; this is about the parts that they share.
Rivals are measured where they can be imported: zstandard (level 1, one byte a number) and constriction (ANS with the
numbers' own shares, which it does not send).

    python benchmarks/coding.py [--m 4194304] [--n 10000000] [--seconds 2]
"""

import argparse
import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire import _core
from gradwire.experiments.bench.timing import Turn, take_turns

LEVELS = ("portable", "avx2", "avx512")
SHARES = (0.001, 0.01, 0.1, 0.5)
Numbers = npt.NDArray[np.uint32]
Row = tuple[str, Turn, Turn, int]  # name, encode, decode, bytes


def medians(turns: list[Turn], seconds: float) -> list[float]:
    return [times.median for times in take_turns(turns, [], seconds)[0]]


def levels() -> list[str]:
    """Those that this processor has."""
    best = _core.simd()
    return list(LEVELS[: LEVELS.index(best) + 1])


def at_level(level: str, call: Callable[[], object]) -> Turn:
    return Turn(call, partial(_core.set_simd, level))


def gaussian_levels(m: int, deviation: float) -> Numbers:
    s = np.rint(np.random.default_rng(0).normal(0, deviation, m)).astype(np.int32)
    return ((s << 1) ^ (s >> 31)).view(np.uint32)


def entropy(v: Numbers) -> float:
    """Bits a number."""
    share = np.unique(v, return_counts=True)[1] / len(v)
    return float(-(share * np.log2(share)).sum())


def subset_bits(n: int, k: int) -> float:
    """log2 C(n, k)."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


def zstandard_row(v: Numbers) -> Row | str:
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        return "zstandard: not installed"
    if v.max() > 255:
        return "zstandard: only for numbers of one byte"
    symbols = v.astype(np.uint8).tobytes()
    encode = zstandard.ZstdCompressor(level=1).compress
    decode = zstandard.ZstdDecompressor().decompress
    message = encode(symbols)
    assert decode(message) == symbols
    return "zstandard 1", Turn(lambda: encode(symbols)), Turn(lambda: decode(message)), len(message)


def constriction_row(v: Numbers) -> Row | str:
    try:
        stream = importlib.import_module("constriction").stream
    except ImportError:
        return "constriction: not installed"
    symbols = v.astype(np.int32)
    model = stream.model.Categorical(np.bincount(v) / len(v), perfect=False)

    def encode() -> Any:
        coder = stream.stack.AnsCoder()
        coder.encode_reverse(symbols, model)
        return coder.get_compressed()

    message = encode()
    assert np.array_equal(stream.stack.AnsCoder(message).decode(model, len(v)), symbols)
    decode = Turn(lambda: stream.stack.AnsCoder(message).decode(model, len(v)))
    return "constriction", Turn(encode), decode, message.nbytes


def print_numbers(m: int, seconds: float) -> None:
    print(f"numbers: {m:,} levels of a Gaussian, zigzag; uint32 in and out; medians")
    print(f"{'deviation':>10} {'':14}{'bits':>8}{'entropy':>9}{'encode':>9}{'decode':>9}  million a second")
    for deviation in (0.3, 0.88, 4.0, 15.0):
        v = gaussian_levels(m, deviation)
        section = _core.encode_integers(v)
        assert np.array_equal(_core.decode_integers(section, m)[0], v)
        rows: list[Row] = [
            (
                level,
                at_level(level, lambda v=v: _core.encode_integers(v)),
                at_level(level, lambda section=section: _core.decode_integers(section, m)),
                len(section),
            )
            for level in levels()
        ]
        rivals = [zstandard_row(v), constriction_row(v)]
        rows += [rival for rival in rivals if not isinstance(rival, str)]
        times = medians([turn for row in rows for turn in row[1:3]], seconds)
        for i, (name, _, _, size) in enumerate(rows):
            encode, decode = times[2 * i : 2 * i + 2]
            print(
                f"{deviation:10} {name:14}{8 * size / m:8.4f}{entropy(v):9.4f}"
                f"{m / encode / 1e6:9.0f}{m / decode / 1e6:9.0f}"
            )
        for rival in rivals:
            if isinstance(rival, str):
                print(f"{deviation:10} {rival}")


def print_indices(n: int, seconds: float) -> None:
    print(f"\nindices: k of n = {n:,}, uniform; medians")
    print(f"{'k / n':>10} {'':14}{'bits an index':>14}{'log2 C(n,k)':>13}{'encode':>9}{'decode':>9}  million a second")
    for share in SHARES:
        k = round(share * n)
        indices = np.sort(np.random.default_rng(0).choice(n, k, replace=False)).astype(np.uint32)
        section = _core.encode_indices(indices, n)
        assert np.array_equal(_core.decode_indices(section, n, k)[0], indices)
        names = levels()
        turns: list[Turn] = []
        for level in names:
            turns.append(at_level(level, lambda indices=indices: _core.encode_indices(indices, n)))
            turns.append(at_level(level, lambda section=section, k=k: _core.decode_indices(section, n, k)))
        times = medians(turns, seconds)
        for i, level in enumerate(names):
            encode, decode = times[2 * i : 2 * i + 2]
            print(
                f"{share:10.1%} {level:14}{8 * len(section) / k:14.4f}{subset_bits(n, k) / k:13.4f}"
                f"{k / encode / 1e6:9.0f}{k / decode / 1e6:9.0f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--m", type=int, default=1 << 22, help="numbers")
    parser.add_argument("--n", type=int, default=10_000_000, help="entries that the indices are drawn from")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row of the tables")
    options = parser.parse_args()
    print_numbers(options.m, options.seconds)
    print_indices(options.n, options.seconds)


if __name__ == "__main__":
    main()
