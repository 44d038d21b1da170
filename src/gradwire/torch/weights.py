"""Where each tensor of a model lies in the one vector that local updates exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

import gradwire
from gradwire import Codec
from gradwire.errors import ParameterError
from gradwire.torch.shards import Section

__all__ = ["Place", "Weights"]

DENSE = gradwire.Identity()


@dataclass(frozen=True)
class Place:
    """Entries start … start + size − 1 of the vector: the flattened tensor."""

    start: int
    size: int

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """The tensor's entries of the vector, as a view."""
        return flat[self.start : self.start + self.size]


class Weights:
    """The tensors of a model that travel, by name.

    - Compressed: parameters of at least two dimensions and `small` entries. They come first in the vector.
    - Dense, as float32: the other parameters, then the running means and variances of batch and instance norms.
    - Not at all: parameters that the optimizer does not hold (frozen ones), and all other buffers. A buffer is
      often a constant (a mask with −inf, a table of positions), which averaging could only spoil, or a counter.

    Raises:
        ParameterError: the optimizer holds a tensor that is not the model's, a travelling parameter is not real
            floating point, or nothing travels.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, small: int) -> None:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        named = {name: p for name, p in model.named_parameters() if id(p) in held}
        if len(named) < len(held):
            raise ParameterError(
                f"the optimizer holds {len(held) - len(named)} tensors that are not parameters of the model; "
                "give the model that it optimizes"
            )
        for name, p in named.items():
            if not p.is_floating_point():
                raise ParameterError(f"{name} is {p.dtype}: only real floating-point parameters travel")
        if not named:
            raise ParameterError("the optimizer holds no parameter of the model: nothing would be exchanged")
        large = {name: p for name, p in named.items() if p.dim() >= 2 and p.numel() >= small}
        self.parameters: dict[str, nn.Parameter] = {**large, **{n: p for n, p in named.items() if n not in large}}
        self.statistics: dict[str, torch.Tensor] = _statistics(model)
        self.places: dict[str, Place] = {}
        start = 0
        for name, tensor in {**self.parameters, **self.statistics}.items():
            self.places[name] = Place(start, tensor.numel())
            start += tensor.numel()
        self.n = start
        self.compressed = list(large)

    def sections(self, codec: Codec) -> list[Section]:
        """The vector's sections: each compressed parameter for itself, and all dense entries together."""
        sizes = tuple(self.places[name].size for name in self.compressed)
        dense = self.n - sum(sizes)
        return ([Section(codec, sizes)] if sizes else []) + ([Section(DENSE, (dense,))] if dense else [])

    def describe(self) -> str:
        """Names, shapes and types in short, for the comparison between ranks."""
        lines = [
            f"{name} {tuple(tensor.shape)} {tensor.dtype}"
            for name, tensor in {**self.parameters, **self.statistics}.items()
        ]
        print_ = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        return f"{len(lines)} tensors, {self.n} entries (names, shapes and types: {print_})"

    def by_name(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Copies of the compressed parameters' entries of a vector."""
        return {name: self.places[name].of(flat).clone() for name in self.compressed}

    def flatten(self, named: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The vector of which `by_name` gives these copies; zeros where it gives none.

        Raises:
            ParameterError: other names or sizes than the model's.
        """
        sizes = {name: self.places[name].size for name in self.compressed}
        theirs = {name: tensor.numel() for name, tensor in named.items()}
        if theirs != sizes:
            odd = sorted(name for name in {*sizes, *theirs} if sizes.get(name) != theirs.get(name))
            raise ParameterError(f"the state's residuals of {', '.join(odd)} do not fit the model; load its own state")
        flat = torch.zeros(self.n)
        for name, tensor in named.items():
            self.places[name].of(flat).copy_(tensor.detach().flatten())
        return flat


def _statistics(model: nn.Module) -> dict[str, torch.Tensor]:
    found = {}
    for prefix, module in model.named_modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            for name in ("running_mean", "running_var"):
                buffer = getattr(module, name)
                if buffer is not None:
                    found[f"{prefix}.{name}" if prefix else name] = buffer
    return found
