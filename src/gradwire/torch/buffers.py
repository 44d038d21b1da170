"""What a rank keeps for its compressed parameters: flat float32 buffers, by name in a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from gradwire.errors import ParameterError
from gradwire.torch.layout import Parameter

__all__ = ["Buffers"]


class Buffers:
    """One float32 entry for each entry of the compressed parameters, in each of the named buffers.

    In memory a buffer is one vector, in a state one tensor a parameter: names and not positions are the keys, for DDP
    orders its buckets anew after the first step and after every restart.
    """

    def __init__(self, names: Sequence[str], parameters: Sequence[Parameter]) -> None:
        self._parameters = list(parameters)
        n = sum(parameter.size for parameter in parameters)
        self._flat = {name: torch.zeros(n) for name in names}

    def at(self, place: slice) -> dict[str, torch.Tensor]:
        """Views of some entries of every buffer."""
        return {name: flat[place] for name, flat in self._flat.items()}

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """Copies of a buffer's entries by parameter."""
        return {p.name: self._flat[name][p.place].clone() for p in self._parameters}

    def check(self, name: str, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Raises ParameterError if a state of a buffer has other names or sizes than the model."""
        sizes = {p.name: p.size for p in self._parameters}
        for state in states:
            theirs = {key: tensor.numel() for key, tensor in state.items()}
            if theirs != sizes:
                odd = sorted(key for key in {*sizes, *theirs} if sizes.get(key) != theirs.get(key))
                raise ParameterError(
                    f"the state's {name} of {', '.join(odd)} does not fit the model's compressed parameters; load the "
                    "state of this model, made with the same `small` and `dense`"
                )

    def load(self, name: str, *states: Mapping[str, torch.Tensor]) -> None:
        """Make a buffer the sum of some states of it, added in order; zeros without a state."""
        flat = self._flat[name].zero_()
        for index, state in enumerate(states):
            for p in self._parameters:
                entries = state[p.name].detach().to("cpu", torch.float32).flatten()
                if index == 0:
                    flat[p.place].copy_(entries)  # and not 0 + entries, which would lose the sign of −0
                else:
                    flat[p.place].add_(entries)

    def scale(self, name: str, factor: float) -> None:
        """Multiply a buffer."""
        self._flat[name] *= factor
