"""Data-parallel training with compressed gradients that can be killed at any time, and goes on with the same bits.

TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node=4 --max-restarts=2 \
    examples/torch/train.py --folder checkpoints
"""

import argparse
import hashlib
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch


def main():
    """Train with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="of the checkpoints; all ranks see the same one")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
    parser.add_argument("--codec", default="rtopk:k=0.02,r=0.06")
    parser.add_argument("--topology", default="sharded", choices=["gather", "sharded"])
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for a rank that does not come")
    dist.init_process_group("gloo")
    report = train(**vars(parser.parse_args()))
    if dist.get_rank() == 0:
        print(report)
    dist.destroy_process_group()


def train(folder, steps, every, codec, topology, patience):
    """Train on from the latest checkpoint; what there is to say at the end."""
    torch.manual_seed(0)
    teacher = nn.Linear(64, 10)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    # A run that may be resumed names its topology, and when="always": the speeds of the day must not change them.
    wait = timedelta(seconds=patience)
    hook = gradwire.torch.compress(
        model, codec=codec, topology=topology, when="always", timeout=wait, optimizer=optimizer
    )

    parts = {"model": model.module, "optimizer": optimizer, "hook": hook}
    first = load(folder, parts)
    for step in range(first, steps):
        x, y = batch(teacher, step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if (step + 1) % every == 0:
            save(folder, step + 1, parts)

    x, y = batch(teacher, steps)
    loss = nn.functional.cross_entropy(model.module(x), y)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    return f"steps {first} to {steps}: loss {loss.item():.4f}, parameters {digest.hexdigest()}"


def batch(teacher, step):
    """The samples of a step and rank: a function of these two numbers alone, so that a resumed run sees the same."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1000 * step + dist.get_rank()))
    return x, teacher(x).argmax(1)


def save(folder, step, parts):
    """Write what this rank needs to go on. A file under its final name is whole: it gets it when it is."""
    place = folder / f"step{step:06}-of-{dist.get_world_size()}-ranks"
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"rank{dist.get_rank():04}.pt"
    with file.with_suffix(".part").open("wb") as part:
        torch.save({name: owner.state_dict() for name, owner in parts.items()}, part)
        part.flush()
        os.fsync(part.fileno())
    file.with_suffix(".part").replace(file)


def load(folder, parts):
    """Go on from the latest step that all ranks have saved; its number, or 0 if there is none.

    There may be fewer or more ranks than there were: what those owed is shared out anew.
    """
    latest = [None]
    if dist.get_rank() == 0:
        whole = [p for p in folder.glob("step*") if len(list(p.glob("rank*.pt"))) == int(p.name.split("-")[2])]
        latest = [max(whole, default=None)]
    dist.broadcast_object_list(latest)  # the ranks must agree, also where one sees the folder later than another
    if latest[0] is None:
        return 0
    states = [torch.load(file, weights_only=True) for file in sorted(latest[0].glob("rank*.pt"))]
    parts["model"].load_state_dict(states[0]["model"])
    parts["optimizer"].load_state_dict(states[0]["optimizer"])
    parts["hook"].load_state_dict(gradwire.torch.merge_states([state["hook"] for state in states]))
    return int(latest[0].name[4:10])


if __name__ == "__main__":
    main()
