"""What the ranks do in the tests of local updates. Every job is called as job(rank, world, …) on all ranks."""

import gc
import io
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.nn.functional import cross_entropy

import gradwire
from ddp_jobs import batch, fingerprint, net
from gradwire.torch import merge_states
from gradwire.torch.local import LocalUpdates

EVERY = 3
CODEC = "rtopk:k=0.1,r=0.4,values=sd(alpha=0.1)"


def normed(seed=0):
    """A model with batch norm, a mask with −inf, a frozen layer and a counter."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 32), nn.Linear(32, 5))
    model.register_buffer("mask", torch.full((2,), float("-inf")))
    model[3].requires_grad_(False)
    return model


def begin(topology, codec=CODEC, make=net, **settings):
    model = make()
    held = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(held, 3e-3)
    settings = {"every": EVERY, "small": 200, "seed": 5, "check_every": 1, "topology": topology} | settings
    return model, optimizer, LocalUpdates(model, optimizer, codec, **settings)


def one_step(rank, step, model, optimizer):
    x, y = batch(rank, step)
    optimizer.zero_grad()
    loss = cross_entropy(model(x).float(), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def train(rank, world, topology, steps, codec=CODEC, stop=None, folder=None):
    """Train; if `stop`, throw everything away at that step but what torch.save wrote, and go on from it."""
    model, optimizer, updates = begin(topology, codec)
    for step in range(steps):
        if step == stop:
            path = Path(folder) / f"rank{rank}.pt"
            torch.save([owner.state_dict() for owner in (model, optimizer, updates)], path)
            del model, optimizer, updates
            model, optimizer, updates = begin(topology, codec)
            saved = torch.load(path, weights_only=True)
            for owner, state in zip((model, optimizer, updates), saved, strict=True):
                owner.load_state_dict(state)
        one_step(rank, step, model, optimizer)
        assert updates.step() == ((step + 1) % EVERY == 0)
    part = updates.state_dict()[f"rank{rank}"]
    return fingerprint(model.parameters()), fingerprint(part["residuals"].values()), fingerprint([part["owned"]])


def against_definition(rank, world, topology):
    """Largest difference from DiLoCo written down plainly, with dense messages, over three rounds."""
    model, optimizer, updates = begin(topology, "identity")
    twin = net()
    inner = torch.optim.AdamW(twin.parameters(), 3e-3)
    start = [p.detach().clone().requires_grad_() for p in twin.parameters()]
    outer = torch.optim.SGD(start, lr=0.7, momentum=0.9, nesterov=True)
    for step in range(3 * EVERY):
        one_step(rank, step, model, optimizer)
        one_step(rank, step, twin, inner)
        if updates.step():
            for s, p in zip(start, twin.parameters(), strict=True):
                s.grad = s.detach() - p.detach()
                dist.all_reduce(s.grad)
                s.grad /= world
            outer.step()
            with torch.no_grad():
                for s, p in zip(start, twin.parameters(), strict=True):
                    p.copy_(s)
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def ahead_against_definition(rank, world, ahead, dtype):
    """Largest difference from the definition with top-k, by gather, over five rounds; and how far the rank moved."""
    model, optimizer, updates = begin("gather", "topk:k=0.05", make=lambda: net(dtype=dtype), ahead=ahead)
    twin = net(dtype=dtype)
    inner = torch.optim.AdamW(twin.parameters(), 3e-3)
    theta = [p.detach().float().clone().requires_grad_() for p in twin.parameters()]
    outer = torch.optim.SGD(theta, lr=0.7, momentum=0.9, nesterov=True)
    residuals = [torch.zeros_like(t) for t in theta]
    moved = 0.0
    for _ in range(5):
        begun = [(t.detach() - ahead * e).to(dtype) for t, e in zip(theta, residuals, strict=True)]
        for step in range(EVERY):
            for own, its in ((model, optimizer), (twin, inner)):
                x, y = batch(rank, step, dtype)
                its.zero_grad()
                cross_entropy(own(x).float(), y).backward()
                if own is twin and step == 0:
                    with torch.no_grad():
                        for p, start in zip(twin.parameters(), begun, strict=True):
                            moved = max(moved, (p - start).abs().max().item())
                            p.copy_(start)
                its.step()
            updates.step()
        for i, (t, p, start) in enumerate(zip(theta, twin.parameters(), begun, strict=True)):
            due = start.float() - p.detach().float() + residuals[i]
            sent = due
            if due.dim() >= 2 and due.numel() >= 200:
                message = gradwire.encode("topk:k=0.05", due.flatten(), 0)
                sent = torch.from_numpy(gradwire.decode(message, due.numel())).view_as(due)
            residuals[i] = due - sent
            t.grad = sent.clone()
            dist.all_reduce(t.grad)
            t.grad /= world
        outer.step()
        with torch.no_grad():
            for p, t in zip(twin.parameters(), theta, strict=True):
                p.copy_(t)
    pairs = zip((updates._start[name] for name, _ in twin.named_parameters()), theta, strict=True)
    return max((a - b).abs().max().item() for a, b in pairs), moved


def where_ranks_stand(rank, world):
    """Prints of the model after a round, after passes and a skipped step, and how far a step of rate 0 brings it."""
    model, optimizer, updates = begin("gather", "topk:k=0.05")
    for step in range(2 * EVERY):
        one_step(rank, step, model, optimizer)
        updates.step()
    prints = [fingerprint(model.parameters())]
    cross_entropy(model(batch(rank, 0)[0]), batch(rank, 0)[1]).backward()
    updates.step()  # as if a GradScaler had skipped the optimizer's
    prints.append(fingerprint(model.parameters()))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    ways = []
    for _ in range(2):  # within a round it moves once
        optimizer.step()
        ways.append(updates._way().abs().max().item())
        moved = max((p - updates._start[name]).abs().max().item() for name, p in model.named_parameters())
    return prints, ways, moved, 0.5 * updates._residual.sent.abs().max().item()


def compiled(rank, world):
    """Prints of the model after rounds ahead, its passes compiled and not."""
    prints = []
    for wrap in (lambda model: model, lambda model: torch.compile(model, backend="eager", fullgraph=True)):
        model, optimizer, updates = begin("gather", "topk:k=0.05")
        called = wrap(model)
        for step in range(3 * EVERY):
            one_step(rank, step, called, optimizer)
            updates.step()
        prints.append(fingerprint(model.parameters()))
    return prints


def without_feedback(rank, world):
    """Whether a rank that keeps no residual stays at θ, and one whose LocalUpdates are gone."""
    model, optimizer, updates = begin("gather", "randomk:k=0.5,scale=true", error_feedback=False)
    for step in range(EVERY):
        one_step(rank, step, model, optimizer)
        updates.step()
    stays = ends_where_it_began(rank, model, optimizer)
    model, optimizer, updates = begin("gather", "topk:k=0.05")
    for step in range(EVERY):
        one_step(rank, step, model, optimizer)
        updates.step()
    del updates
    gc.collect()
    return stays, ends_where_it_began(rank, model, optimizer)


def ends_where_it_began(rank, model, optimizer):
    """Whether a step of rate 0 leaves the model as it is."""
    before = fingerprint(model.parameters())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    one_step(rank, 0, model, optimizer)
    return fingerprint(model.parameters()) == before


def conserve(rank, world, topology, rounds):
    """With an outer optimizer that adds: moved so far, sent-side residual, owned residual, and own ways, flat."""
    model, optimizer, updates = begin(topology, "topk:k=0.05", outer=lambda p: torch.optim.SGD(p, lr=1.0))
    first = torch.cat([p.detach().flatten() for p in updates._start.values()])
    ways = torch.zeros(updates.weights.n, dtype=torch.float64)
    for step in range(rounds * EVERY):
        one_step(rank, step, model, optimizer)
        if updates.steps_in_round == EVERY - 1:
            with torch.no_grad():
                ways += updates._way().double()
        updates.step()
    moved = first.double() - torch.cat([p.detach().flatten() for p in updates._start.values()]).double()
    whole = torch.zeros(updates.weights.n)
    if topology == "sharded":
        at = 0
        for s in updates._topology.shards[rank]:
            s.of(whole).copy_(updates._residual.owned[at : at + s.stop - s.start])
            at += s.stop - s.start
    return moved.numpy(), updates._residual.sent.numpy(), whole.numpy(), ways.numpy()


def spoil(rank, world, topology):
    """A round in which the last rank's parameters become infinite, between good ones."""
    model, optimizer, updates = begin(topology, "topk:k=0.05")
    seen = {}
    for step in range(4 * EVERY):
        one_step(rank, step, model, optimizer)
        if step == 2 * EVERY - 1:
            seen["before"] = fingerprint([*updates._residual, *updates._start.values()])
            if rank == world - 1:
                with torch.no_grad():
                    model[2].weight[3, 4] = float("nan")
                optimizer.state[model[2].weight]["exp_avg"].fill_(float("nan"))
        updates.step()
        if step == 2 * EVERY - 1:
            seen["after"] = fingerprint([*updates._residual, *updates._start.values()])
            seen["model"] = all(torch.equal(p, updates._start[name]) for name, p in model.named_parameters())
            seen["state kept"] = len(optimizer.state) > 0
    finite = all(bool(p.isfinite().all()) for p in model.parameters())
    return seen, finite, updates.stats().skipped, updates.stats().rounds, fingerprint(model.parameters())


