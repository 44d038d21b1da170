"""What the ranks do to see where the parameters are with `ahead`; called like the jobs of ddp_jobs."""

import torch
from torch import nn

from ddp_jobs import TOPK, attach, backward, batch, fingerprint, kept, net


def begin(module=None, share=2.0, lr=0.25, momentum=0.9, **settings):
    module = module or net()
    optimizer = torch.optim.SGD(module.parameters(), lr, momentum=momentum)
    model, hook = attach(module, TOPK, ahead=share, optimizer=optimizer, **{"check_every": 1} | settings)
    return model, hook, optimizer


def places(rank, world):
    """In each of three steps: whether the parameters moved for forward and were back after backward; their print."""
    model, _, optimizer = begin()
    seen = []
    model.module.register_forward_hook(lambda *_: seen.append(fingerprint(model.parameters())))
    moved, back = [], []
    for step in range(3):
        optimizer.zero_grad()
        before = fingerprint(model.parameters())
        backward(model, rank, step)
        moved.append(seen[-1] != before)
        back.append(fingerprint(model.parameters()) == before)
        optimizer.step()
    return moved, back, fingerprint(model.parameters())


def in_storage_order(rank, world):
    """Whether a weight in channels_last, and one in bfloat16, move by exactly their residuals."""
    exact = []
    for weight in (nn.Conv2d(8, 16, 3).to(memory_format=torch.channels_last), nn.Conv2d(8, 16, 3).to(torch.bfloat16)):
        with torch.no_grad():
            weight.weight.copy_(torch.arange(8 * 16 * 9).view(16, 8, 3, 3) / 997)
            weight.bias.zero_()
        model, hook, optimizer = begin(weight, momentum=0.0)
        seen = []
        model.module.register_forward_hook(lambda module, *_, seen=seen: seen.append(module.weight.detach().clone()))
        x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(rank)).to(weight.weight.dtype)
        for _ in range(2):
            optimizer.zero_grad()
            own = weight.weight.detach().clone()
            residual = kept(hook)["residual"]["weight"]
            model(x).square().sum().backward()
            due = own.float() - 0.5 * residual.as_strided(own.size(), own.stride())
            exact.append(torch.equal(seen[-1], due.to(own.dtype)))
            optimizer.step()
        exact.append(not torch.equal(seen[-1], own))
    return exact


def looks_between(rank, world):
    """Between passes, evaluation and a state of the model see what is shared, and a loaded state stays."""
    model, hook, optimizer = begin()
    backward(model, rank, 0)
    optimizer.step()
    shared, seen = fingerprint(model.parameters()), []
    model.module.register_forward_hook(lambda *_: seen.append(fingerprint(model.parameters())))
    with model.no_sync():
        backward(model, rank, 1)
        backward(model, rank, 2)
    twice_ahead = seen[0] == seen[1] != shared
    model.eval()
    with torch.no_grad():
        model(batch(rank, 3)[0])
    model.train()
    evaluated = seen[-1] == shared
    backward(model, rank, 3)
    model(batch(rank, 4)[0])  # a forward pass without a backward
    away = fingerprint(model.parameters()) != shared
    model.module.load_state_dict(other := net(seed=1).state_dict())
    loaded = fingerprint(model.parameters()) == fingerprint(other.values())
    model(batch(rank, 4)[0])
    shared = fingerprint(other.values())
    away = away and fingerprint(model.parameters()) != shared
    stored = fingerprint(model.state_dict().values()) == shared
    return twice_ahead, evaluated, away, loaded, stored, hook.stats().total.steps


def skips(rank, world):
    """A step that one rank's infinity spoils: whether parameters and residuals stay, and the next one goes ahead."""
    model, hook, optimizer = begin()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    prints = []
    for step in range(3):
        optimizer.zero_grad()
        x, y = batch(rank, step)
        if step == 1 and rank == 0:
            x = x * float("inf")
        scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        prints.append((fingerprint(model.parameters()), fingerprint(kept(hook)["residual"].values())))
    return prints[0] == prints[1], prints[1] != prints[2], fingerprint(model.parameters())


def diverge(rank, world):
    """The check of the replicas looks at what they share, and sees a difference there."""
    model, _, optimizer = begin()
    for step in range(3):
        if step == 2 and rank == 1:
            with torch.no_grad():
                model.module[0].weight[0, 0] += 1
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()


def compiled(rank, world):
    """torch.compile of the model around DDP: the same bits as without."""
    prints = []
    for compile_model in (lambda model: model, lambda model: torch.compile(model, backend="eager")):
        model, _, optimizer = begin(bucket_cap_mb=25)
        called = compile_model(model)
        for step in range(2):
            optimizer.zero_grad()
            backward(called, rank, step)
            optimizer.step()
        prints.append(fingerprint(model.parameters()))
    return prints[0] == prints[1]
