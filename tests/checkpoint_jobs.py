"""What the ranks do in the tests of distributed checkpoints. Every job is called as job(rank, world, …)."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from ddp_jobs import RTOPK, attach, backward, fingerprint, kept, net, residual_print
from gradwire.torch.whole import WholeState


def begin(topology):
    model, hook = attach(net(), RTOPK, topology=topology)
    return model, hook, torch.optim.SGD(model.parameters(), 0.1)


def steps(rank, model, hook, optimizer, first, last):
    for step in range(first, last):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    return fingerprint(model.parameters()), residual_print(hook)


def owed(hook):
    """Everything that is kept, as one vector of all ranks' sum: what no change of their number may change."""
    part = kept(hook)
    residual = torch.cat([part["residual"][name] for name in sorted(part["residual"])]).double()
    owners = part["owned"].double().sum().reshape(1)
    both = torch.cat([residual, owners])
    dist.all_reduce(both)
    return both.numpy()


def save(rank, world, folder, topology):
    """Three steps, a distributed checkpoint, three more; what they end in, and what was owed at the checkpoint."""
    model, hook, optimizer = begin(topology)
    steps(rank, model, hook, optimizer, 0, 3)
    dcp.save({"model": model.module.state_dict(), "hook": hook.state_dict()}, checkpoint_id=folder)
    debt = owed(hook)
    return steps(rank, model, hook, optimizer, 3, 6), debt


def load(rank, world, folder, topology):
    """Load it at the same number of ranks, into the states of a new model and hook, and make the three steps."""
    model, hook, optimizer = begin(topology)
    state = {"model": model.module.state_dict(), "hook": hook.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    model.module.load_state_dict(state["model"])
    hook.load_state_dict(state["hook"])
    return steps(rank, model, hook, optimizer, 3, 6)


def load_elsewhere(rank, world, folder, topology):
    """Load it at another number of ranks, as the one file that PyTorch makes of it; what is owed, and a step."""
    file = Path(folder) / "whole.pt"
    if rank == 0:
        dcp_to_torch_save(folder, file)
    dist.barrier()
    state = torch.load(file, weights_only=True)
    model, hook, optimizer = begin(topology)
    model.module.load_state_dict(state["model"])
    hook.load_state_dict(state["hook"])
    debt, step = owed(hook), hook.state_dict()["step"]
    parameters, _ = steps(rank, model, hook, optimizer, 3, 4)
    return debt, step, parameters


def whole(rank, world, topology):
    """The keys of the state that each rank gets, and whether rank 0's has the residuals of all, to the bit."""
    model, hook, optimizer = begin(topology)
    steps(rank, model, hook, optimizer, 0, 2)
    state = WholeState(hook).state_dict()
    every = [None] * world
    dist.all_gather_object(every, kept(hook))
    same = rank > 0 or all(
        fingerprint(state[f"rank{r}"]["residual"].values()) == fingerprint(part["residual"].values())
        and torch.equal(state[f"rank{r}"]["owned"], part["owned"])
        for r, part in enumerate(every)
    )
    return sorted(state), same


def whole_without(rank, world, who):
    """The error of each rank when one does not take part."""
    _, hook, _ = begin("gather")
    state = WholeState(hook, timeout=timedelta(seconds=1))
    try:
        if rank != who:
            state.state_dict()
    except RuntimeError as error:
        return str(error)
    finally:
        dist.barrier()
    return None