def buffers(rank, world, topology):
    """What became of batch norm's statistics, the mask, the counter and the frozen layer after one round."""
    model, optimizer, updates = begin(topology, "topk:k=0.05", make=normed)
    frozen = model[3].weight.clone()
    for step in range(EVERY):
        one_step(rank, step, model, optimizer)
        if step == EVERY - 1:
            own = model[1].running_mean.clone()
            if rank == 1:
                model[1].num_batches_tracked += 5
        updates.step()
    dist.all_reduce(own)
    close = torch.allclose(model[1].running_mean, own / world, rtol=0, atol=1e-6)
    masked = bool((model.mask == float("-inf")).all())
    untouched = torch.equal(model[3].weight, frozen)
    moved = fingerprint([*model.parameters(), model[1].running_mean, model[1].running_var])
    return close, masked, untouched, moved, model[1].num_batches_tracked.item()


def low_precision(rank, world, topology):
    """bf16 parameters: prints of the model, whether it is the rounded float32 start, and the type of the start."""
    model, optimizer, updates = begin(topology, "topk:k=0.1", make=lambda: net(dtype=torch.bfloat16))
    for step in range(2 * EVERY):
        x, y = batch(rank, step, torch.bfloat16)
        optimizer.zero_grad()
        cross_entropy(model(x).float(), y).backward()
        optimizer.step()
        updates.step()
    rounded = all(torch.equal(p, updates._start[name].bfloat16()) for name, p in model.named_parameters())
    return fingerprint(model.parameters()), rounded, {str(p.dtype) for p in updates._start.values()}


