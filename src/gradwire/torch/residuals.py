"""Residuals by parameter name, changed only when a whole step has been sent."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gradwire.errors import ParameterError

__all__ = ["Residuals"]


class Residuals:
    """One float32 residual for each compressed parameter.

    A step proposes new residuals, bucket by bucket; `commit` takes them all, `roll_back` none. Names and
    not positions are the keys: DDP orders its buckets anew after the first step and after every restart.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._kept: dict[str, torch.Tensor] = {}
        self._proposed: dict[str, torch.Tensor] = {}

    def get(self, name: str) -> torch.Tensor:
        """Return the residual of the parameter: zeros before its first step."""
        kept = self._kept.get(name)
        return kept if kept is not None else torch.zeros(self._sizes[name])

    def propose(self, name: str, residual: torch.Tensor) -> None:
        """Hold what the residual becomes if the step is committed."""
        self._proposed[name] = residual

    def commit(self) -> None:
        """Make the proposed residuals the kept ones."""
        self._kept.update(self._proposed)
        self._proposed.clear()

    def roll_back(self) -> None:
        """Forget the proposed residuals: the step was skipped or never ended."""
        self._proposed.clear()

    def state(self) -> dict[str, torch.Tensor]:
        """Return a copy of the kept residuals, each a flat float32 tensor."""
        return {name: residual.clone() for name, residual in self._kept.items()}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Replace the kept residuals; a parameter that is not named gets zeros.

        Raises:
            ParameterError: a name or size that the model does not have.
        """
        for name, residual in state.items():
            if self._sizes.get(name) != residual.numel():
                raise ParameterError(
                    f"the state holds a residual of {residual.numel()} entries for {name!r}, the model has "
                    f"{self._sizes.get(name, 'no such compressed parameter')}; load the state of this model"
                )
        self._proposed.clear()
        self._kept = {name: r.detach().to("cpu", torch.float32).flatten().clone() for name, r in state.items()}
