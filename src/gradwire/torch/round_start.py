"""Where each rank begins a round of local updates: at the common parameters, or ahead of them along its residual."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from gradwire.torch.weights import Weights

__all__ = ["RoundStart"]


class RoundStart:
    """Moves a rank to θ − ahead·e, e its residual, before its first step of each round.

    Until then the model is θ on every rank, for evaluation and checkpoints; the first gradient of a round is of θ, too.
    What a rank learns from there is what its residual does not hold already.

    Args:
        distance: ahead ≥ 0.
        weights: of the model.
        common: θ, float32, by name; it changes in place.

    Attributes:
        away: whether the rank has moved in this round.
    """

    def __init__(self, distance: float, weights: Weights, common: Mapping[str, torch.Tensor]) -> None:
        self._distance = distance
        self._weights = weights
        self._common = common
        self._residual = torch.empty(0)  # until the first round begins
        self.away = False

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimizer's steps call; the optimizer does not keep this alive.

        Not the model's forward passes: those may be compiled, or stand between a forward and its backward.
        """
        if self._distance == 0:
            return
        me = weakref.ref(self)

        def before_step(*_: Any) -> None:
            start = me()
            if start is not None:
                start._go()

        optimizer.register_step_pre_hook(before_step)

    @torch.no_grad()
    def renew(self, residual: torch.Tensor) -> None:
        """Begin a round: set the parameters to θ."""
        self._residual = residual
        self.away = False
        for name, p in self._weights.parameters.items():
            p.copy_(self._common[name])

    def resume(self, residual: torch.Tensor, away: bool) -> None:
        """Go on within a round, whose parameters are there."""
        self._residual = residual
        self.away = away

    def of(self, name: str) -> torch.Tensor:
        """Where a parameter stood when training began in this round, as its type holds it: float32."""
        theta, p = self._common[name].detach(), self._weights.parameters[name]
        if self.away:
            residual = self._weights.places[name].of(self._residual).view_as(theta).to(theta.device)
            theta = torch.sub(theta, residual, alpha=self._distance)
        return theta.to(p.dtype).float()

    @torch.no_grad()
    def _go(self) -> None:
        if self.away:
            return
        self.away = True
        for name in self._weights.compressed:  # the others have no residual
            self._weights.parameters[name].copy_(self.of(name))
