"""What the hook must give, computed by one process from the formulas alone: every variant, topology and option."""

from math import sqrt

import torch
from torch.nn.functional import cross_entropy

import gradwire
from ddp_jobs import attach, backward, batch, kept, net
from gradwire import Rng
from gradwire.torch import EF21, MomentumCorrection
from gradwire.torch.units import owners

SMALL = 200
RATES = (0.1, 0.05, 0.025, 0.4)  # of the steps
SCALES = (2.0, 2.0, 8.0, 0.5)


class Scaler:
    """A loss scale that changes from step to step, with the interface of GradScaler."""

    def __init__(self):
        self.scale = 1.0

    def is_enabled(self):
        return True

    def get_scale(self):
        return self.scale


class Definition:
    """All ranks of one run. `wrong` takes a rule out, to show that the difference is seen."""

    def __init__(self, world, codec, variant, topology, units, clip, whole, scaled, ahead, wrong=None):
        self.ahead = ahead
        self.world, self.codec, self.variant, self.topology = world, gradwire.from_spec(codec), variant, topology
        self.units, self.clip, self.whole, self.scaled, self.wrong = units, clip, whole, scaled, wrong
        self.twins = [net() for _ in range(world)]
        named = dict(self.twins[0].named_parameters())
        self.index = {name: i for i, name in enumerate(named)}
        self.compressed = [name for name, p in named.items() if p.dim() > 1 and p.numel() >= SMALL]
        sizes = {name: named[name].numel() for name in self.compressed}
        self.groups = [self.compressed] if whole else [[name] for name in self.compressed]
        self.sizes = [sum(sizes[name] for name in group) for group in self.groups]
        self.kept = {
            (buffer, rank, u): torch.zeros(n)
            for buffer in ("residual", "velocity", "estimate", "mean", "owned")
            for rank in range(world)
            for u, n in enumerate(self.sizes)
        }

    def gradients(self, rank, step):
        twin = self.twins[rank]
        twin.zero_grad()
        self.move(rank, twin, self.ahead * (1.0 if self.units == "step" else RATES[step]))
        x, y = batch(rank, step)
        (cross_entropy(twin(x), y) * (SCALES[step] if self.scaled else 1)).backward()
        twin.load_state_dict(net().state_dict())
        return {name: p.grad.flatten().clone() for name, p in twin.named_parameters()}

    def move(self, rank, twin, factor):
        """Each rank ahead by its own residual."""
        if factor == 0 or self.wrong == "stays where it is":
            return
        for u, group in enumerate(self.groups):
            start = 0
            for name in group:
                p = twin.get_parameter(name).data
                e = self.kept["residual", rank, u][start : start + p.numel()].view_as(p)
                p.copy_(torch.sub(p, e, alpha=factor))
                start += p.numel()

    def encoded(self, rank, u, x):
        """p, and what follows for the buffers once C(p) is known."""
        at = {buffer: self.kept[buffer, rank, u] for buffer in ("residual", "velocity", "estimate")}
        if self.variant is False:
            return x, lambda sent: {}
        if isinstance(self.variant, EF21):
            return x - at["estimate"], lambda sent: {"estimate": at["estimate"] + sent}
        if isinstance(self.variant, MomentumCorrection):
            velocity = at["velocity"] * self.variant.momentum + x
            p = velocity + at["residual"]
            mask = self.variant.masking and self.wrong != "no masking"
            return p, lambda sent: {
                "residual": p - sent,
                "velocity": torch.where(sent != 0, 0.0, velocity) if mask else velocity,
            }
        decay = 1.0 if self.variant is True else self.variant.decay
        p = at["residual"] * decay + x
        return p, lambda sent: {"residual": x - sent if self.wrong == "residual of the gradient only" else p - sent}

    def step(self, step):
        """The gradients that every rank must get."""
        every = [self.gradients(rank, step) for rank in range(self.world)]
        scale = SCALES[step] if self.scaled else 1.0
        common = (RATES[step] if self.units == "step" else 1.0) / scale
        locals_ = []
        for rank in range(self.world):
            norm = sqrt(sum(float(g.double().norm()) ** 2 for g in every[rank].values())) / scale
            limit = self.clip / sqrt(self.world) if self.clip else norm
            locals_.append(limit / norm if norm > limit else 1.0)
        result = {}
        for name in self.index:
            if name not in self.compressed:
                result[name] = torch.zeros_like(every[0][name])
                for rank in range(self.world):
                    x = every[rank][name] * locals_[rank] if locals_[rank] != 1 else every[rank][name]
                    result[name] += x * torch.tensor(1.0 / self.world)
        for u, group in enumerate(self.groups):
            factors = [locals_[rank] * common for rank in range(self.world)]
            xs = [torch.cat([every[rank][name] for name in group]) for rank in range(self.world)]
            xs = [x * f if f != 1 else x for x, f in zip(xs, factors, strict=True)]
            mean = self.exchange(step, u, xs)
            if isinstance(self.variant, EF21):
                for rank in range(self.world):
                    self.kept["mean", rank, u] = self.kept["mean", rank, u] + mean
                mean = self.kept["mean", 0, u]
            if common != 1 and self.wrong != "mean in other units":
                mean = mean / common
            start = 0
            for name in group:
                result[name] = mean[start : start + every[0][name].numel()]
                start += every[0][name].numel()
        return result

    def exchange(self, step, u, xs):
        n, index = self.sizes[u], self.index[self.groups[u][0]] if not self.whole else 0
        shards = [(0, 0, n)] if self.topology == "gather" else []
        if self.topology == "sharded":
            shards = [(s.owner, s.start, s.stop) for s in owners(n, self.world, index)]
        summed, result = torch.zeros(n), torch.zeros(n)
        for rank in range(self.world):
            p, after = self.encoded(rank, u, xs[rank])
            draws = Rng(7).child(0 if self.wrong == "same draws" else rank).child(step).child(index)
            sent = torch.zeros(n)
            for owner, start, stop in shards:
                rng = draws if self.topology == "gather" else draws.child(2 * owner)
                message = gradwire.encode(self.codec, p[start:stop], rng)
                gradwire.add(message, sent[start:stop], 1.0)
                gradwire.add(message, summed[start:stop], 1.0 / self.world)
            for buffer, value in after(sent).items():
                self.kept[buffer, rank, u] = value
        if self.topology == "gather":
            return summed
        for owner, start, stop in shards:
            owned = self.kept["owned", owner, u]
            q = summed[start:stop] + (owned[start:stop] if self.variant is not False else 0)
            rng = Rng(7).child(owner).child(step).child(index).child(2 * owner + 1)
            gradwire.add(gradwire.encode(self.codec, q, rng), result[start:stop], 1.0)
            if self.variant is not False and self.wrong != "owner keeps nothing":
                owned[start:stop] = q - result[start:stop]
        return result