def learn(rank, world, topology, codec, steps):
    """Loss on one fixed batch a rank before and after."""
    model, optimizer, updates = begin(topology, codec, every=5)
    losses = []
    for step in range(steps):
        losses.append(one_step(rank, step % 4, model, optimizer))
        updates.step()
    return sum(losses[:4]), sum(losses[-4:]), fingerprint(model.parameters()), updates.stats()


def save_states(rank, world, topology, rounds, folder):
    """Train some rounds and save; the flat residual and the owned one as they are."""
    model, optimizer, updates = begin(topology, "topk:k=0.05")
    for step in range(rounds * EVERY):
        one_step(rank, step, model, optimizer)
        updates.step()
    torch.save(updates.state_dict(), Path(folder) / f"of{world}rank{rank}.pt")
    return fingerprint(model.parameters())


def load_states(rank, world, topology, old, folder, keep):
    """Load the states of `old` ranks: this rank's state then, a print of the model, and of a round trained on."""
    model, optimizer, updates = begin(topology, "topk:k=0.05")
    states = [torch.load(Path(folder) / f"of{old}rank{r}.pt", weights_only=True) for r in reversed(range(old))]
    updates.load_state_dict(merge_states(states), keep)
    residual = [vector.numpy().copy() for vector in updates._residual]
    loaded = fingerprint(model.parameters())
    for step in range(EVERY):
        one_step(rank, step, model, optimizer)
        updates.step()
    return residual, loaded, fingerprint(model.parameters())


