"""Messages between two ranks over a slow link: gloo's own collectives against `gradwire.torch.exchange`.

Seconds from a barrier to the end on both ranks, medians; the limit is the bytes of one rank over the rate, for a link
that carries both directions at once. Needs Linux and root: it makes two network namespaces and removes them.

    python benchmarks/exchange.py [--sizes 16000 450000 10000000] [--repeats 7] [--links "100 Mbit/s"]
"""

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from links import RATES, Link

from gradwire.torch.collectives import all_gather
from gradwire.torch.exchange import Exchange

HEADER = f"{'link':12}{'bytes':>12}{'limit':>10}{'all_gather':>12}{'to_all':>10}{'all_to_all':>12}{'to_each':>10}"


def ways(size: int) -> list[Callable[[], object]]:
    """All four ways to give the other rank `size` bytes and get as many."""
    rank = dist.get_rank()
    sent, received = torch.ones(size, dtype=torch.uint8), torch.empty(2 * size, dtype=torch.uint8)
    blob, lengths = bytes(size), [size if other != rank else 0 for other in range(2)]
    exchange = Exchange(dist.group.WORLD)

    def all_to_all() -> None:
        dist.all_to_all_single(received[:size], sent, lengths, lengths)

    return [
        lambda: all_gather(received, sent, dist.group.WORLD),
        lambda: exchange.to_all(0, 0, 0, blob),
        all_to_all,
        lambda: exchange.to_each(0, 0, 0, [blob if length else b"" for length in lengths]),
    ]


def measure(sizes: list[int], repeats: int) -> None:
    """What each of the two ranks does; rank 0 prints a line a size: milliseconds."""
    dist.init_process_group("gloo")
    for size in sizes:
        times: list[list[float]] = []
        for way in ways(size):
            times.append([])
            for turn in range(-2, repeats):  # connections and rooms are made in the first two
                dist.barrier()
                begin = time.perf_counter()
                way()
                dist.barrier()
                if turn >= 0:
                    times[-1].append(1e3 * (time.perf_counter() - begin))
        if dist.get_rank() == 0:
            print(size, *(median(mine) for mine in times), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16_000, 450_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--links", nargs="+", choices=RATES, default=list(RATES))
    options = parser.parse_args()
    if "RANK" in os.environ:
        return measure(options.sizes, options.repeats)
    print(f"milliseconds, medians of {options.repeats}, two ranks, one thread each, torch {torch.__version__}")
    print(HEADER)
    arguments = ["--sizes", *map(str, options.sizes), "--repeats", str(options.repeats)]
    with Link() as link:
        for name in options.links:
            link.shape(RATES[name])
            for line in link.run(__file__, *arguments, seconds=100).splitlines():
                size, gather, to_all, scatter, to_each = map(float, line.split())
                limit = f"{8e3 * size / RATES[name]:10.1f}" if RATES[name] else f"{'':10}"
                print(f"{name:12}{size:12.0f}{limit}{gather:12.1f}{to_all:10.1f}{scatter:12.1f}{to_each:10.1f}")
    return None


if __name__ == "__main__":
    main()
