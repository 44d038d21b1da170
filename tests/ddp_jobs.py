"""What the ranks do in the tests of the hook. Every job is called as job(rank, world, …) on all ranks."""

import hashlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.torch import DDPHook
from gradwire.torch.exchange import Exchange
from gradwire.torch.shards import pack, unpack

MANY_BUCKETS = 0.0005  # MB: every layer of `net` is a bucket of its own
TOPK, RTOPK = "topk:k=0.05", "rtopk:k=0.05,r=0.2"


class WithScalar(nn.Module):
    """A weight matrix and a 0-d parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return x @ self.weight * self.scale


def net(seed=0, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 5)
        ).to(dtype)


def batch(rank, step, dtype=torch.float32):
    g = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 20, generator=g).to(dtype), torch.randint(5, (8,), generator=g)


def fingerprint(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def kept(hook):
    """This rank's part of the hook's state."""
    return hook.state_dict()[f"rank{dist.get_rank()}"]


def residual_print(hook):
    """Print of all that the rank keeps."""
    part = kept(hook)
    buffers = [part[key][name] for key in sorted(part) if key != "owned" for name in sorted(part[key])]
    return fingerprint([*buffers, part["owned"]])


def attach(model, codec, bucket_cap_mb=MANY_BUCKETS, ddp=None, **settings):
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb, **(ddp or {}))
    return ddp_model, DDPHook(codec, small=200, nmse_every=1, **settings).register(ddp_model)


def backward(model, rank, step, dtype=torch.float32, scale=1.0):
    x, y = batch(rank, step, dtype)
    loss = cross_entropy(model(x).float(), y) * scale
    loss.backward()
    return loss


def train(rank, world, codec, steps, bucket_cap_mb=MANY_BUCKETS, seed=0, topology="gather"):
    """Prints of parameters and residuals after some steps of momentum SGD."""
    model, hook = attach(net(), codec, bucket_cap_mb, seed=seed, topology=topology, check_every=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    return fingerprint(model.parameters()), residual_print(hook)


def train_plain(rank, world, steps, codec=None):
    """Parameters after some steps, with the hook or with DDP's own all-reduce."""
    model = DistributedDataParallel(net())
    if codec:
        DDPHook(codec).register(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def half_precision(rank, world, dtype_name):
    """How many bytes of the gradients of a half-precision model differ from float32 sums, rounded once at the end."""
    dtype = getattr(torch, dtype_name)
    codec = gradwire.from_spec(TOPK)
    model, _ = attach(net(dtype=dtype), codec, seed=7)
    twins = [net(dtype=dtype) for _ in range(world)]
    named = dict(twins[0].named_parameters())
    residual = {(r, name): torch.zeros(p.numel()) for r in range(world) for name, p in named.items()}
    differing = 0
    for step in range(4):
        model.zero_grad()
        backward(model, rank, step, dtype)
        due = {name: torch.zeros(p.numel()) for name, p in named.items()}
        for r, twin in enumerate(twins):
            twin.zero_grad()
            backward(twin, r, step, dtype)
            for name, p in twin.named_parameters():
                total = p.grad.flatten().float() + residual[r, name]
                sent = total
                if p.dim() > 1 and p.numel() >= 200:
                    sent = torch.from_numpy(gradwire.decode(gradwire.encode(codec, total, 0), total.numel()))
                    residual[r, name] = total - sent
                due[name] += sent * torch.tensor(1.0 / world)
        for name, p in model.module.named_parameters():
            differing += int((p.grad.flatten().view(torch.uint8) != due[name].to(dtype).view(torch.uint8)).sum())
    return differing


def poison(rank, world, where, who):
    """A step with an infinite gradient at parameter `where` on rank `who`, between good ones."""
    model, hook = attach(net(), TOPK)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    poisoned = False

    def infinite(gradient):
        return torch.full_like(gradient, float("inf")) if poisoned and rank == who else gradient

    list(model.parameters())[where].register_hook(infinite)
    seen = {}
    for step in range(6):
        for poisoned in (True, False) if step == 3 else (False,):
            if poisoned:
                seen["residuals before"] = residual_print(hook)
            optimizer.zero_grad()
            backward(model, rank, step)
            finite = all(bool(p.grad.isfinite().all()) for p in model.parameters())
            if poisoned:
                seen["residuals after"] = residual_print(hook)
                seen["finite after"] = finite
            elif not finite:
                raise AssertionError(f"step {step} is not finite although no gradient was infinite")
            if finite:
                optimizer.step()
    total = hook.stats().total
    seen |= {"end": (fingerprint(model.parameters()), residual_print(hook)), "skipped": total.skipped}
    return seen | {"steps": total.steps, "bits": total.bits_per_coordinate}


def with_scaler(rank, world):
    """GradScaler from a scale that overflows float16 gradients: skipped steps, then good ones."""
    model, hook = attach(net(), TOPK)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        x, y = batch(rank, 0)
        with torch.autocast("cpu", torch.float16):
            loss = cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler.get_scale(), hook.stats().total.skipped, fingerprint(model.parameters())


def zero_layer(rank, world, codec):
    """A layer whose gradient is all zero on every rank."""
    model, hook = attach(net(), codec)
    list(model.parameters())[2].register_hook(torch.zeros_like)
    gradients = []
    for step in range(3):
        model.zero_grad()
        backward(model, rank, step)
        gradients.append([p.grad.clone() for p in model.parameters()])
    zero = all(not step[2].any() for step in gradients)
    finite = all(bool(g.isfinite().all()) for step in gradients for g in step)
    return zero, finite, hook.stats().total.nmse


def bucket_count(rank, world, bucket_cap_mb):
    """How many buckets DDP makes, in the first step and in the second."""
    model, hook = attach(net(), TOPK, bucket_cap_mb)
    seen, take = [], hook._steps.take
    hook._steps.take = lambda bucket: (seen.append(bucket.index), take(bucket))
    counts = []
    for step in range(2):
        backward(model, rank, step)
        counts.append(len(seen) - sum(counts))
    return counts


def scalar_parameter(rank, world):
    """Gradients of a model with a 0-d parameter, and of the same model without the hook."""
    torch.manual_seed(3)
    hooked, plain = WithScalar(), WithScalar()
    plain.load_state_dict(hooked.state_dict())
    model, _ = attach(hooked, "topk:k=0.999999")
    x = batch(rank, 0)[0].repeat(1, 4)[:, :64]
    model(x).square().sum().backward()
    averaged = DistributedDataParallel(plain)
    averaged(x).square().sum().backward()
    return [
        (tuple(a.grad.shape), torch.allclose(a.grad, b.grad, rtol=1e-4))
        for a, b in zip(hooked.parameters(), plain.parameters(), strict=True)
    ]


def differ(rank, world, what):
    """The error at registration when rank 1 differs from the others."""
    odd = rank == 1
    model = net()
    if what == "names" and odd:
        model = nn.Sequential(*model)
        model.add_module("6", nn.Identity())
        model.add_module("renamed", net()[6])
    settings = {"seed": 1} if what == "seed" and odd else {}
    codec = RTOPK if what == "codec" and odd else TOPK
    try:
        attach(model, codec, **settings)
    except gradwire.ParameterError as error:
        return str(error)
    return None


def refuse(rank, world, codec, settings):
    """The error that registering this codec raises."""
    try:
        attach(net(), codec, **settings)
    except gradwire.ParameterError as error:
        return str(error)
    return None


def one_fails(rank, world):
    """The error of each rank when the last one cannot encode."""
    model, hook = attach(net(), TOPK)
    if rank == world - 1:
        hook._steps._encode = lambda *_: 1 // 0
    try:
        backward(model, rank, 0)
    except RuntimeError as error:
        return str(error)
    return None


def counted(rank, world, codec, steps):
    """Bytes as the hook counts them, and as the kernel counts what this process wrote, over some steps."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(2000, 400)
    model, hook = attach(model, codec, bucket_cap_mb=25)

    def once(step):
        x = torch.randn(4, 2000, generator=torch.Generator().manual_seed(100 * rank + step))
        model(x).square().sum().backward()

    once(0)
    dist.barrier()
    before, written = hook.stats().total, _written()
    for step in range(1, steps + 1):
        once(step)
    written = _written() - written
    dist.barrier()
    after = hook.stats().total
    return after.sent_bytes - before.sent_bytes, written, after.message_bytes - before.message_bytes


def _written():
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


def global_generators(rank, world):
    """Whether a step leaves PyTorch's and numpy's generators as they were."""
    import numpy as np

    model, _ = attach(net(), RTOPK)
    torch.manual_seed(1)
    np.random.seed(1)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    backward(model, rank, 0)
    return torch.equal(state, torch.get_rng_state()) and (numpy_state == np.random.get_state()[1]).all().item()


def first_step(rank, world, codec):
    """How many times smaller than float32 the messages of the very first step are."""
    model, hook = attach(nn.Linear(2000, 400), codec, bucket_cap_mb=25)
    model(torch.ones(2, 2000)).square().sum().backward()
    return hook.stats().steps[0].ratio


def varying(rank, world, sizes):
    """Blobs whose lengths jump from step to step; whether all came as they were, and the bytes counted."""
    exchange, good, counted = Exchange(dist.new_group(backend="gloo")), True, []

    def messages(r, step):
        return [bytes([r, step, part]) * (sizes[step] * (r + 1)) for part in range(2)]

    for step in range(len(sizes)):
        before = exchange.sent_bytes
        blobs = exchange.to_all(step, 0, 0, pack(messages(rank, step)))
        good = good and [[bytes(m) for m in unpack(blob, 2)] for blob in blobs] == [
            messages(r, step) for r in range(world)
        ]
        counted.append(exchange.sent_bytes - before)
    return good, counted


def diverge(rank, world, topology):
    """Steps until the check finds that the last rank's parameters are another bit, and what it says."""
    model, _ = attach(net(), TOPK, topology=topology, check_every=3)
    for step in range(6):
        try:
            backward(model, rank, step)
        except RuntimeError as error:
            return step, str(error)
        if step == 1 and rank == world - 1:
            with torch.no_grad():
                model.module[4].weight[3, 5] *= 1.0000001
    return None


def at_another_step(rank, world):
    """The error of each rank when one of them has counted a step more."""
    model, hook = attach(net(), TOPK)
    if rank == 1:
        hook.load_state_dict({**hook.state_dict(), "step": 5})
    try:
        backward(model, rank, 0)
    except RuntimeError as error:
        return str(error)
    return None


def die(rank, world, who):
    """One rank leaves in the middle of training; the others must not hang."""
    import os

    model, _ = attach(net(), TOPK)
    for step in range(3):
        if rank == who and step == 2:
            os._exit(7)
        backward(model, rank, step)
