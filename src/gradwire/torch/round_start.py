"""Where each rank begins a round of local updates: at the common parameters, or ahead of them along its residual."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gradwire.torch.weights import Weights

__all__ = ["RoundStart"]


class RoundStart:
    """Moves a rank to θ − ahead·e, e its residual, before the first forward pass in training of each round.

    Until then the model is θ on every rank, for evaluation and checkpoints. What a rank learns from there is what its
    residual does not hold already.

    Args:
        distance: ahead ≥ 0.
        weights: of the model.
        common: θ, float32, by name; it changes in place.

    Attributes:
        away: whether the rank has moved in this round.
        early: whether no step of the round has been taken.
    """

    def __init__(self, distance: float, weights: Weights, common: Mapping[str, torch.Tensor]) -> None:
        self._distance = distance
        self._weights = weights
        self._common = common
        self._residual = torch.zeros(weights.n)
        self.away = False
        self.early = True

    def attach(self, model: nn.Module) -> None:
        """Let the model's forward passes call; the model does not keep this alive."""
        if self._distance == 0:
            return
        me = weakref.ref(self)

        @torch.compiler.disable  # type: ignore[untyped-decorator]
        def before_forward(module: nn.Module, inputs: Any) -> None:
            start = me()
            if start is not None and module.training and torch.is_grad_enabled():
                start._go()

        model.register_forward_pre_hook(before_forward)

    @torch.no_grad()
    def renew(self, residual: torch.Tensor) -> None:
        """Begin a round: set the parameters to θ."""
        self._residual = residual
        self.away, self.early = False, True
        for name, p in self._weights.parameters.items():
            p.copy_(self._common[name])

    def resume(self, residual: torch.Tensor, away: bool) -> None:
        """Go on within a round, whose parameters are there."""
        self._residual = residual
        self.away, self.early = away, False

    def of(self, name: str) -> torch.Tensor:
        """Where a parameter stood when training began in this round, as its type holds it: float32."""
        theta, p = self._common[name].detach(), self._weights.parameters[name]
        if self.away:
            residual = self._weights.places[name].of(self._residual).view_as(theta).to(theta.device)
            theta = torch.sub(theta, residual, alpha=self._distance)
        return theta.to(p.dtype).float()

    @torch.no_grad()
    def _go(self) -> None:
        if self.away or not self.early:
            return
        self.away = True
        for name in self._weights.compressed:  # the others have no residual
            self._weights.parameters[name].copy_(self.of(name))
