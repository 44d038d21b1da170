"""What the ranks do in the tests of the hook's state. Every job is called as job(rank, world, …) on all ranks."""

import io
from pathlib import Path

import torch

import gradwire
from ddp_jobs import RTOPK, attach, backward, fingerprint, kept, net, residual_print
from gradwire.torch import merge_states


def begin(options):
    module = net()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    if "ahead" in options:
        options = options | {"optimizer": optimizer}
    model, hook = attach(module, **{"codec": RTOPK, "seed": 5} | options)
    return model, hook, optimizer


def advance(model, optimizer, rank, steps):
    for step in steps:
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()


def interrupt(rank, world, options, steps, stop, folder):
    """Train; if `stop`, throw everything away at that step but what torch.save wrote, and go on from it."""
    model, hook, optimizer = begin(options)
    if stop is not None:
        advance(model, optimizer, rank, range(stop))
        save(folder, rank, model, optimizer, hook)
        model, hook, optimizer = begin(options)
        saved = torch.load(Path(folder) / f"rank{rank}.pt", weights_only=True)
        for owner, state in zip((model.module, optimizer, hook), saved, strict=True):
            owner.load_state_dict(state)
    advance(model, optimizer, rank, range(stop or 0, steps))
    return fingerprint(model.parameters()), residual_print(hook), hook.state_dict()["step"]


def save(folder, rank, model, optimizer, hook):
    torch.save([model.module.state_dict(), optimizer.state_dict(), hook.state_dict()], Path(folder) / f"rank{rank}.pt")


def train_and_save(rank, world, options, steps, folder):
    """Train, save; what this rank keeps."""
    model, hook, optimizer = begin(options)
    advance(model, optimizer, rank, range(steps))
    save(folder, rank, model, optimizer, hook)
    return plain(kept(hook))


def load_merged(rank, world, options, old, folder, keep="sum", more=0):
    """Load what `old` ranks saved; what this rank keeps then, and whether the replicas agree after some more steps."""
    model, hook, optimizer = begin(options)
    saved = [torch.load(Path(folder) / f"rank{r}.pt", weights_only=True) for r in range(old)]
    model.module.load_state_dict(saved[0][0])
    optimizer.load_state_dict(saved[0][1])
    hook.load_state_dict(merge_states([state for _, _, state in saved]), keep=keep)
    begun = plain(kept(hook))
    step = hook.state_dict()["step"]
    advance(model, optimizer, rank, range(step, step + more))
    return begun, fingerprint(model.parameters())


def plain(part):
    """The part as numpy arrays, each buffer as one."""
    return {
        key: value.numpy() if key == "owned" else torch.cat([value[name] for name in sorted(value)]).numpy()
        for key, value in part.items()
    }


def saved_state(rank, world, options):
    """A state that went through torch.save and torch.load with weights_only, and what it was."""
    model, hook, optimizer = begin(options)
    advance(model, optimizer, rank, range(2))
    state = hook.state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    mine = f"rank{rank}"
    equal = all(torch.equal(loaded[mine]["residual"][name], r) for name, r in state[mine]["residual"].items())
    common = sorted(set(state) - {mine})
    return equal, common, {type(v).__name__ for v in state.values()}, sorted(state[mine]["residual"])


def foreign(rank, world, change):
    """The error that loading a changed state raises, and whether the hook kept what it had."""
    model, hook, optimizer = begin({})
    advance(model, optimizer, rank, range(2))
    before = residual_print(hook)
    state = hook.state_dict()
    mine = state.pop(f"rank{rank}")
    if change == "rank":
        state[f"rank{(rank + 1) % world}"] = mine
    elif change == "missing":
        state["world_size"] = 3
        state["rank0"] = mine
    else:
        state[f"rank{rank}"] = mine
        if change == "size":
            mine["residual"]["0.weight"] = torch.zeros(3)
        elif change == "variant":
            mine["velocity"] = mine["residual"]
        elif change == "topology":
            state["sharded"] = 1
        elif change == "owned":
            mine["owned"] = torch.zeros(5)
        else:
            state["version"] = 1
    try:
        hook.load_state_dict(state)
    except gradwire.ParameterError as error:
        return str(error), residual_print(hook) == before
    return None
