"""What the ranks do in the tests of FSDP2. Every job is called as job(rank, world, …) on all ranks."""

import io
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.nn.functional import cross_entropy

import gradwire
from ddp_jobs import batch, fingerprint
from gradwire.torch import merge_states
from gradwire.torch.fsdp import FSDPHook

warnings.filterwarnings("ignore", module="torch.distributed")


def net(seed=0):
    """Layers whose rows do not divide by the ranks; the last one is never used."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(20, 63), nn.Tanh(), nn.Linear(63, 50), nn.Tanh(), nn.Linear(50, 5))


class WithUnused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = net()
        self.unused = nn.Parameter(torch.ones(30, 40))

    def forward(self, x):
        return self.used(x)


def sharded(make=net, seed=0, kind="1d", nested=True, **fsdp):
    model = make()
    world = dist.get_world_size()
    if kind == "1d":
        mesh, replicas = init_device_mesh("cpu", (world,)), None
    else:
        count = world if kind == "all replicas" else 2
        whole = init_device_mesh("cpu", (count, world // count), mesh_dim_names=("replicate", "shard"))
        mesh = whole if kind == "native" else whole["shard"]
        replicas = None if kind == "native" else whole["replicate"].get_group()
    if nested:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh, **fsdp)
    fully_shard(model, mesh=mesh, **fsdp)
    return model, replicas


def full(model):
    return [p.full_tensor().detach() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]


def backward(model, rank, step, poison=False):
    """Loss and gradients; `poison` makes those of the first layer infinite, which are reduced last."""
    x, y = batch(rank, step)

    def spoil(layer, args, output):
        output.register_hook(lambda gradient: gradient * float("inf"))

    handle = model[0].register_forward_hook(spoil) if poison else None
    loss = cross_entropy(model(x), y)
    if handle:
        handle.remove()
    loss.backward()
    return loss.item()


def attach(codec, kind="1d", **settings):
    model, replicas = sharded(kind=kind)
    return model, FSDPHook(codec, replicas=replicas, small=200, **settings).register(model)


def dense_gradients(rank, world, kind, nested, make, how):
    """Largest difference of the gradients with dense messages from those of FSDP itself, over two steps."""
    make = {"net": net, "unused": WithUnused}[make]
    fsdp = {
        "float32": {},
        "float16": {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float16)},
        "columns": {"shard_placement_fn": lambda p: Shard(1) if p.dim() == 2 and p.shape[1] % world == 0 else None},
    }[how]
    plain, _ = sharded(make, kind="1d", nested=nested, **fsdp)
    hooked, replicas = sharded(make, kind=kind, nested=nested, **fsdp)
    hook = FSDPHook("identity", replicas=replicas).register(hooked)
    worst, seen = 0.0, 0
    for step in range(2):
        for model in (plain, hooked):
            model.zero_grad()
            backward(model, rank, step)
        for a, b in zip(plain.parameters(), hooked.parameters(), strict=True):
            if a.grad is None:
                assert b.grad is None or not b.grad.full_tensor().any()
                continue
            seen += 1
            worst = max(worst, (a.grad.full_tensor() - b.grad.full_tensor()).abs().max().item())
    return worst, seen, hook.sent_bytes() > 0


def train(rank, world, codec, kind, steps, stop=None, poisoned=None):
    """Train with Adam; go on from saved states at `stop`; take a step with an infinite loss at `poisoned`."""
    model, hook = attach(codec, kind, seed=3)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    losses, skipped_well = [], None
    for step in range(steps):
        if step == stop:
            file = io.BytesIO()
            torch.save(hook.state_dict(), file)
            file.seek(0)
            parameters = model.state_dict()
            model, hook = attach(codec, kind, seed=3)
            model.load_state_dict(parameters)
            optimizer = torch.optim.SGD(model.parameters(), 0.2)
            hook.load_state_dict(torch.load(file, weights_only=True))
        if step == poisoned:
            before = residuals(hook)
            backward(model, rank, step, poison=rank == world - 1)
            nan = all(bool(p.grad.to_local().isnan().all()) for p in model.parameters())
            skipped_well = nan and residuals(hook) == before and hook.skipped == 1
            hook._step -= 1  # the draws of the step that is made again
        optimizer.zero_grad()
        losses.append(backward(model, rank, step % 8))
        optimizer.step()
    return fingerprint(full(model)), residuals(hook), sum(losses[:8]), sum(losses[-8:]), skipped_well


def residuals(hook):
    return fingerprint([vector for seat in hook._seats for vector in seat.residual])


def save(rank, world, kind, steps, folder):
    """Train some steps and save the hook's state and the whole model."""
    model, hook = attach("topk:k=0.05", kind, seed=3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    torch.save(hook.state_dict(), Path(folder) / f"rank{rank}of{world}.pt")


def load(rank, world, kind, old, keep, folder):
    """Load the states of `old` ranks; this rank's then, and a print of the model after two more steps."""
    model, hook = attach("topk:k=0.05", kind, seed=3)
    states = [torch.load(Path(folder) / f"rank{r}of{old}.pt", weights_only=True) for r in range(old)]
    hook.load_state_dict(merge_states(states), keep)
    state = hook.state_dict()
    numbers = {
        name: {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in kept.items()}
        for name, kept in state[f"rank{rank}"].items()
    }
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    return numbers, state["step"], fingerprint(full(model))


def checkpointed(rank, world, kind, folder):
    """Whether a distributed checkpoint of all ranks gives each its own state back, by way of a hook's fresh state."""
    model, hook = attach("topk:k=0.05", kind, seed=3)
    backward(model, rank, 0)
    before = residuals(hook)
    dcp.save({"hook": hook.state_dict()}, checkpoint_id=folder)
    _, fresh = attach("topk:k=0.05", kind, seed=3)
    state = {"hook": fresh.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    fresh.load_state_dict(state["hook"])
    return residuals(fresh) == before, residuals(hook) == before, fresh._step


def conserve(rank, world, steps):
    """What gradients were given and what residuals remain, both as means over the ranks, for a fixed model."""
    model, hook = attach("topk:k=0.05", seed=3)
    twin = net()
    given = [torch.zeros_like(p, dtype=torch.float64) for p in twin.parameters()]
    due = [torch.zeros_like(p, dtype=torch.float64) for p in twin.parameters()]
    for step in range(steps):
        model.zero_grad()
        backward(model, rank, step)
        twin.zero_grad()
        backward(twin, rank, step)
        for total, p in zip(given, model.parameters(), strict=True):
            total += p.grad.full_tensor().double()
        for total, p in zip(due, twin.parameters(), strict=True):
            total += p.grad.double()
    kept = []
    for name, p in twin.named_parameters():
        left = hook.state_dict()[f"rank{rank}"].get(name)
        kept.append(torch.zeros_like(p).double() if left is None else left["sent"].view(p.shape).double())
    worst = most = 0.0
    for total, one, left in zip(given, due, kept, strict=True):
        for tensor in (one, left):
            dist.all_reduce(tensor)
        worst = max(worst, (total + left / world - one / world).abs().max().item())
        most = max(most, left.abs().max().item())
    return worst, most


def traffic(rank, world):
    """Bytes that left this rank in one step, compressed and with dense messages."""
    seen = []
    for codec in ("topk:k=0.01", "identity"):
        model = nn.Linear(1000, 400)
        fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
        hook = FSDPHook(codec).register(model)
        model(torch.ones(1, 1000)).square().sum().backward()
        seen.append(hook.sent_bytes())
    return seen


def refuse(rank, world, what):
    """The error of what does not fit."""
    try:
        if what == "plain":
            FSDPHook("topk:k=0.1").register(net())
        elif what == "native":
            attach("topk:k=0.1", "native")
        elif what == "unbiased":
            attach("randomk:k=0.1,scale=true")
        elif what == "codec":
            attach("topk:k=0.1" if rank else "topk:k=0.2")
        elif what == "state":
            _, hook = attach("topk:k=0.1")
            state = hook.state_dict()
            state[f"rank{rank}"] = {"0.weight": state[f"rank{rank}"]["0.weight"]}
            hook.load_state_dict(state)
        elif what == "size":
            _, hook = attach("topk:k=0.1")
            state = hook.state_dict()
            state[f"rank{rank}"]["0.weight"]["sent"] = torch.zeros(3)
            hook.load_state_dict(state)
        elif what == "version":
            _, hook = attach("topk:k=0.1")
            hook.load_state_dict(hook.state_dict() | {"version": 1})
        elif what == "keep":
            _, hook = attach("topk:k=0.1")
            hook.load_state_dict(hook.state_dict(), keep="all")
        elif what == "parts":
            _, hook = attach("topk:k=0.1")
            hook.load_state_dict(hook.state_dict() | {"world_size": 2 * world})
        elif what == "kind":
            _, hook = attach("topk:k=0.1")
            _, other = attach("topk:k=0.1", "replicas")
            hook.load_state_dict(other.state_dict())
        elif what == "frozen":
            model, _ = attach("topk:k=0.1")
            model[2].weight.requires_grad_(False)
            backward(model, rank, 0)
        elif what == "factor":
            model, _ = attach("topk:k=0.1")
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.set_gradient_divide_factor(3.0)
            backward(model, rank, 0)
    except (gradwire.ParameterError, RuntimeError) as error:
        return str(error)
    return None
