"""The variants of error feedback: what is encoded, and what a rank keeps of it.

Each is a pure description: it works on the buffers that it is given, and only `settle` and `deliver` change them. They
are called when the ranks have agreed that the step counts; until then the buffers are those of the step before, so
that a skipped step has nothing to undo. `settle` therefore repeats the arithmetic of `vector` to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch

from gradwire.errors import ParameterError

__all__ = ["EF21", "Classic", "MomentumCorrection", "NoFeedback", "Variant"]

Buffers = Mapping[str, torch.Tensor]
AddSent = Callable[[torch.Tensor, float], None]
"""add_sent(out, weight): out += weight·C(p), from the rank's own message."""


@dataclass(frozen=True)
class NoFeedback:
    """p = x, and nothing is kept: for unbiased codecs.

    Source: Alistarh et al., QSGD, NeurIPS 2017.
    """

    summed: ClassVar[tuple[str, ...]] = ()
    """Buffers of which only the sum over the ranks matters: it is kept when the number of ranks changes."""

    common: ClassVar[tuple[str, ...]] = ()
    """Buffers that are the same on all ranks."""

    restarted: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Buffers that begin as a copy of a common one when the number of ranks changes."""

    contractive: ClassVar[bool] = False
    """Whether the codec must be contractive."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """All buffers, each of one float32 an entry."""
        return (*self.summed, *self.common, *self.restarted)

    def vector(self, x: torch.Tensor, buffers: Buffers, out: torch.Tensor) -> torch.Tensor:
        """Return p, in `out` or x itself; x is the scaled local gradient. Changes nothing else."""
        return x

    def settle(self, x: torch.Tensor, buffers: Buffers, add_sent: AddSent) -> None:
        """Change the buffers as the step wants it."""

    def deliver(self, mean: torch.Tensor, buffers: Buffers) -> None:
        """Turn the mean of the messages, in place, into the gradient that the optimizer gets."""


@dataclass(frozen=True)
class Classic(NoFeedback):
    """p = x + e, e ← p − C(p): what a message leaves out is sent later.

    Args:
        decay: e is multiplied by it before x is added, 0 < decay ≤ 1; below 1 old gradients fade.

    Source: Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019. The decay: Wu et al., ICML 2018.
    """

    summed: ClassVar[tuple[str, ...]] = ("residual",)
    contractive: ClassVar[bool] = True

    decay: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise ParameterError(f"decay is {self.decay}; give more than 0 and at most 1")

    def vector(self, x: torch.Tensor, buffers: Buffers, out: torch.Tensor) -> torch.Tensor:
        """Return x + e."""
        return torch.mul(buffers["residual"], self.decay, out=out).add_(x)

    def settle(self, x: torch.Tensor, buffers: Buffers, add_sent: AddSent) -> None:
        """e ← x + e − C(x + e)."""
        self.vector(x, buffers, buffers["residual"])
        add_sent(buffers["residual"], -1.0)


@dataclass(frozen=True)
class MomentumCorrection(NoFeedback):
    """u ← m·u + x, p = u + e, e ← p − C(p): momentum is in what is accumulated, not in the optimizer.

    With factor masking, u becomes 0 where an entry was sent, so that stale momentum does not push it further: it is for
    sparsifiers, and with a codec that sends every entry it is the end of all momentum. Give the optimizer momentum 0.

    Args:
        momentum: 0 < m < 1.
        masking: factor masking.

    Source: Lin et al., Deep Gradient Compression, ICLR 2018, sections 3.1 and 3.3.
    """

    summed: ClassVar[tuple[str, ...]] = ("residual", "velocity")
    contractive: ClassVar[bool] = True

    momentum: float = 0.9
    masking: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.momentum < 1:
            raise ParameterError(f"momentum is {self.momentum}; give more than 0 and less than 1")

    def vector(self, x: torch.Tensor, buffers: Buffers, out: torch.Tensor) -> torch.Tensor:
        """Return m·u + x + e."""
        return torch.mul(buffers["velocity"], self.momentum, out=out).add_(x).add_(buffers["residual"])

    def settle(self, x: torch.Tensor, buffers: Buffers, add_sent: AddSent) -> None:
        """Take the step of u and e."""
        velocity, residual = buffers["velocity"], buffers["residual"]
        velocity.mul_(self.momentum).add_(x)
        torch.add(velocity, residual, out=residual)
        add_sent(residual, -1.0)
        if self.masking:
            sent = torch.zeros_like(residual)
            add_sent(sent, 1.0)
            velocity.masked_fill_(sent != 0, 0.0)


@dataclass(frozen=True)
class EF21(NoFeedback):
    """p = x − g_i, g_i ← g_i + C(p), g ← g + mean of C(p): messages carry changes of the gradient.

    The optimizer gets g, the same on all ranks; g = (1/W) Σ g_i. Suits gradients that change slowly: large batches.

    Source: Richtárik, Sokolov and Fatkhullin, EF21, NeurIPS 2021, Algorithm 2.
    """

    common: ClassVar[tuple[str, ...]] = ("mean",)
    restarted: ClassVar[Mapping[str, str]] = MappingProxyType({"estimate": "mean"})
    contractive: ClassVar[bool] = True

    def vector(self, x: torch.Tensor, buffers: Buffers, out: torch.Tensor) -> torch.Tensor:
        """Return x − g_i."""
        return torch.sub(x, buffers["estimate"], out=out)

    def settle(self, x: torch.Tensor, buffers: Buffers, add_sent: AddSent) -> None:
        """g_i ← g_i + C(p)."""
        add_sent(buffers["estimate"], 1.0)

    def deliver(self, mean: torch.Tensor, buffers: Buffers) -> None:
        """g ← g + mean; the optimizer gets a copy."""
        buffers["mean"].add_(mean)
        mean.copy_(buffers["mean"])


Variant = NoFeedback | Classic | MomentumCorrection | EF21
