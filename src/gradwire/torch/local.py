"""Local updates (local SGD, DiLoCo): many steps for oneself, then one exchange of how far they led."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import gradwire
from gradwire import Codec
from gradwire.errors import ParameterError
from gradwire.kernels.threads import limit_threads
from gradwire.torch.agreement import agree
from gradwire.torch.gathered import Gathered
from gradwire.torch.replicas import check_replicas
from gradwire.torch.round_start import RoundStart
from gradwire.torch.sharded import Exchanged, Sharded
from gradwire.torch.shards import Residual, cut
from gradwire.torch.states import part_of, parts, redraw
from gradwire.torch.weights import Weights

__all__ = ["LocalStats", "LocalUpdates"]

STATE_VERSION = 3


def nesterov(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """The outer optimizer of DiLoCo: SGD with learning rate 0.7 and Nesterov momentum 0.9."""
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


@dataclass(frozen=True)
class LocalStats:
    """What the rounds of one rank came to.

    Attributes:
        rounds: rounds ended, the skipped ones included.
        skipped: rounds taken back because something was not finite on some rank.
        dense_bytes: bytes of the exchanged vectors in float32, of one rank.
        message_bytes: bytes of the messages that this rank encoded.
        sent_bytes: bytes that left this rank, lengths included.
    """

    rounds: int = 0
    skipped: int = 0
    dense_bytes: int = 0
    message_bytes: int = 0
    sent_bytes: int = 0


class LocalUpdates:
    """Train each replica for itself, and every H steps move all of them by the mean of their compressed ways.

    With θ the common parameters at the start of a round, and θ_i those of rank i after H steps of its own optimizer:
    Δ_i = θ − θ_i is sent with error feedback, in either topology, and θ ← outer(θ, gradient = mean of C(Δ_i + e_i)).
    Then every rank goes on from θ; its own optimizer keeps its state. With `ahead` = a > 0 rank i takes its
    steps from θ − a·e_i, and Δ_i is the way from there: it learns what its residual does not hold already.

    - Which tensors travel how: see `Weights`. Parameters move by the outer optimizer; running means and variances
      of batch norms become their mean over the ranks. Everything else stays each rank's own.
    - If something is not finite on any rank, the round is taken back on all of them: θ as it was, residuals too. A
      rank whose own part was not finite also forgets its inner optimizer's state, which may be spoiled.
    - θ, the outer optimizer's state and the mean are the same bytes on all ranks; every `check_every` rounds a
      checksum of θ proves it.
    - Needed above training: θ in float32, the outer optimizer's state, and residuals of 4 bytes an entry (in the
      sharded topology 4/W more), these on the CPU.

    Args:
        model: the replica of this rank: not wrapped in DDP, equal on all ranks.
        optimizer: the inner one; the parameters that it does not hold are frozen.
        codec: a contractive codec or its text form.
        every: H ≥ 1, steps of a round.
        outer: makes the outer optimizer of float32 copies of the parameters.
        topology: "sharded", traffic independent of the number of ranks, or "gather", one compression only.
        small: parameters with fewer entries go dense.
        seed: of the codec's randomness; the same on every rank.
        error_feedback: send later what a message left out; without it any codec is taken.
        ahead: the share of its residual that a rank trains ahead from, 0 to 1; 0 is plain error feedback.
        check_every: rounds between two checks that the replicas are equal; 0 is never.
        group: a gloo group that carries nothing else; a new one of all ranks by default.

    Raises:
        ParameterError: on every rank, if the ranks differ in codec, settings, model layout or version; a parameter
            outside its definition; a codec that does not suit the parameters or error feedback.
        RuntimeError: the ranks' parameters differ.

    Example:
        >>> codec = "topk:k=0.015625,values=sd(alpha=0.05)"
        >>> updates = LocalUpdates(model, optimizer, codec, every=50)                            # doctest: +SKIP
        >>> for x, y in batches:                                                                 # doctest: +SKIP
        ...     optimizer.zero_grad(); loss(model(x), y).backward(); optimizer.step()
        ...     updates.step()

    Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023, Algorithm 1;
    compressed with error feedback: Sarfi et al., SparseLoCo, 2025; ahead=1 is the step ahead of Xu, Huo and Huang,
    AAAI 2021. Differs: SparseLoCo decays the residual and has no outer momentum; give
    `outer=lambda p: torch.optim.SGD(p, lr=1)` for the latter.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        codec: Codec | str,
        *,
        every: int,
        outer: Callable[[list[torch.Tensor]], torch.optim.Optimizer] = nesterov,
        topology: str = "sharded",
        small: int = 1024,
        seed: int = 0,
        error_feedback: bool = True,
        ahead: float = 0.5,
        check_every: int = 10,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        limit_threads(torch.get_num_threads())
        codec = gradwire.from_spec(codec) if isinstance(codec, str) else codec
        for name, value, least in (("every", every, 1), ("small", small, 0), ("check_every", check_every, 0)):
            if value < least:
                raise ParameterError(f"{name} is {value}; give {least} or more")
        if not 0 <= ahead <= 1:
            raise ParameterError(f"ahead is {ahead}; give a share in 0 … 1")
        if topology not in ("sharded", "gather"):
            raise ParameterError(f"topology is {topology!r}; give 'sharded' or 'gather'")
        self.optimizer = optimizer
        self.every = every
        self.check_every = check_every
        self.weights = Weights(model, optimizer, small)
        agree(
            {
                "gradwire version": gradwire.__version__,
                "codec": str(codec),
                "settings": f"every={every}, topology={topology}, small={small}, seed={seed}, "
                f"error_feedback={error_feedback}, ahead={ahead}, check_every={check_every}",
                "model layout": self.weights.describe(),
            },
            dist.get_process_group_ranks(group) if group else range(dist.get_world_size()),
        )
        self._group = group or dist.new_group(backend="gloo")
        sections = self.weights.sections(codec)
        settings: dict[str, Any] = {"seed": seed, "error_feedback": error_feedback}
        self._topology: Sharded | Gathered = (
            Sharded(cut(sections, dist.get_world_size(self._group)), self._group, **settings)
            if topology == "sharded"
            else Gathered(sections, self._group, **settings)
        )
        self._sections = sections
        self._residual = self._topology.start()
        with torch.no_grad():
            self._start = {
                name: nn.Parameter(p.detach().to(torch.float32, copy=True).contiguous())
                for name, p in self.weights.parameters.items()
            }
            self._statistics = {name: buffer.clone() for name, buffer in self.weights.statistics.items()}
        self._round_start = RoundStart(ahead if error_feedback else 0.0, self.weights, self._start)
        self._round_start.attach(optimizer)
        self._round_start.renew(self._residual.sent)
        self.outer = outer(list(self._start.values()))
        self._round = 0
        self._steps = 0
        self._stats = LocalStats()
        self._check("at the start")

    @property
    def steps_in_round(self) -> int:
        """Steps since the last round ended; 0 where all replicas are equal."""
        return self._steps

    def step(self) -> bool:
        """Count a step of the inner optimizer, and end the round if it was the H-th; then collective.

        Call it once after each step of the inner optimizer, also when a GradScaler skipped that step: the ranks
        count alike whatever happens on one of them.

        Returns:
            whether a round has ended: all replicas are equal now.

        Raises:
            RuntimeError: a rank failed, is at another round, or its replica has diverged.
        """
        self._steps += 1
        if self._steps < self.every:
            return False
        self.end_round()
        return True

    @torch.no_grad()
    def end_round(self) -> None:
        """End the round now, after however many steps; collective. For the end of training."""
        way = self._way()
        done = self._topology.exchange(self._round, way, self._residual)
        if done.mean is None:
            if not bool(way.isfinite().all()):
                self.optimizer.state.clear()
        else:
            self._move(done.mean)
        self._residual = done.residual
        self._follow()
        self._count(done)
        self._round += 1
        self._steps = 0
        if self.check_every and self._round % self.check_every == 0:
            self._check(f"after round {self._round - 1}")

    def _way(self) -> torch.Tensor:
        """The vector of this rank: Δ_i of the parameters, values of the statistics; float32 on the CPU."""
        flat = torch.empty(self.weights.n)
        for name, p in self.weights.parameters.items():
            difference = self._round_start.of(name) - p.float()
            self.weights.places[name].of(flat).copy_(difference.flatten())
        for name, buffer in self.weights.statistics.items():
            self.weights.places[name].of(flat).copy_(buffer.flatten())
        return flat

    def _move(self, mean: torch.Tensor) -> None:
        for name, start in self._start.items():
            start.grad = self.weights.places[name].of(mean).view_as(start).to(start.device)
        self.outer.step()
        self.outer.zero_grad()
        for name, buffer in self._statistics.items():
            buffer.copy_(self.weights.places[name].of(mean).view_as(buffer))

    @torch.no_grad()
    def _follow(self) -> None:
        """Set the model to the start of the round."""
        self._round_start.renew(self._residual.sent)
        for name, buffer in self.weights.statistics.items():
            buffer.copy_(self._statistics[name])

    def _check(self, when: str) -> None:
        check_replicas([*self._start.values(), *self._statistics.values()], self._group, f"the model {when}")

    def _count(self, done: Exchanged) -> None:
        self._stats = LocalStats(
            rounds=self._stats.rounds + 1,
            skipped=self._stats.skipped + (done.mean is None),
            dense_bytes=self._stats.dense_bytes + 4 * self.weights.n,
            message_bytes=self._stats.message_bytes + done.message_bytes,
            sent_bytes=self._topology.bytes.sent_bytes,
        )

    def stats(self) -> LocalStats:
        """Return the counts of this rank since it was made."""
        return self._stats

    def state_dict(self) -> dict[str, Any]:
        """Return what this rank needs to go on: tensors and numbers only.

        Each rank saves its own, together with its model and its inner optimizer: within a round they differ. The rank's
        part has a key of its own, so that the states of all ranks fit in one (`merge_states`, or a distributed
        checkpoint). Residuals are flat and by parameter name; `owned` is that of the shard that this rank owns.
        """
        outer = deepcopy(self.outer.state_dict())  # PyTorch gives the tensors that the next step changes
        return {
            "version": STATE_VERSION,
            "world_size": self._topology.bytes.world,
            "round": self._round,
            "steps": self._steps,
            part_of(self._topology.bytes.rank): {
                "away": int(self._round_start.away),
                "start": {name: p.detach().clone() for name, p in self._start.items()},
                "statistics": {name: buffer.clone() for name, buffer in self._statistics.items()},
                "outer": outer,
                "outer_tensors": _tensors(outer),
                "residuals": self.weights.by_name(self._residual.sent),
                "owned": self._residual.owned.clone(),
            },
        }

    def load_state_dict(self, state: Mapping[str, Any], keep: str = "sum") -> None:
        """Go on from a state; with model and inner optimizer loaded too, with the same bits as if never stopped.

        From a run with another number of ranks, take the states of all of them as one (`merge_states`), saved at the
        end of a round: rank j gets the residuals of the old ranks j, j + W', j + 2W', …, W' ranks being there now, so
        that the sum over the ranks is kept (exactly where W' grows, else up to float32 rounding); the owners' residuals
        are handed to the new owners. The sum is what is owed if the learning rate grows with the number of ranks; if
        it does not, `keep="mean"` scales by W'/W. The inner optimizer's state is the caller's to load from any rank.

        At the end of a round the parameters and statistics of the model are set, too.

        Raises:
            ParameterError: a state of another version, topology or model; of another number of ranks and within a
                round; parts of the old ranks are missing.
        """
        if state.get("version") != STATE_VERSION:
            raise ParameterError(f"the state has version {state.get('version')}, this is version {STATE_VERSION}")
        if keep not in ("sum", "mean"):
            raise ParameterError(f"keep is {keep!r}; give 'sum' or 'mean'")
        rank, world = self._topology.bytes.rank, self._topology.bytes.world
        theirs, old = parts(state, rank, world), int(state["world_size"])
        if old != world and state["steps"]:
            raise ParameterError(
                f"the state was saved after {state['steps']} steps of a round; for another number of ranks, save it "
                "at the end of one (steps_in_round is 0)"
            )
        heirs = theirs if old == world else theirs[rank::world]
        residuals = [self.weights.flatten(part.get("residuals", {})) for part in heirs] or [torch.zeros(self.weights.n)]
        sent = residuals[0]  # and not 0 + it, which would lose the sign of −0
        for other in residuals[1:]:
            sent += other
        if keep == "mean":
            sent *= world / old
        places = self._places(old)
        was = [places[rank]] if old == world else places
        owned = redraw([part["owned"] for part in theirs], was, self._places(world)[rank], self.weights.n)
        self._load_common(theirs[0])
        self._residual = Residual(sent, owned)
        self._round, self._steps = int(state["round"]), int(state["steps"])
        if self._steps:
            self._round_start.resume(self._residual.sent, bool(theirs[0]["away"]))
        else:
            self._follow()

    def _places(self, world: int) -> list[list[slice]]:
        """What each of `world` ranks owns of the vector."""
        if isinstance(self._topology, Gathered):
            return [[] for _ in range(world)]
        return [[slice(s.start, s.stop) for s in shard] for shard in cut(self._sections, world)]

    def _load_common(self, state: Mapping[str, Any]) -> None:
        """What is the same on all ranks: the start of the round and the outer optimizer."""
        # A distributed checkpoint makes texts of the optimizer's numbers of parameters, and loses empty dictionaries.
        state = {"start": {}, "statistics": {}, **state}
        outer = {"state": {}, **state["outer"]}
        outer["state"] = {int(key): kept for key, kept in outer["state"].items()}
        if _tensors(outer) != state["outer_tensors"]:
            raise ParameterError(
                f"the state has {_tensors(outer)} of the outer optimizer's {state['outer_tensors']} tensors; a "
                "distributed checkpoint loads only what the dictionary given to it has, and a new outer optimizer has "
                "none: make one file of the checkpoint with dcp_to_torch_save, and load that"
            )
        for key, own in (("start", self._start), ("statistics", self._statistics)):
            theirs = {name: tuple(tensor.shape) for name, tensor in state[key].items()}
            if theirs != {name: tuple(tensor.shape) for name, tensor in own.items()}:
                raise ParameterError(f"the state's {key} has other names or shapes than the model; load its own state")
            with torch.no_grad():
                for name, tensor in own.items():
                    tensor.copy_(state[key][name])
        self.outer.load_state_dict(outer)


def _tensors(outer: Mapping[str, Any]) -> int:
    return sum(isinstance(value, torch.Tensor) for kept in outer["state"].values() for value in kept.values())
