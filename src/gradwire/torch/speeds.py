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
from gradwire.torch.collectives import all_gather, gather_numbers

__all__ = ["measure"]

FEW, MANY = 1 << 14, 1 << 23  # bytes
ENOUGH = 0.02  # seconds: a transfer that takes so long tells the bandwidth
SAMPLE = 1 << 20  # entries


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

    def reduce(size: int) -> None:
        dist.all_reduce(torch.zeros(size // 4, device=device), group=dense)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    def gather(size: int) -> None:
        all_gather(torch.empty(world * size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8), group)

    def scatter(size: int) -> None:
        each = max(1, size // max(1, world - 1))
        sent = torch.zeros(world * each, dtype=torch.uint8)
        dist.all_to_all_single(torch.empty_like(sent), sent, group=group)

    lines = _line(reduce, group), _line(gather, group), _line(scatter, group)
    x = torch.from_numpy(gaussian(min(max(n, 1), SAMPLE)))
    message = gradwire.encode(codec, x, 0)
    residual = torch.zeros_like(x)
    encode = _agreed(_seconds(lambda: gradwire.encode(codec, residual + x, 0)), group)
    decode = _agreed(_seconds(lambda: gradwire.add(message, residual)), group)
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
