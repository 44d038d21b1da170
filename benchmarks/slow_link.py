"""Whole training steps of two ranks over a slow link: dense, PyTorch's own hooks, and gradwire; and what it advises.

ResNet-18 for 32×32 images (11,173,962 parameters), small batches, one thread a rank: seconds a step, medians, and
megabytes that a rank sends a step as its network card counts them. Then `compress(when="pays")` says what it would do
there. PowerSGD gets one bucket, for with more of them it hangs on gloo. Needs Linux and root: it makes two network
namespaces and removes them.

    python benchmarks/slow_link.py [--batch 8] [--steps 10] [--ratio 100] [--links "100 Mbit/s"]
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from statistics import median

import torch
import torch.distributed as dist
from links import RATES, Link, sent_bytes
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy, relu
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

Model = DistributedDataParallel
TRIES = 3  # of asking for advice
BEFORE = 3  # steps that are not measured: buckets are built anew, PowerSGD starts, rooms are made


class Block(nn.Module):
    """Two 3×3 convolutions and what goes past them. Source: He et al., CVPR 2016."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        same = stride == 1 and inputs == outputs
        self.past = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = relu(self.norms[0](self.first(x)))
        return relu(self.norms[1](self.second(y)) + self.past(x))


def resnet18() -> nn.Module:
    """ResNet-18 with a 3×3 stem, for ten classes."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    widths = [64, 64, 128, 256, 512]
    for inputs, outputs in pairwise(widths):
        layers += [Block(inputs, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def powersgd(model: Model) -> None:
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def compressed(ratio: float, topology: str) -> Callable[[Model], object]:
    choices = {"topology": topology, "warm_up": 0, "when": "always", "say": None, "nmse_every": 0, "check_every": 0}
    return lambda model: gradwire.torch.compress(model, ratio, **choices)  # type: ignore[arg-type]


class Way:
    """A model of its own, and what a step of it costs."""

    def __init__(self, attach: Callable[[Model], object] | None, batch: int) -> None:
        cap = 100 if attach is powersgd else 25
        self.model = DistributedDataParallel(resnet18(), bucket_cap_mb=cap, broadcast_buffers=False)
        self.alone = attach is None
        if attach is not None:
            attach(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        generator = torch.Generator().manual_seed(dist.get_rank())
        self.x = torch.randn(batch, 3, 32, 32, generator=generator)
        self.y = torch.randint(10, (batch,), generator=generator)
        self.seconds: list[float] = []
        self.megabytes: list[float] = []

    def step(self) -> None:
        """From a barrier to the end on both ranks."""
        dist.barrier()
        begin, sent = time.perf_counter(), sent_bytes()
        with self.model.no_sync() if self.alone else nullcontext():
            self.optimizer.zero_grad()
            cross_entropy(self.model(self.x), self.y).backward()
            self.optimizer.step()
        dist.barrier()
        self.seconds.append(time.perf_counter() - begin)
        self.megabytes.append((sent_bytes() - sent) / 1e6)


def measure(batch: int, steps: int, ratio: float) -> None:
    """What each of the two ranks does; rank 0 prints a line of JSON for each way, and what is advised."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # DDP's argument has a new name in PyTorch 2.13
    dist.init_process_group("gloo")
    attach: dict[str, Callable[[Model], object] | None] = {
        "compute only": None,
        "dense DDP": lambda model: None,
        "fp16 hook": lambda model: model.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook),
        "PowerSGD rank 2": powersgd,
        "gradwire gather": compressed(ratio, "gather"),
        "gradwire sharded": compressed(ratio, "sharded"),
    }
    ways = {name: Way(hook, batch) for name, hook in attach.items()}
    for _ in range(BEFORE + steps):
        for way in ways.values():  # in turn, so that what else the machine does falls on all alike
            way.step()
    said: list[str] = []
    for _ in range(TRIES):
        gradwire.torch.compress(DistributedDataParallel(resnet18()), ratio, say=said.append)
    if dist.get_rank() == 0:
        for name, way in ways.items():
            print(json.dumps([name, median(way.seconds[BEFORE:]), median(way.megabytes[BEFORE:])]))
        print(json.dumps(said))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8, help="images a rank and step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ratio", type=float, default=100)
    parser.add_argument("--links", nargs="+", choices=RATES, default=list(RATES))
    options = parser.parse_args()
    if "RANK" in os.environ:
        return measure(options.batch, options.steps, options.ratio)
    print(f"{options.batch} images a rank, medians of {options.steps} steps, torch {torch.__version__}")
    arguments = ["--batch", str(options.batch), "--steps", str(options.steps), "--ratio", str(options.ratio)]
    with Link() as link:
        for name in options.links:
            link.shape(RATES[name])
            rows = [json.loads(line) for line in link.run(__file__, *arguments, seconds=300).splitlines()]
            print(f"\n{name:20}{'s a step':>10}{'above computing':>18}{'MB a step':>11}")
            for way, seconds, megabytes in rows[:-1]:
                print(f"{way:20}{seconds:10.3f}{seconds - rows[0][1]:18.3f}{megabytes:11.2f}")
            print("\n".join(rows[-1]))
    return None


if __name__ == "__main__":
    main()
