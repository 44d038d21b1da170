"""FSDP2: gradients of `fully_shard` modules through compressed messages, in the seats that FSDP2 has for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.variable import Variable
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

import gradwire
from gradwire import Codec
from gradwire.errors import ParameterError
from gradwire.torch.agreement import agree
from gradwire.torch.collectives import gather_numbers
from gradwire.torch.sharded import Sharded
from gradwire.torch.shards import Residual, Section, Segment, cut

__all__ = ["FSDPHook"]

STATE_VERSION = 1
DENSE = gradwire.Identity()


@dataclass(frozen=True)
class _Piece:
    """A parameter in a reduced shard: its name, and how many entries each rank holds, padding included."""

    name: str
    size: int
    dense: bool


class FSDPHook:
    """Reduce the gradients of FSDP2 modules through compressed messages with error feedback.

    Over the shards (the default): rank i sends C(p_i), p_i = g_i + e_i, to each rank the part that it holds; that one
    adds up in float32 in rank order. It is one compression, for nobody else needs the sum.

    Over the replicas only (`replicas` given): FSDP reduces within the mesh of the module as ever, and what comes of
    it is averaged over the replicas in the sharded topology. Give `fully_shard` the one-dimensional mesh of the
    shards alone: in FSDP2's own hybrid sharding the all-reduce is fixed, and its hook only comes after it.

    - A residual belongs to a parameter's name, is float32 in gradient units and lives on the CPU.
    - Parameters of fewer than two dimensions or fewer than `small` entries go dense in float32.
    - New residuals are held until backward ends; then the ranks agree, and commit all of them or none. If anything
      was not finite on any rank, all gradients are NaN on all ranks: skip the optimizer's step.
    - Exchange is on the thread of backward: FSDP2 calls the seat there and wants the result on return.

    Args:
        codec: a contractive codec or its text form.
        replicas: the ranks over which this rank's shards are replicated; None to compress the reduce-scatter.
        small: parameters with fewer entries go dense.
        seed: of the codec's randomness; the same on every rank.
        error_feedback: send later what a message left out; without it any codec is taken.

    Raises:
        ParameterError: a parameter outside its definition.

    Example:
        >>> fully_shard(model, mesh=mesh)                                        # doctest: +SKIP
        >>> hook = FSDPHook("topk:k=0.01").register(model)                       # doctest: +SKIP

    Source: `FSDPModule.set_custom_reduce_scatter` and `set_all_reduce_hook`, PyTorch 2.13; error feedback,
    Karimireddy et al., ICML 2019.
    """

    def __init__(
        self,
        codec: Codec | str,
        *,
        replicas: dist.ProcessGroup | None = None,
        small: int = 1024,
        seed: int = 0,
        error_feedback: bool = True,
    ) -> None:
        self.codec: Codec = gradwire.from_spec(codec) if isinstance(codec, str) else codec
        if small < 0:
            raise ParameterError(f"small is {small}; give 0 or more")
        self.replicas = replicas
        self.small = small
        self.seed = seed
        self.error_feedback = error_feedback
        self.skipped = 0
        """Backward passes whose gradients were not finite on some rank."""
        self._seats: list[_Seat] = []
        self._step = 0
        self._spoilt = False
        self._task = -1

    def register(self, model: nn.Module) -> FSDPHook:
        """Take the seat in every FSDP module of the model; collective: all ranks of the job call it.

        Raises:
            ParameterError: on every rank, if the ranks differ in codec, settings, model or version; no FSDP module,
                one of an FSDP mesh that does not fit, or a codec that does not suit a parameter or error feedback.
        """
        if self._seats:
            raise ParameterError("this hook serves a model already; make another FSDPHook for the second one")
        modules = [(name, module) for name, module in model.named_modules() if isinstance(module, FSDPModule)]
        if not modules:
            raise ParameterError("the model has no FSDP2 module; call fully_shard on it first")
        self._model = model
        pieces = {name: _pieces(model, module, self.small) for name, module in modules}
        agree(
            {
                "gradwire version": gradwire.__version__,
                "codec": str(self.codec),
                "settings": f"replicas={self.replicas is not None}, small={self.small}, seed={self.seed}, "
                f"error_feedback={self.error_feedback}",
                "model layout": f"{len(modules)} FSDP modules (names and shards: "
                f"{hashlib.sha256(str(pieces).encode()).hexdigest()[:16]})",
            },
            range(dist.get_world_size()),
        )
        self._all = dist.new_group(backend="gloo")
        twins: dict[int, dist.ProcessGroup] = {}
        for index, (name, module) in enumerate(modules):
            if not pieces[name]:
                continue
            shards = _shard_group(module, name)
            group = self.replicas or shards
            shared = twins[id(group)] = twins.get(id(group)) or gloo_twin(group)
            # Zeros for parameters without a gradient: the seat is not told which of them are left out.
            module.set_reduce_scatter_unused_params(True)
            seat = (_ReduceScatter if self.replicas is None else _Replicas)(self, index, pieces[name], shared)
            seat.sit(module)
            self._seats.append(seat)
        return self

    def begin(self) -> int:
        """Called by a seat at each use; returns the number of the backward pass."""
        task = torch._C._current_graph_task_id()
        if task != self._task:  # and not "the last pass has ended": it may have ended in an exception
            self._task = task
            self._spoilt = False
            for seat in self._seats:
                seat.proposed = None  # left over if the last backward pass ended in an exception
            Variable._execution_engine.queue_callback(self._end)
        return self._step

    def spoil(self) -> None:
        """Called by a seat whose gradients were not finite on some of its ranks."""
        self._spoilt = True

    def _end(self) -> None:
        """At the end of backward, after FSDP's own: all ranks commit, or none."""
        self._task = -1
        self._step += 1
        if any(spoilt for (spoilt,) in gather_numbers([int(self._spoilt)], self._all)):
            self.skipped += 1
            for seat in self._seats:
                seat.proposed = None
            for p in self._model.parameters():
                if p.grad is not None:
                    p.grad.detach().fill_(nan)
            return
        for seat in self._seats:
            if seat.proposed is not None:
                seat.residual, seat.proposed = seat.proposed, None

    def sent_bytes(self) -> int:
        """Bytes that left this rank through the seats so far, lengths included."""
        return sum(seat.sharded.bytes.sent_bytes for seat in self._seats)

    def state_dict(self) -> dict[str, Any]:
        """Return the step counter and this rank's residuals: tensors and numbers only; each rank saves its own.

        A residual is that of all parameters that FSDP reduces together, under the first one's name: of what was sent,
        and of what is owned (not empty over replicas).
        """
        return {
            "version": STATE_VERSION,
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            "step": self._step,
            "sent": {seat.name: seat.residual.sent.clone() for seat in self._seats},
            "owned": {seat.name: seat.residual.owned.clone() for seat in self._seats},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state_dict of the same rank, with the same bits as if training had never stopped.

        Raises:
            ParameterError: a state of another version, rank, world size or model.
        """
        mine = {"version": STATE_VERSION, "rank": dist.get_rank(), "world_size": dist.get_world_size()}
        for key, value in mine.items():
            if state[key] != value:
                raise ParameterError(
                    f"the state has {key} {state[key]}, this process has {value}; "
                    "load on each rank the state that the same rank saved"
                )
        for key in ("sent", "owned"):
            theirs = {name: tensor.numel() for name, tensor in state[key].items()}
            if theirs != {seat.name: getattr(seat.residual, key).numel() for seat in self._seats}:
                raise ParameterError(f"the state's {key} residuals do not fit the model; load the state of this model")
        for seat in self._seats:
            seat.residual = Residual(state["sent"][seat.name].clone(), state["owned"][seat.name].clone())
        self._step = int(state["step"])


class _Seat:
    """What both seats have: the exchange of one FSDP module's parameters, and its residuals."""

    def __init__(self, hook: FSDPHook, index: int, pieces: Sequence[_Piece], group: dist.ProcessGroup) -> None:
        self.hook = hook
        self.name = pieces[0].name
        self.size = sum(piece.size for piece in pieces)
        self.sharded = Sharded(
            self.shards(pieces, dist.get_world_size(group)),
            group,
            seed=gradwire.Rng(hook.seed).child(index).seed,
            error_feedback=hook.error_feedback,
        )
        self.residual = self.sharded.start()
        self.proposed: Residual | None = None

    def shards(self, pieces: Sequence[_Piece], world: int) -> list[list[Segment]]:
        """Which rank of the seat's group owns what."""
        raise NotImplementedError

    def sit(self, module: FSDPModule) -> None:
        """Take the seat in the module."""
        raise NotImplementedError

    def sections(self, pieces: Sequence[_Piece]) -> list[Section]:
        """One shard as sections: neighbours with one codec still are parts of their own."""
        return [Section(DENSE if piece.dense else self.hook.codec, (piece.size,)) for piece in pieces]

    def check(self, entries: int, due: int) -> None:
        """Refuse a vector that is not made of the parameters that were there at registration."""
        if entries != due:
            raise RuntimeError(
                f"FSDP reduces {entries} entries of the module of {self.name}, {due} are due; parameters must keep "
                "their shapes and requires_grad after FSDPHook.register"
            )


class _Replicas(_Seat):
    """The hook after the reduce-scatter: averages this rank's shard over the replicas."""

    def shards(self, pieces: Sequence[_Piece], world: int) -> list[list[Segment]]:
        return cut(self.sections(pieces), world)

    def sit(self, module: FSDPModule) -> None:
        module.set_all_reduce_hook(self.average)

    def average(self, reduced: torch.Tensor) -> None:
        """Replace the reduced shard by its mean over the replicas."""
        step = self.hook.begin()
        self.check(reduced.numel(), self.size)
        done = self.sharded.exchange(step, reduced.detach().to("cpu", torch.float32), self.residual)
        if done.mean is None:
            self.hook.spoil()
            reduced.fill_(nan)
        else:
            self.proposed = done.residual
            reduced.copy_(done.mean)


class _ReduceScatter(_Seat, ReduceScatter):
    """The reduce-scatter itself: the input is rank 0's shard of every parameter, then rank 1's, and so on."""

    def shards(self, pieces: Sequence[_Piece], world: int) -> list[list[Segment]]:
        (one,) = cut(self.sections(pieces), 1)
        return [
            [Segment(rank * self.size + s.start, rank * self.size + s.stop, s.codec) for s in one]
            for rank in range(world)
        ]

    def sit(self, module: FSDPModule) -> None:
        module.set_custom_reduce_scatter(self)

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
        self.check(input_tensor.numel(), self.sharded.n)
        x = input_tensor.detach().to("cpu", torch.float32)
        mean, sent, _ = self.sharded.reduce(step, x, self.residual.sent)
        if mean is None:
            self.hook.spoil()
            output_tensor.fill_(nan)
            return
        if op == dist.ReduceOp.SUM:
            mean *= self.sharded.bytes.world
        self.proposed = self.residual._replace(sent=sent)
        output_tensor.copy_(mean)


def gloo_twin(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """A gloo group of the same ranks, in which no collective of others comes between."""
    ranks = dist.get_process_group_ranks(group)
    twin: dist.ProcessGroup = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return twin


def _parameter_group(module: FSDPModule) -> Any:
    """FSDP2's record of the parameters that it reduces together; None if the module has none of its own.

    PyTorch has no public way to their order in the reduced vector; `_Seat.check` compares the size at each use.
    """
    groups = module._get_fsdp_state()._fsdp_param_groups
    if len(groups) > 1:
        raise ParameterError("an FSDP module with several meshes has no seat for a hook; use one mesh for a module")
    return groups[0] if groups else None


def _pieces(model: nn.Module, module: FSDPModule, small: int) -> list[_Piece]:
    """The trainable parameters of the module in the order in which FSDP2 lays them side by side."""
    group = _parameter_group(module)
    names = {id(part): name for name, part in model.named_modules()}
    pieces = []
    for parameter in group.fsdp_params if group else ():
        if parameter.sharded_param.requires_grad:
            info = parameter._module_info
            prefix = names[id(info.module)]
            shape = parameter._orig_size
            pieces.append(
                _Piece(
                    f"{prefix}.{info.param_name}" if prefix else info.param_name,
                    parameter.padded_sharded_param_size.numel(),
                    len(shape) < 2 or shape.numel() < small,
                )
            )
    return pieces


def _shard_group(module: FSDPModule, name: str) -> dist.ProcessGroup:
    info = _parameter_group(module).mesh_info
    group: dist.ProcessGroup | None = getattr(info, "shard_process_group", None)
    if group is None or getattr(info, "replicate_process_group", None) is not None:
        raise ParameterError(
            f"{name or 'the root module'} is not sharded over a one-dimensional mesh; give fully_shard the mesh of the "
            "shards alone, and FSDPHook(replicas=…) the group of the replicas"
        )
    return group
