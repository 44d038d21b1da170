"""The seats of FSDP2 for what reduces gradients: the reduce-scatter itself, and what comes after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

import gradwire
from gradwire import Codec
from gradwire.torch.fsdp_layout import Piece
from gradwire.torch.fsdp_state import Kept
from gradwire.torch.sharded import Sharded
from gradwire.torch.shards import Residual, Section, Segment, cut

if TYPE_CHECKING:
    from gradwire.torch.fsdp import FSDPHook

__all__ = ["ReduceScatterSeat", "ReplicasSeat", "Seat"]

DENSE = gradwire.Identity()


class Seat(ABC):
    """What both seats have: the exchange of one FSDP module's parameters, and its residuals.

    The vector that is exchanged holds the entries of each parameter without FSDP's padding, in its own order.
    """

    def __init__(self, hook: FSDPHook, index: int, pieces: Sequence[Piece], group: dist.ProcessGroup) -> None:
        self.hook = hook
        self.name = pieces[0].name
        self.pieces = pieces
        self.padded = sum(piece.padded for piece in pieces)
        self.replica, self.replicas = dist.get_rank(group), dist.get_world_size(group)
        self.sharded = Sharded(
            self.shards(),
            group,
            seed=gradwire.Rng(hook.seed).child(index).seed,
            error_feedback=hook.error_feedback,
        )
        self.residual = self.sharded.start()
        self.proposed: Residual | None = None

    @abstractmethod
    def shards(self) -> list[list[Segment]]:
        """Which rank of the seat's group owns what."""

    @abstractmethod
    def sit(self, module: FSDPModule) -> None:
        """Take the seat in the module."""

    @abstractmethod
    def kept(self) -> Iterator[Kept]:
        """The residuals of the compressed parameters; dense messages leave none."""

    def codec(self, piece: Piece) -> Codec:
        """What a parameter is sent with."""
        return DENSE if piece.dense else self.hook.codec

    def check(self, entries: int, due: int) -> None:
        """Refuse a vector that is not made of the parameters that were there at registration."""
        if entries != due:
            raise RuntimeError(
                f"FSDP reduces {entries} entries of the module of {self.name}, {due} are due; parameters must keep "
                "their shapes and requires_grad after FSDPHook.register"
            )

    def put(self, mean: torch.Tensor, out: torch.Tensor, shard: int) -> None:
        """Overwrite FSDP's chunks of one shard with its entries of the mean."""
        chunks = out if out.device.type == "cpu" else torch.empty(out.shape, dtype=out.dtype)
        start = at = 0
        for piece in self.pieces:
            held = piece.held(shard)
            stop = start + held.stop - held.start
            piece.put(mean[start:stop], chunks[at : at + piece.padded])
            start, at = stop, at + piece.padded
        if chunks is not out:
            out.copy_(chunks)


class ReplicasSeat(Seat):
    """The hook after the reduce-scatter: averages this rank's shard over the replicas."""

    def __init__(
        self, hook: FSDPHook, index: int, pieces: Sequence[Piece], group: dist.ProcessGroup, shard: int
    ) -> None:
        self.shard = shard
        super().__init__(hook, index, pieces, group)

    def shards(self) -> list[list[Segment]]:
        """Each replica owns its share of every parameter's part in this shard."""
        held = [piece.held(self.shard) for piece in self.pieces]
        sections = [Section(self.codec(p), (h.stop - h.start,)) for p, h in zip(self.pieces, held, strict=True)]
        return cut(sections, self.replicas)

    def sit(self, module: FSDPModule) -> None:
        """Come after the reduce-scatter."""
        module.set_all_reduce_hook(self.average)

    def kept(self) -> Iterator[Kept]:
        """Residuals of this shard's part as a sender, and of an equal share of that as an owner."""
        start = owned = 0
        for piece in self.pieces:
            held = piece.held(self.shard)
            size = held.stop - held.start
            first, last = size * self.replica // self.replicas, size * (self.replica + 1) // self.replicas
            if not piece.dense:
                yield Kept(
                    piece.name,
                    piece.size,
                    self.replica,
                    self.replicas,
                    held.start,
                    self.residual.sent[start : start + size],
                    held.start + first,
                    self.residual.owned[owned : owned + last - first],
                    owners=True,
                )
            start, owned = start + size, owned + last - first

    def average(self, reduced: torch.Tensor) -> None:
        """Replace the reduced shard by its mean over the replicas."""
        step = self.hook.begin()
        self.check(reduced.numel(), self.padded)
        chunk = reduced.detach().to("cpu")
        x = self.hook.scratch.of(self.sharded.n)
        start = at = 0
        for piece in self.pieces:
            held = piece.held(self.shard)
            stop = start + held.stop - held.start
            piece.take(chunk[at : at + piece.padded].view(1, -1), x[start:stop])
            start, at = stop, at + piece.padded
        done = self.sharded.exchange(step, x, self.residual)
        if done.mean is None:
            self.hook.spoil()
            reduced.fill_(nan)
        else:
            self.proposed = done.residual
            self.put(done.mean, reduced.detach(), self.shard)


class ReduceScatterSeat(Seat, ReduceScatter):
    """The reduce-scatter itself: the input is rank 0's chunk of every parameter, then rank 1's, and so on."""

    def __init__(self, hook: FSDPHook, index: int, pieces: Sequence[Piece], group: dist.ProcessGroup) -> None:
        super().__init__(hook, index, pieces, group)
        self.residual = self.residual._replace(owned=torch.zeros(0))  # the sum goes to nobody else

    def shards(self) -> list[list[Segment]]:
        """Each rank owns what it holds of every parameter."""
        shards: list[list[Segment]] = []
        for rank in range(self.replicas):
            start, shard = 0, []
            for piece in self.pieces:
                held = piece.held(rank)
                if held.start < held.stop:
                    shard.append(Segment(start + held.start, start + held.stop, self.codec(piece)))
                start += piece.size
            shards.append(shard)
        return shards

    def sit(self, module: FSDPModule) -> None:
        """Become the reduce-scatter."""
        module.set_custom_reduce_scatter(self)

    def kept(self) -> Iterator[Kept]:
        """Residuals of whole parameters as a sender; nobody owns."""
        start = 0
        for piece in self.pieces:
            if not piece.dense:
                sent = self.residual.sent[start : start + piece.size]
                yield Kept(
                    piece.name, piece.size, self.replica, self.replicas, 0, sent, 0, self.residual.owned, owners=False
                )
            start += piece.size

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for FSDP's input and output."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Reduce the input over the ranks; the output is this rank's shard of the mean, or of the sum."""
        step = self.hook.begin()
        if op not in (dist.ReduceOp.AVG, dist.ReduceOp.SUM):
            raise RuntimeError(
                f"FSDP asks for {op}; with a divide factor of your own, call set_force_sum_reduction_for_comms(True)"
            )
        self.check(input_tensor.numel(), self.replicas * self.padded)
        chunks = input_tensor.detach().to("cpu").view(self.replicas, self.padded)
        x = self.hook.scratch.of(self.sharded.n)
        start = at = 0
        for piece in self.pieces:
            piece.take(chunks[:, at : at + piece.padded], x[start : start + piece.size])
            start, at = start + piece.size, at + piece.padded
        mean, sent, _ = self.sharded.reduce(step, x, self.residual.sent)
        if mean is None:
            self.hook.spoil()
            output_tensor.fill_(nan)
            return
        if op == dist.ReduceOp.SUM:
            mean *= self.replicas
        self.proposed = self.residual._replace(sent=sent)
        self.put(mean, output_tensor, self.replica)
