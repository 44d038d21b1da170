"""What the link between the ranks and this machine's codec can do, measured when training begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

import gradwire
from gradwire import Codec
from gradwire.advise import Line, Speeds
from gradwire.policy import gaussian
from gradwire.torch.collectives import gather_numbers
from gradwire.torch.exchange import READY, Exchange

__all__ = ["measure"]

FEW, MANY = 1 << 14, 1 << 23  # bytes
ENOUGH = 0.02  # seconds: a transfer that takes so long tells the bandwidth
DRAWN, SAMPLE = 1 << 20, 1 << 22  # entries; the sample is more than caches hold, as gradients are


def measure(codec: Codec, n: int, dense: dist.ProcessGroup, device: torch.device, group: dist.ProcessGroup) -> Speeds:
    """Measure all that the cost model asks for; collective. It takes some tenths of a second, on slow links a second.

    Args:
        codec: what would be sent.
        n: entries that would be compressed.
        dense: the group of the all-reduce that compression would replace.
        device: where gradients live.
        group: the gloo group that messages would travel on.
    """
    world = dist.get_world_size(group)
    exchange = Exchange(group)

    def reduce(size: int) -> None:
        dist.all_reduce(torch.zeros(size // 4, device=device), group=dense)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    def gather(size: int) -> None:
        exchange.to_all(0, 0, READY, bytes(size))

    def scatter(size: int) -> None:
        exchange.to_each(0, 0, READY, [bytes(max(1, size // max(1, world - 1)))] * world)

    lines = _line(reduce, group), _line(gather, group), _line(scatter, group)
    few = torch.from_numpy(gaussian(min(max(n, 1), DRAWN)))
    x = few.repeat(-(-min(max(n, 1), SAMPLE) // few.numel()))
    message = gradwire.encode(codec, x, 0)
    residual, vector, mean = torch.zeros_like(x), torch.empty_like(x), torch.empty_like(x)

    def own() -> None:
        """All passes over memory that a rank's own message costs: what is encoded, what is kept, what is delivered."""
        torch.add(residual, x, out=vector)
        left = gradwire.encode(codec, vector, 0)
        torch.add(residual, x, out=vector)
        gradwire.add(left, vector, -1.0)
        mean.zero_()

    encode = _agreed(_seconds(own), group)
    decode = _agreed(_seconds(lambda: gradwire.add(message, mean)), group)
    return Speeds(*lines, encode / x.numel(), decode / x.numel(), 8 * len(message) / x.numel())


def _line(run: Callable[[int], None], group: dist.ProcessGroup) -> Line:
    run(FEW)  # connections are made at their first use
    few = _agreed(_seconds(lambda: run(FEW)), group)
    size, seconds = FEW, few
    while seconds < ENOUGH and size < MANY:
        size *= 8
        seconds = _agreed(_seconds(lambda size=size: run(size)), group)  # type: ignore[misc]
    if size == FEW:
        return Line(0.0, few / FEW)
    return Line.through(FEW, few, size, seconds)


def _seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return median(times)


def _agreed(seconds: float, group: dist.ProcessGroup) -> float:
    """The time of the slowest rank, the same number on all ranks."""
    return max(row[0] for row in gather_numbers([round(1e9 * seconds)], group)) / 1e9