def against_definition(rank, world, options, wrong=None):
    """How many bytes of gradients and residuals differ between the hook and the definition, over four steps."""
    chosen = {"codec": "topk:k=0.05", "variant": True, "topology": "gather", "units": "gradient"}
    chosen |= {"clip": None, "whole": False, "scaled": False, "ahead": 0.0} | options
    definition = Definition(world, **chosen, wrong=wrong)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if chosen["units"] == "step" or chosen["ahead"] else None
    scaler = Scaler() if chosen["scaled"] else None
    model, hook = attach(
        model,
        chosen["codec"],
        seed=7,
        error_feedback=chosen["variant"],
        topology=chosen["topology"],
        units=chosen["units"],
        ahead=chosen["ahead"],
        optimizer=optimizer,
        scaler=scaler,
        clip=chosen["clip"],
        whole_model=chosen["whole"],
    )
    differing = 0
    for step in range(4):
        if optimizer:
            optimizer.param_groups[0]["lr"] = RATES[step]
        if scaler:
            scaler.scale = SCALES[step]
        model.zero_grad()
        backward(model, rank, step, scale=scaler.scale if scaler else 1.0)
        expected = definition.step(step)
        for name, p in model.module.named_parameters():
            differing += _differing(p.grad.flatten(), expected[name])
    part = kept(hook)
    for buffer in set(part) - {"owned"}:
        mine = torch.cat([part[buffer][name] for name in definition.compressed])
        due = torch.cat([definition.kept[buffer, rank, u] for u in range(len(definition.groups))])
        differing += _differing(mine, due)
    return differing


def _differing(a, b):
    return int((a.view(torch.uint8) != b.view(torch.uint8)).sum())
