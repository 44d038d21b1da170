"""Which parameter lies where in a bucket and in the rank's buffers, and which tensors go dense."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
import torch.distributed as dist

from gradwire.errors import ParameterError

__all__ = ["Layout", "Parameter", "Piece"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model.

    Attributes:
        name: its first name.
        index: its place among the names.
        size: its entries.
        dense: whether its gradient goes dense.
        start: where it begins in the buffers, which hold the compressed parameters side by side in the order of
            their names; no meaning if it is dense.
        tensor: the parameter itself.
    """

    name: str
    index: int
    size: int
    dense: bool
    start: int
    tensor: torch.nn.Parameter

    @property
    def place(self) -> slice:
        """Its entries of a buffer."""
        return slice(self.start, self.start + self.size)


@dataclass(frozen=True)
class Piece:
    """A parameter's gradient inside a bucket, as a flat view of it."""

    parameter: Parameter
    gradient: torch.Tensor


class Layout:
    """All parameters of a model by name and by identity.

    A parameter goes dense if it has fewer than two dimensions (biases, norms, scalars) or fewer than `small` entries:
    its index and header bytes would outweigh what compression saves; or if its name fits a pattern of `dense`. A tied
    weight counts once, under its first name.

    Raises:
        ParameterError: a pattern that fits no name.
    """

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]], small: int, dense: Sequence[str] = ()) -> None:
        self.parameters: list[Parameter] = []
        self._of: dict[int, Parameter] = {}
        self.n = 0
        """Entries of all compressed parameters together."""
        lines = []
        for index, (name, tensor) in enumerate(named):
            named_dense = any(fnmatchcase(name, pattern) for pattern in dense)
            plain = tensor.dim() < 2 or tensor.numel() < small or named_dense or not tensor.requires_grad
            parameter = Parameter(name, index, tensor.numel(), plain, self.n, tensor)
            self.n += 0 if plain else parameter.size
            self.parameters.append(parameter)
            self._of[id(tensor)] = parameter
            lines.append(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}")
        self.fingerprint = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        for pattern in dense:
            if not any(fnmatchcase(parameter.name, pattern) for parameter in self.parameters):
                raise ParameterError(f"no parameter's name fits {pattern!r}, which was to go dense")

    @property
    def compressed(self) -> list[Parameter]:
        """The parameters that are compressed, in the order of the buffers."""
        return [p for p in self.parameters if not p.dense]

    def describe(self) -> str:
        """Names, shapes and types in short, for the comparison between ranks."""
        return (
            f"{len(self.parameters)} parameters, {sum(p.size for p in self.parameters)} entries "
            f"(names, shapes and types: {self.fingerprint[:16]})"
        )

    def pieces(self, bucket: dist.GradBucket, flat: torch.Tensor) -> list[Piece]:  # type: ignore[name-defined]
        """Return the pieces of a bucket, in its order; `flat` is its buffer or a copy of it.

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
            start = gradient.storage_offset() - buffer.storage_offset()
            pieces.append(Piece(parameter, flat[start : start + parameter.size]))
        return pieces
