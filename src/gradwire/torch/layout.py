"""Which parameter lies where in a bucket, and which tensors are too small to compress."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from gradwire.errors import ParameterError

__all__ = ["Layout", "Parameter", "Piece"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model: its place among the names, and whether its gradient goes dense."""

    name: str
    index: int
    size: int
    dense: bool


@dataclass(frozen=True)
class Piece:
    """A parameter's gradient inside a bucket: entries offset … offset + size of the flat buffer."""

    parameter: Parameter
    offset: int

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """Return the piece's entries of a flat buffer, as a view."""
        return flat[self.offset : self.offset + self.parameter.size]


class Layout:
    """All parameters of a model by name and by identity.

    A parameter goes dense if it has fewer than two dimensions (biases, norms, scalars) or fewer than
    `small` entries: its index and header bytes would outweigh what compression saves. A tied weight
    counts once, under its first name.
    """

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]], small: int) -> None:
        self.parameters: list[Parameter] = []
        self._of: dict[int, Parameter] = {}
        lines = []
        for index, (name, tensor) in enumerate(named):
            dense = tensor.dim() < 2 or tensor.numel() < small
            parameter = Parameter(name, index, tensor.numel(), dense)
            self.parameters.append(parameter)
            self._of[id(tensor)] = parameter
            lines.append(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}")
        self.fingerprint = hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def compressed(self) -> dict[str, int]:
        """Sizes of the parameters that are compressed, by name."""
        return {p.name: p.size for p in self.parameters if not p.dense}

    def pieces(self, bucket: dist.GradBucket) -> list[Piece]:  # type: ignore[name-defined]
        """Return the pieces of a bucket, in its order.

        Raises:
            ParameterError: sparse gradients, or a parameter that the model did not have at registration.
        """
        buffer = bucket.buffer()
        if buffer.layout != torch.strided:
            raise ParameterError("sparse gradients are not exchanged; build the embedding with sparse=False")
        pieces = []
        for tensor, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            parameter = self._of.get(id(tensor))
            if parameter is None:
                raise ParameterError("the model has parameters that it did not have when the hook was registered")
            pieces.append(Piece(parameter, gradient.storage_offset() - buffer.storage_offset()))
        return pieces
