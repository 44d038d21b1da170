"""The factor between a gradient as backward gives it and the vector that is kept and sent."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch

from gradwire.errors import ParameterError
from gradwire.torch.layout import Layout, Parameter, Piece

__all__ = ["Factors", "unwrapped"]


def unwrapped(optimizer: Any) -> Any:
    """The optimizer inside of what Accelerate or Lightning make of it; None stays None."""
    return getattr(optimizer, "optimizer", optimizer)


class Factors:
    """Learning rate, loss scale and clipping of one hook.

    What is sent is x = a·c·g: a = (learning rate in step units, else 1)/(scale of the loss), the same on all ranks, and
    c = min(1, clip/(√W·‖g‖)) of this rank. The mean is divided by a for the optimizer. With the residual in x's units,
    neither a new learning rate nor a new scale changes what is owed.

    Raises:
        ParameterError: a parameter outside its definition.
    """

    def __init__(
        self, units: str, optimizer: torch.optim.Optimizer | None, scaler: Any = None, clip: float | None = None
    ) -> None:
        if units not in ("gradient", "step"):
            raise ParameterError(f"units is {units!r}; give 'gradient' or 'step'")
        if units == "step" and optimizer is None:
            raise ParameterError("units='step' needs the optimizer, whose learning rates it uses")
        if clip is not None and not clip > 0:
            raise ParameterError(f"clip is {clip}; give more than 0, or None for no clipping")
        self._units = units
        self._optimizer = optimizer
        self._scaler = scaler
        self.clip = clip

    def describe(self) -> str:
        """The settings that the ranks must share."""
        return f"units={self._units}, scaler={self._scaler is not None}, clip={self.clip}"

    def check(self, layout: Layout) -> None:
        """Raises ParameterError if the optimizer lacks a parameter that is compressed."""
        if self._optimizer is not None:
            held = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
            absent = [p.name for p in layout.compressed if id(p.tensor) not in held]
            if absent:
                raise ParameterError(f"the optimizer does not hold {', '.join(absent)}; their learning rate is unknown")

    def common(self, parameters: Sequence[Parameter]) -> list[float]:
        """The factor a of each parameter in this step; 1 for those that go dense.

        Raises:
            ParameterError: a learning rate is 0: what is sent in such a step would be lost.
        """
        scale = self._loss_scale()
        factors = []
        for parameter in parameters:
            if parameter.dense:
                factors.append(1.0)
                continue
            rate = self._rate(parameter) if self._units == "step" else 1.0
            if not rate > 0:
                raise ParameterError(
                    f"the learning rate of {parameter.name} is {rate}; with units='step' it must be above 0 in "
                    "every step (start a warm-up above it)"
                )
            factors.append(rate / scale)
        return factors

    def steps(self, parameters: Sequence[Parameter]) -> list[float]:
        """What makes a step of the optimizer, without its momentum, of an entry of each parameter's residual."""
        return [1.0 if self._units == "step" else self._rate(parameter) for parameter in parameters]

    def local(self, pieces: Sequence[Piece], world: int) -> float:
        """The factor c of this rank: of all its gradients, the dense ones too."""
        if self.clip is None:
            return 1.0
        squares = sum(float(torch.linalg.vector_norm(p.gradient, dtype=torch.float64)) ** 2 for p in pieces)
        norm = sqrt(squares) / self._loss_scale()
        limit = self.clip / sqrt(world)
        return limit / norm if norm > limit else 1.0  # of an infinite norm, the gradient is refused anyway

    def _loss_scale(self) -> float:
        return float(self._scaler.get_scale()) if self._scaler is not None and self._scaler.is_enabled() else 1.0

    def _rate(self, parameter: Parameter) -> float:
        assert self._optimizer is not None
        for group in self._optimizer.param_groups:
            if any(p is parameter.tensor for p in group["params"]):
                return float(group["lr"])
        raise ParameterError(f"the optimizer no longer holds {parameter.name}")
