"""What the ranks do to see what the hook costs the machine: memory, overlap, buffers, bytes."""

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_jobs import attach, backward, net
from gradwire.torch import DDPHook

WIDTH, DEPTH, CAP = 1024, 12, 8  # 12.6 million parameters, 50 MB; buckets of 8 MB


def peak(rank, world, settings):
    """Highest resident memory in a step, in bytes, with the hook (or without, settings None); code is not counted.

    How much of the libraries' files is resident is for the page cache to say, and differs by megabytes between runs.
    """
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)))
    model = DistributedDataParallel(model, bucket_cap_mb=CAP, gradient_as_bucket_view=True)
    hook = DDPHook(**settings).register(model) if settings else None
    x = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(rank))
    for step in range(4):
        if step == 3:
            dist.barrier()
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        model(x).square().mean().backward()
        for p in model.parameters():
            p.grad.zero_()
    status = Path("/proc/self/status").read_text()
    most, code = (1024 * int(status.split(f"{name}:")[1].split()[0]) for name in ("VmHWM", "RssFile"))
    return most - code, hook.stats().total.ratio if hook else 1.0


def overlap(rank, world, topology):
    """Whether the first bucket's messages had come while backward was still at the first layer."""
    model, hook = attach(net(), "topk:k=0.05", topology=topology)
    backward(model, rank, 0)  # DDP orders its buckets anew after the first step
    seen = []

    def wait(gradient):
        end = time.monotonic() + 10
        while not hook._steps._sent and time.monotonic() < end:
            time.sleep(0.001)
        seen.append(len(hook._steps._sent))
        return gradient

    model.module[0].register_forward_hook(lambda module, args, out: out.register_hook(wait) and None)
    backward(model, rank, 1)
    return seen[0], hook.stats().total.steps


def buffers(rank, world, topology):
    """Whether what is received lies in the same memory step after step, and whether scratch stays the same."""
    model, hook = attach(net(), "topk:k=0.05", topology=topology)
    seen = []
    for step in range(6):
        backward(model, rank, step)
        exchange, steps = hook._steps.topology.bytes, hook._steps
        places = {key: buffer.ctypes.data for key, buffer in exchange._received.items()}
        seen.append((places, steps._x._buffer.data_ptr(), steps._p._buffer.data_ptr(), exchange._sent.ctypes.data))
    return all(one == seen[3] for one in seen[3:])


def traffic(rank, world, topology, sizes):
    """Bytes that leave a rank in a step, in groups of the first 2, 4, … ranks."""
    sent = {}
    for size in sizes:
        group, own = (dist.new_group(list(range(size)), backend="gloo") for _ in range(2))
        if rank < size:
            torch.manual_seed(0)
            model = nn.Linear(512, 512, bias=False)
            model, hook = attach(model, "topk:k=0.05", 25, {"process_group": group}, topology=topology, group=own)
            for step in range(3):
                x = torch.randn(4, 512, generator=torch.Generator().manual_seed(10 * step + rank))
                model(x).square().sum().backward()
            sent[size] = hook.stats().steps[-1].sent_bytes
        dist.barrier()
    return sent


def prepared(rank, world):
    """Gradients with another hook's work before ours: halving them; and what the callback saw."""
    seen = []

    def halve(bucket):
        bucket.buffer().mul_(0.5)

    results = []
    for prepare in (None, halve):
        model, _ = attach(net(), "identity", prepare=prepare, callback=seen.append)
        backward(model, rank, 0)
        results.append([p.grad.clone() for p in model.parameters()])
    same = all(torch.equal(a * 0.5, b) for a, b in zip(*results, strict=True))
    return same, [step.step for step in seen], sorted(seen[0].layers)
