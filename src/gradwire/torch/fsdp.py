"""FSDP2: gradients of `fully_shard` modules through compressed messages, in the seats that FSDP2 has for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.variable import Variable
from torch.distributed.fsdp import FSDPModule

import gradwire
from gradwire import Codec
from gradwire.errors import ParameterError
from gradwire.kernels.threads import limit_threads
from gradwire.torch.agreement import agree
from gradwire.torch.collectives import gather_numbers
from gradwire.torch.fsdp_layout import pieces_of, shard_group
from gradwire.torch.fsdp_seats import ReduceScatterSeat, ReplicasSeat, Seat
from gradwire.torch.fsdp_state import Kept
from gradwire.torch.states import part_of, parts
from gradwire.torch.units import Scratch

__all__ = ["FSDPHook"]

STATE_VERSION = 2


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
        self.scratch = Scratch()
        """Memory for the vector of one module at a time."""
        self._seats: list[Seat] = []
        self._step = 0
        self._spoilt = False
        self._task = -1

    def register(self, model: nn.Module) -> FSDPHook:
        """Take the seat in every FSDP module of the model; collective: all ranks of the job call it.

        Raises:
            ParameterError: on every rank, if the ranks differ in codec, settings, model or version; no FSDP module,
                one of an FSDP mesh that does not fit, or a codec that does not suit a parameter or error feedback.
        """
        limit_threads(torch.get_num_threads())
        if self._seats:
            raise ParameterError("this hook serves a model already; make another FSDPHook for the second one")
        modules = [(name, module) for name, module in model.named_modules() if isinstance(module, FSDPModule)]
        if not modules:
            raise ParameterError("the model has no FSDP2 module; call fully_shard on it first")
        self._model = model
        pieces = {name: pieces_of(model, module, self.small) for name, module in modules}
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
            shards = shard_group(module, name)
            group = self.replicas or shards
            shared = twins[id(group)] = twins.get(id(group)) or gloo_twin(group)
            # Zeros for parameters without a gradient: the seat is not told which of them are left out.
            module.set_reduce_scatter_unused_params(True)
            seat = (
                ReduceScatterSeat(self, index, pieces[name], shared)
                if self.replicas is None
                else ReplicasSeat(self, index, pieces[name], shared, dist.get_rank(shards))
            )
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

        Residuals are by parameter, flat, in the order of the whole parameter and not of FSDP's shards. The rank's part
        has a key of its own, so that the states of all ranks fit in one (`merge_states`, or a distributed checkpoint).
        """
        return {
            "version": STATE_VERSION,
            "world_size": dist.get_world_size(),
            "step": self._step,
            part_of(dist.get_rank()): {kept.name: kept.state() for kept in self._kept()},
        }

    def load_state_dict(self, state: Mapping[str, Any], keep: str = "sum") -> None:
        """Go on from a state, with the same bits as if training had never stopped.

        From a run with another number of ranks, take the states of all of them as one (`merge_states`). With R' ranks
        now that send the same entries, and R before: sender j gets the residuals of the old senders j, j + R', …, so
        that the sum is kept (exactly where R' grows, else up to float32 rounding); the owners' residuals are handed to
        the new owners. The sum is what is owed if the learning rate grows with the number of ranks; if it does not,
        `keep="mean"` scales by R'/R.

        Raises:
            ParameterError: a state of another version, model or kind of seat, or of a mesh of another shape with
                equally many ranks; parts of the old ranks are missing. Nothing is changed then.
        """
        if state.get("version") != STATE_VERSION:
            raise ParameterError(f"the state has version {state.get('version')}, this is version {STATE_VERSION}")
        if keep not in ("sum", "mean"):
            raise ParameterError(f"keep is {keep!r}; give 'sum' or 'mean'")
        world = dist.get_world_size()
        same = int(state["world_size"]) == world
        theirs = parts(state, dist.get_rank(), world)
        mine = list(self._kept())
        for part in theirs:
            odd = sorted({kept.name for kept in mine} ^ set(part))
            if odd:
                raise ParameterError(
                    f"the state and the model differ in the compressed parameters {', '.join(odd)}; load the state of "
                    "this model, made with the same `small`"
                )
        for kept in mine:
            kept.check([part[kept.name] for part in theirs], same)
        for kept in mine:
            kept.load([part[kept.name] for part in theirs], same, keep)
        self._step = int(state["step"])

    def _kept(self) -> Iterator[Kept]:
        for seat in self._seats:
            yield from seat.kept()


def gloo_twin(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """A gloo group of the same ranks, in which no collective of others comes between."""
    ranks = dist.get_process_group_ranks(group)
    twin: dist.ProcessGroup = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return twin
