"""What the ranks do to see that the hook fits the rest of DDP; called like the jobs of ddp_jobs."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn

import gradwire
from ddp_jobs import TOPK, attach, backward, batch, fingerprint, kept, net


def unused(rank, world):
    """Two steps of a model of which every rank leaves another layer out."""

    class Choice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(20, 40) for _ in range(world + 1))

        def forward(self, x):
            return self.layers[rank](x) + self.layers[(rank + 1) % world](x)

    torch.manual_seed(0)
    model, hook = attach(Choice(), TOPK, ddp={"find_unused_parameters": True})
    for step in range(2):
        model.zero_grad()
        model(batch(rank, step)[0]).square().sum().backward()
    nowhere_used = model.module.layers[world].weight.grad
    return (
        fingerprint(p.grad for layer in model.module.layers[:world] for p in layer.parameters()),
        nowhere_used is None or not nowhere_used.any(),
        hook.stats().total.steps,
    )


def tied(rank, world):
    """Two steps of an auto-encoder whose two weights are one; names of its residuals."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(20, 20, bias=False), nn.Linear(20, 20, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    torch.manual_seed(0)
    model, hook = attach(Tied(), TOPK)
    for step in range(2):
        model.zero_grad()
        model(batch(rank, step)[0]).square().sum().backward()
    return fingerprint(p.grad for p in model.parameters()), list(kept(hook)["residual"])


def accumulate(rank, world, parts):
    """Gradient of `parts` batches under no_sync and one more that synchronises."""
    model, hook = attach(net(), TOPK)
    for part in range(parts + 1):
        with model.no_sync() if part < parts else nullcontext():
            backward(model, rank, part)
    return fingerprint(p.grad for p in model.parameters()), hook.stats().total.steps


def uneven(rank, world, ahead):
    """Rank r has r + 2 batches: Join lets the early ranks shadow the late ones."""
    from torch.distributed.algorithms.join import Join

    module = net()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    settings = {"ahead": ahead, "optimizer": optimizer} if ahead else {}
    model, hook = attach(module, TOPK, check_every=1, **settings)
    with Join([model]):
        for step in range(rank + 2):
            optimizer.zero_grad()
            backward(model, rank, step)
            optimizer.step()
    return fingerprint(model.parameters()), hook.stats().total.steps


def channels_last(rank, world):
    """Gradients of a convolution in channels_last and in the usual layout, at full density."""
    torch.manual_seed(0)
    usual = nn.Conv2d(8, 16, 3)
    last = nn.Conv2d(8, 16, 3)
    last.load_state_dict(usual.state_dict())
    last = last.to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(rank))
    for module in (usual, last):
        model, _ = attach(module, "identity")
        model(x).square().sum().backward()
    return torch.allclose(usual.weight.grad, last.weight.grad, rtol=1e-4, atol=1e-4)


def compiled(rank, world):
    """torch.compile of the model around DDP leaves the hook as it is."""
    model, hook = attach(net(), TOPK, bucket_cap_mb=25)
    backward(torch.compile(model, backend="eager"), rank, 0)
    return fingerprint(p.grad for p in model.parameters()), hook.stats().total.steps


def alone(rank, world):
    """A group of one: each rank trains by itself; the gradient is what top-k leaves of its own."""
    groups = [dist.new_group([r]) for r in range(world)]
    model, hook = attach(net(), TOPK, ddp={"process_group": groups[rank]})
    twin = net()
    backward(model, rank, 0)
    backward(twin, rank, 0)
    same = []
    for name, p in twin.named_parameters():
        x, got = p.grad.flatten(), model.module.get_parameter(name).grad.flatten()
        if p.dim() == 2 and p.numel() >= 200:
            x = torch.from_numpy(gradwire.decode(gradwire.encode(TOPK, x, 0), x.numel()))
        same.append(torch.equal(x, got))
    return all(same), hook.stats().total.sent_bytes
