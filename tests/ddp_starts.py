"""What the ranks do in the tests of the one-line start and of what others get wrong; called as job(rank, world, …)."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from ddp_jobs import attach, backward, fingerprint, kept, net
from gradwire.advise import Line, Speeds
from gradwire.policy import gaussian
from gradwire.torch import compress, start

SLOW = Line(1e-3, 8e-8)  # 100 Mbit/s
FAST = Line(1e-6, 1e-12)


def bits(codec, n=20_000):
    return 8 * len(gradwire.encode(codec, gaussian(n), 0)) / n


def one_line(rank, world, link, choices):
    """What is said, what was chosen, and whether training works with it; on a link of a pretended speed."""
    said, line = [], SLOW if link == "slow" else FAST
    measure = start.measure
    if link != "real":
        start.measure = lambda codec, *_: Speeds(line, line, line, 5e-10, 2e-10, bits(codec))
    try:
        model = DistributedDataParallel(net())
        optimizer = getattr(torch.optim, choices.pop("optimizer", "SGD"))(model.parameters(), 0.1)
        given = {"optimizer": optimizer} if choices.pop("give", False) else {}
        hook = compress(model, say=said.append, **{"small": 200} | given | choices)
    finally:
        start.measure = measure
    for step in range(3):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    return {
        "said": said,
        "codec": str(hook.codec),
        "topology": hook.topology,
        "resting": hook.resting,
        "warm-up": hook.warm_up.steps,
        "ahead": hook.ahead,
        "steps": hook.stats().total.steps,
        "ratio": hook.stats().total.ratio,
        "end": fingerprint(model.parameters()),
        "state": sorted(key for key in hook.state_dict() if key != f"rank{rank}"),
    }


def resumed(rank, world, first, then):
    """Topology, and the steps counted, of a run that goes on over another link than it began on."""
    measure, seen = start.measure, []
    try:
        state = None
        for link in (first, then):
            line = SLOW if link == "slow" else FAST
            start.measure = lambda codec, *_, line=line: Speeds(line, line, line, 5e-10, 2e-10, bits(codec))
            model = DistributedDataParallel(net())
            hook = compress(model, say=None, small=200, resume=state)
            backward(model, rank, 0)
            state = hook.state_dict()
            seen.append((hook.resting, hook.topology, state["step"]))
    finally:
        start.measure = measure
    return seen


def resting_state(rank, world):
    """A state of a resting hook in one that works, and the error the other way round."""
    resting = gradwire.torch.DDPHook("topk:k=0.05")
    resting.rest()
    model, working = attach(net(), "topk:k=0.05")
    backward(model, rank, 0)
    working.load_state_dict(resting.state_dict())
    try:
        resting.load_state_dict(working.state_dict())
    except gradwire.ParameterError as error:
        return str(error)
    return None


def half_values(rank, world):
    """Gradients of 1e5 and 1e-8, sent as float16 values: how far they are off, relatively."""
    x = torch.zeros(1, 64)
    worst = []
    for size in (1e5, 1e-8):
        model, hook = attach(nn.Linear(64, 64, bias=False), "topk:k=0.5,values=float16")
        x[0, :32] = size
        model(x).sum().backward()
        due = torch.zeros(64, 64)
        due[:, :32] = size
        worst.append(float((model.module.weight.grad - due).abs().max() / size))
    return worst, hook.stats().total.skipped


class Awkward(nn.Module):
    """A convolution, a vocabulary of prime size, a layer that is never used, a scalar."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1009, 7)
        self.convolution = nn.Conv2d(7, 11, 3)
        self.unused = nn.Linear(31, 37)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, tokens):
        seen = self.words(tokens).permute(0, 3, 1, 2)
        return self.convolution(seen).mean(dim=(2, 3)) * self.scale


def awkward(rank, world, codec):
    """Three steps of it; the prints of its gradients, and names and sums of what is kept."""
    torch.manual_seed(0)
    model, hook = attach(Awkward(), codec, ddp={"find_unused_parameters": True})
    prints = []
    for step in range(3):
        model.zero_grad()
        tokens = torch.randint(1009, (4, 5, 5), generator=torch.Generator().manual_seed(10 * step + rank))
        model(tokens).square().sum().backward()
        prints.append(fingerprint(p.grad for p in model.parameters() if p.grad is not None))
    residual = kept(hook)["residual"]
    return prints, {name: bool(tensor.any()) for name, tensor in residual.items()}


def clipped(rank, world):
    """The norm of the gradients after clip_grad_norm_, which sees averages, the same on every rank."""
    model, _ = attach(net(), "topk:k=0.05")
    backward(model, rank, 0)
    before = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    after = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    return float(before), float(after)


def layers(rank, world):
    """The measurements of every layer, and those of all together."""
    model, hook = attach(net(), "topk:k=0.05")
    for step in range(3):
        backward(model, rank, step)
    return hook.stats(), {name: p.numel() for name, p in model.module.named_parameters()}, kept(hook)["residual"]
