"""Gradients taken ahead: where the residual, once it is sent, will bring the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from gradwire.torch.buffers import Buffers
from gradwire.torch.layout import Parameter
from gradwire.torch.scaling import Factors

__all__ = ["Ahead"]


class Ahead:
    """Moves a rank's compressed parameters from forward to the end of backward, and then puts them back to the bit.

    Every rank stands elsewhere in between, w − ahead·a·e, with its own residual e, and a the learning rate (in step
    units 1). What the replicas share lies in a copy meanwhile: its memory is the price.

    Args:
        distance: how far, > 0, in steps of SGD without momentum.
        factors: of the hook.
        parameters: those that are compressed.
        buffers: theirs, one of them "residual".
        optimizer: finds them in their place whatever happened before its step.
    """

    def __init__(
        self,
        distance: float,
        factors: Factors,
        parameters: Sequence[Parameter],
        buffers: Buffers,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._distance = distance
        self._factors = factors
        self._parameters = list(parameters)
        self._buffers = buffers
        self._optimizer = optimizer
        self._own = {p.index: torch.empty_like(p.tensor.data) for p in parameters}
        self._away = False
        self._went = False

    def attach(self, model: DistributedDataParallel) -> None:
        """Let the model's passes, its state and the optimizer's steps call."""
        model.register_forward_pre_hook(self._before_forward)
        model.module.register_state_dict_pre_hook(self._come_back)
        model.module.register_load_state_dict_pre_hook(self._come_back)
        self._optimizer.register_step_pre_hook(self._come_back)

    def after_backward(self) -> None:
        """Called when the last gradients are there: come back when nothing needs the moved parameters any more."""
        if self._away:  # else there is no backward pass: a rank that is through with its data, for the others' sake
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._come_back)

    def shared(self, parameter: Parameter) -> torch.Tensor:
        """The bytes of a parameter that all replicas share, also while it is away; until the next forward."""
        return self._own.get(parameter.index, parameter.tensor) if self._went else parameter.tensor

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _before_forward(self, model: torch.nn.Module, inputs: object) -> None:
        if not (model.training and torch.is_grad_enabled()):
            self._come_back()
            self._went = False
        elif not self._away:  # else it is there already: further passes before an exchange
            self._go()

    @torch.no_grad()
    def _go(self) -> None:
        for parameter, step in zip(self._parameters, self._factors.steps(self._parameters), strict=True):
            data = parameter.tensor.data  # so that autograd counts no change: there is none between the passes
            self._own[parameter.index].copy_(data)
            residual = self._buffers.at(parameter.place)["residual"].to(data.device)
            flat = _in_storage_order(data)
            # In float32, and rounded once to the parameter's type.
            flat.copy_(torch.sub(flat.float(), residual, alpha=self._distance * step))
        self._away = self._went = True

    @torch.no_grad()
    def _come_back(self, *_: object) -> None:
        if self._away:
            for parameter in self._parameters:
                parameter.tensor.data.copy_(self._own[parameter.index])
            self._away = False


def _in_storage_order(data: torch.Tensor) -> torch.Tensor:
    """All entries as one vector: as the residual lies, which follows DDP's buckets."""
    return data.as_strided((data.numel(),), (1,))
