"""Where the entries of a parameter lie in the vectors that FSDP2 reduces, and in the parameter as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from gradwire.errors import ParameterError

__all__ = ["Piece", "pieces_of", "shard_group"]


@dataclass(frozen=True)
class Piece:
    """A parameter that FSDP2 reduces side by side with others.

    FSDP2 cuts it along one dimension into a chunk of ⌈rows/shards⌉ rows for each rank, and pads the last ones. The
    *whole* parameter, here, is flattened with that dimension first and has no padding: its order does not depend on
    the number of shards, and what a shard holds is one stretch of it.

    Attributes:
        name: of the parameter.
        shape: of the whole parameter.
        dim: the dimension that is cut.
        shards: ranks over which it is cut.
        dense: whether it goes dense.
    """

    name: str
    shape: tuple[int, ...]
    dim: int
    shards: int
    dense: bool

    @property
    def size(self) -> int:
        """Entries of the whole parameter."""
        return prod(self.shape)

    @property
    def padded(self) -> int:
        """Entries of a rank's chunk in FSDP2's vectors, padding included."""
        return self._rows * (self.size // max(1, self.shape[self.dim]))

    @property
    def _rows(self) -> int:
        return -(-self.shape[self.dim] // self.shards)

    def held(self, shard: int) -> slice:
        """The stretch of the whole parameter that a shard holds; it may be empty.

        >>> piece = Piece("weight", (5, 3), 0, 4, False)
        >>> [(piece.held(shard).start, piece.held(shard).stop) for shard in range(4)]
        [(0, 6), (6, 12), (12, 15), (15, 15)]
        """
        return slice(min(shard * self.padded, self.size), min((shard + 1) * self.padded, self.size))

    def take(self, chunks: torch.Tensor, out: torch.Tensor) -> None:
        """Write the stretches of one or more shards, side by side, into `out` from their chunks (shards, padded)."""
        if not out.numel():
            return
        full, rest = divmod(out.numel(), self.padded)
        self._stretches(out[: full * self.padded]).copy_(self._chunks(chunks[:full]))
        if rest:  # FSDP2 pads along the first dimension only, and only at the end
            out[full * self.padded :].copy_(chunks[full, :rest])

    def put(self, stretch: torch.Tensor, chunk: torch.Tensor) -> None:
        """Write the stretch of one shard into its chunk (padded,), and zeros into the padding."""
        if stretch.numel() == self.padded > 0:
            self._chunks(chunk.view(1, -1)).copy_(self._stretches(stretch))
        else:
            chunk[: stretch.numel()].copy_(stretch)
            chunk[stretch.numel() :].zero_()

    def _stretches(self, whole: torch.Tensor) -> torch.Tensor:
        """Stretches without padding as (shards, rows, entries before the dimension, entries after it)."""
        return whole.view(-1, self._rows, prod(self.shape[: self.dim]), prod(self.shape[self.dim + 1 :]))

    def _chunks(self, chunks: torch.Tensor) -> torch.Tensor:
        """Chunks (shards, padded) as a view of the same form."""
        before, after = prod(self.shape[: self.dim]), prod(self.shape[self.dim + 1 :])
        return chunks.view(len(chunks), before, self._rows, after).transpose(1, 2)


def pieces_of(model: nn.Module, module: FSDPModule, small: int) -> list[Piece]:
    """The trainable parameters of the module in the order in which FSDP2 lays them side by side."""
    group = _parameter_group(module)
    names = {id(part): name for name, part in model.named_modules()}
    pieces = []
    for parameter in group.fsdp_params if group else ():
        if parameter.sharded_param.requires_grad:
            info = parameter._module_info
            prefix = names[id(info.module)]
            shape = parameter._orig_size
            piece = Piece(
                f"{prefix}.{info.param_name}" if prefix else info.param_name,
                tuple(shape),
                parameter.fsdp_placement.dim,
                group.mesh_info.shard_mesh_size,
                len(shape) < 2 or shape.numel() < small,
            )
            if piece.padded != parameter.padded_sharded_param_size.numel():
                raise ParameterError(
                    f"FSDP2 cuts {piece.name} into chunks of {parameter.padded_sharded_param_size.numel()} entries, "
                    f"{piece.padded} are expected; this PyTorch lays out its shards in another way than is known"
                )
            pieces.append(piece)
    return pieces


def shard_group(module: FSDPModule, name: str) -> dist.ProcessGroup:
    """The ranks over which the module is sharded.

    Raises:
        ParameterError: its mesh has more dimensions than that of the shards.
    """
    info = _parameter_group(module).mesh_info
    group: dist.ProcessGroup | None = getattr(info, "shard_process_group", None)
    if group is None or getattr(info, "replicate_process_group", None) is not None:
        raise ParameterError(
            f"{name or 'the root module'} is not sharded over a one-dimensional mesh; give fully_shard the mesh of the "
            "shards alone, and FSDPHook(replicas=…) the group of the replicas"
        )
    return group


def _parameter_group(module: FSDPModule) -> Any:
    """FSDP2's record of the parameters that it reduces together; None if the module has none of its own.

    PyTorch has no public way to their order in the reduced vector; the seats compare the size at each use.
    """
    groups = module._get_fsdp_state()._fsdp_param_groups
    if len(groups) > 1:
        raise ParameterError("an FSDP module with several meshes has no seat for a hook; use one mesh for a module")
    return groups[0] if groups else None