def refuse(rank, world, what):
    """The error of a wrong argument, of ranks that differ, or of a state that does not fit."""
    odd = rank == 1
    try:
        if what == "model":
            LocalUpdates(net(seed=int(odd)), (m := net(), torch.optim.SGD(m.parameters(), 0.1))[1], CODEC, every=2)
        elif what == "replicas":
            begin("sharded", make=lambda: net(seed=int(odd)))
        elif what == "every":
            begin("sharded", every=2 + odd)
        elif what == "ahead":
            begin("sharded", ahead=0.25 * (1 + odd))
        elif what == "too far":
            begin("sharded", ahead=1.5)
        elif what == "codec":
            begin("sharded", "topk:k=0.1" if odd else "topk:k=0.2")
        elif what == "topology":
            begin("ring")
        elif what == "unbiased":
            begin("sharded", "randomk:k=0.1,scale=true")
        else:
            model, optimizer, updates = begin("sharded")
            one_step(rank, 0, model, optimizer)
            updates.step()
            state = updates.state_dict()
            part = state.pop(f"rank{rank}")
            if what == "rank":
                updates.load_state_dict(state | {f"rank{1 - rank}": part})
            elif what == "version":
                updates.load_state_dict(state | {"version": 1})
            elif what == "keep":
                updates.load_state_dict(state | {f"rank{rank}": part}, keep="all")
            elif what == "name":
                updates.load_state_dict(state | {f"rank{rank}": part | {"residuals": {"0.weight": torch.zeros(3)}}})
            elif what == "owned":
                updates.load_state_dict(state | {f"rank{rank}": part | {"owned": torch.zeros(0)}})
            elif what == "within":
                updates.load_state_dict(state | {"world_size": 1, "rank0": part})
            elif what == "missing":
                updates.load_state_dict(state | {"world_size": 3, "steps": 0, "rank0": part})
    except (gradwire.ParameterError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return None


def saved_state(rank, world):
    """Whether a state survives torch.save and weights_only, and the kinds of things that are in it."""
    model, optimizer, updates = begin("sharded")
    for step in range(EVERY + 1):
        one_step(rank, step, model, optimizer)
        updates.step()
    state, file = updates.state_dict(), io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    part = loaded[f"rank{rank}"]
    kinds = {type(value).__name__ for value in [*state.values(), *state[f"rank{rank}"].values()]}
    return kinds, sorted(part["residuals"]), loaded["steps"], loaded["round"]


def checkpointed(rank, world, topology, folder):
    """Whether a distributed checkpoint, made one file, gives each rank its own; and the error of a fresh dictionary."""
    model, optimizer, updates = begin(topology)
    for step in range(EVERY + 1):
        one_step(rank, step, model, optimizer)
        updates.step()
    dcp.save(updates.state_dict(), checkpoint_id=folder)
    file = Path(folder) / "all.pt"
    if rank == 0:
        dcp_to_torch_save(folder, file)
    dist.barrier()
    _, _, other = begin(topology)
    other.load_state_dict(torch.load(file, weights_only=True))
    same = everything(other) == everything(updates) and other.steps_in_round == 1
    _, _, fresh = begin(topology)
    state = fresh.state_dict()
    dcp.load(state, checkpoint_id=folder)
    try:
        fresh.load_state_dict(state)
    except gradwire.ParameterError as error:
        return same, str(error)
    return same, None


def everything(updates):
    """A print of all that is kept."""
    outer = [value for kept in updates.outer.state_dict()["state"].values() for value in kept.values()]
    return fingerprint([*updates._residual, *updates._start.values(), *updates._statistics.values(), *outer])
