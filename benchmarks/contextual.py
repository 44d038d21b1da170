"""Integers in context at every SIMD level, and what the universal dithered code makes of vectors of many kinds.

One thread; medians of calls that take turns, so that a busy machine disturbs all alike.

    python benchmarks/contextual.py [--m 4194304] [--n 100000] [--seconds 1]
"""

import argparse
import math

import numpy as np

import gradwire
from gradwire import _core
from gradwire.codecs.gaussian_tables import gaussian_tables
from gradwire.experiments.bench.timing import Turn, take_turns
from gradwire.theory.bounds import saving, universal_dithering_rate

LEVELS = ("portable", "avx2", "avx512")
OMEGAS = (1 / 9, 0.25, 1.0)


def print_speeds(m: int, seconds: float) -> None:
    print(f"{m:,} Gaussian levels in 16 contexts, uint32 in and out; medians, million a second")
    print(f"{'ω':>6} {'':10}{'bits':>8}{'rate':>8}{'contexts':>10}{'count':>8}{'encode':>8}{'decode':>8}")
    x = np.random.default_rng(0).standard_normal(m).astype(np.float32)
    for omega in OMEGAS:
        step = math.sqrt(12 * omega * _core.sum_squares(x) / m)
        v = _core.quantise(x, 1 / step, 2, 1, 0)
        contexts = _core.dither_contexts(1, 0, m, 4)
        tables = gaussian_tables(float(np.float32(math.sqrt(12 * omega / (1 + omega)))))
        section = _core.encode_contextual(v, contexts, tables)
        assert np.array_equal(_core.decode_contextual(section, contexts, tables)[0], v)
        strongest = _core.simd()
        for level in LEVELS[: LEVELS.index(strongest) + 1]:
            _core.set_simd(level)
            calls = (
                lambda: _core.dither_contexts(1, 0, m, 4),
                lambda v=v, c=contexts: _core.count_contextual(v, c),
                lambda v=v, c=contexts, t=tables: _core.encode_contextual(v, c, t),
                lambda s=section, c=contexts, t=tables: _core.decode_contextual(s, c, t),
            )
            speeds = [m / times.median / 1e6 for times in take_turns([Turn(call) for call in calls], [], seconds)[0]]
            columns = "".join(f"{speed:{width}.0f}" for speed, width in zip(speeds, (10, 8, 8, 8), strict=True))
            print(f"{omega:6.3f} {level:10}{8 * len(section) / m:8.4f}{universal_dithering_rate(omega):8.4f}{columns}")
        _core.set_simd(strongest)


def vectors(n: int) -> dict[str, np.ndarray]:
    g = np.random.default_rng(1)
    gaussian = g.standard_normal(n)
    return {
        "gaussian": gaussian,
        "laplace": g.laplace(size=n),
        "student-t 3": g.standard_t(3, n),
        "student-t 1.5": g.standard_t(1.5, n),
        "uniform": g.random(n) - 0.5,
        "10 % sparse": np.where(g.random(n) < 0.1, gaussian, 0),
        "constant": np.full(n, 0.1),
        "signs": np.sign(gaussian),
        "17 % zeros": np.where(g.random(n) < 0.17, 0, np.sign(gaussian)),
        "mid-points": np.floor(1.5 * gaussian) + 0.5,
        "one huge": np.where(np.arange(n) == 5, 1e4, gaussian),
        "0.03 % at 5.5": np.where(g.random(n) < 3e-4, 5.5, gaussian),
        "0.1 % at 5.5": np.where(g.random(n) < 1e-3, 5.5, gaussian),
    }


def print_messages(n: int, seeds: int = 5) -> None:
    print(f"\nmessages for {n:,} entries, means of {seeds}; saving = 32/((1 + ω)·bits)")
    print(f"{'ω':>6} {'':16}{'measured ω':>11}{'bits':>8}{'worst':>8}{'saving':>8}  model")
    for omega in OMEGAS:
        codec = gradwire.UniversalDithering(omega)
        for name, vector in vectors(n).items():
            x = vector.astype(np.float32)
            sizes, errors = [], []
            for seed in range(seeds):
                message = gradwire.encode(codec, x, seed)
                error = gradwire.decode(message, n).astype(np.float64) - x
                errors.append(error @ error / (x.astype(np.float64) @ x))
                sizes.append(8 * len(message) / n)
            model = gradwire.inspect(message).details["model"]
            bits = float(np.mean(sizes))
            print(
                f"{omega:6.3f} {name:16}{np.mean(errors):11.5f}{bits:8.4f}{max(sizes):8.4f}"
                f"{saving(omega, bits):8.2f}  {model}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--m", type=int, default=1 << 22, help="numbers to code")
    parser.add_argument("--n", type=int, default=100_000, help="entries of the vectors")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row of speeds")
    arguments = parser.parse_args()
    print_speeds(arguments.m, arguments.seconds)
    print_messages(arguments.n)


if __name__ == "__main__":
    main()
