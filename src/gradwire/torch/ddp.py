"""The communication hook for DistributedDataParallel: gradients as messages."""

# No `from __future__ import annotations` here: DDP compares the annotations of a hook with its own types.
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire import Codec
from gradwire.errors import ParameterError
from gradwire.kernels.threads import limit_threads
from gradwire.policy import WarmUp
from gradwire.torch.agreement import agree, own_group
from gradwire.torch.ahead import Ahead
from gradwire.torch.buffers import Buffers
from gradwire.torch.layout import Layout
from gradwire.torch.scaling import Factors, unwrapped
from gradwire.torch.shards import check_codec
from gradwire.torch.states import part_of, parts, redraw
from gradwire.torch.statistics import HookStats, Measured, StepMeasured
from gradwire.torch.steps import Bucket, Steps
from gradwire.torch.topologies import GatherTopology, ShardedTopology
from gradwire.torch.variants import Classic, NoFeedback, Variant

__all__ = ["DDPHook"]

STATE_VERSION = 2


class DDPHook:
    """Average the gradients of a DistributedDataParallel model through compressed messages.

    In each step, rank i sends C(p_i), p_i = g_i + e_i; every rank, the sender too, decodes the same bytes in the same
    order, so that the replicas stay equal bit for bit: average = (1/W) Σ C(p_i), e_i ← p_i − C(p_i). Sums are float32
    whatever the parameters are.

    - The residual e belongs to a parameter's name, is float32 and lives on the CPU. Other variants of error feedback:
      `Classic`, `MomentumCorrection`, `EF21`.
    - Tensors of fewer than two dimensions or fewer than `small` entries go dense in float32.
    - If a gradient is not finite on any rank, all ranks get NaN for the whole step and nothing that is kept changes
      anywhere: skip the optimizer's step, as GradScaler does, and training goes on.
    - The randomness of rank, step and parameter are independent streams of `seed`; PyTorch's global generators are
      not touched.
    - Encoding and exchange run on a thread of their own, bucket after bucket, while backward goes on; the exchange
      has its own gloo process group. Decoding follows at the end of backward, when all ranks know that the step
      counts. Gradients on another device are copied to the CPU and back.
    - Memory beside DDP's own: the buffers of the variant (one float32 an entry for the residual), scratch of at most
      two buckets, and the messages of one step.

    Args:
        codec: a codec or its text form, e.g. "rtopk:k=0.01,r=0.03".
        topology: "gather", every message to every rank, or "sharded", traffic that does not grow with the number
            of ranks, but two compressions.
        error_feedback: True (classic), False, or a variant. It needs a contractive codec.
        units: "gradient", or "step": what is kept and sent is multiplied by the learning rate of the step, and
            divided again for the optimizer, so that an old residual has the step that it was due. Needs `optimizer`.
        ahead: take the gradient where the residual, once it is sent, will bring the model: at
            w − ahead·(learning rate)·e, from forward in training mode to the end of backward. 0 is not to; SGD goes as
            far as 1 says, with momentum m as 1/(1 − m). For sparse messages and few steps, which else lag. Needs
            `optimizer`, an SGD, and memory for a copy of the compressed parameters.
        optimizer: whose learning rates these are.
        scaler: the GradScaler in use: what is kept is free of its scale, which may change.
        clip: clip the norm of the local gradient to clip/√W before it is added to the residual; in the units of the
            unscaled gradient. It is known only when backward has ended, so that nothing is sent before.
        whole_model: one vector of all compressed parameters, so that k counts for the model and not for each
            parameter. It is complete only when backward has ended; needs scratch of the model's size.
        warm_up: a sparsifier sends more in so many first steps, see `WarmUp`.
        small: tensors with fewer entries go dense.
        dense: patterns of names that go dense, e.g. ("embed.*",).
        seed: of the codec's randomness; the same on every rank.
        check_every: compare a checksum of the parameters over the ranks every so many steps; 0 is never.
        nmse_every: measure errors, cosines and residuals every so many steps; 0 is never.
        history: how many steps `stats()` gives one by one.
        callback: called with the `StepMeasured` of every step, on the hook's thread.
        prepare: called with each GradBucket before it is taken, for what another hook would do to it.
        timeout: how long to wait for the other ranks in one exchange.
        group: a gloo group of the model's ranks that carries nothing but the messages; hooks can share it one
            after the other. A new one by default.

    Raises:
        ParameterError: a parameter outside its definition.

    Example:
        >>> model = DistributedDataParallel(net)                             # doctest: +SKIP
        >>> hook = DDPHook("rtopk:k=0.01,r=0.03").register(model)            # doctest: +SKIP
        >>> loss(model(x), y).backward(); optimizer.step()                   # doctest: +SKIP
        >>> hook.stats().total.ratio                                         # doctest: +SKIP
        74.1

    Source: error feedback, Karimireddy et al., ICML 2019; top-k on gathered messages, Aji and Heafield, EMNLP 2017;
    clipping, warm-up and momentum correction, Lin et al., ICLR 2018; the step ahead, Xu, Huo and Huang, AAAI 2021.
    """

    def __init__(
        self,
        codec: Codec | str,
        *,
        topology: str = "gather",
        error_feedback: bool | Variant = True,
        units: str = "gradient",
        ahead: float = 0.0,
        optimizer: torch.optim.Optimizer | None = None,
        scaler: Any = None,
        clip: float | None = None,
        whole_model: bool = False,
        warm_up: int | WarmUp = 0,
        small: int = 1024,
        dense: Sequence[str] = (),
        seed: int = 0,
        check_every: int = 100,
        nmse_every: int = 10,
        history: int = 1000,
        callback: Callable[[StepMeasured], None] | None = None,
        prepare: Callable[[Any], None] | None = None,
        timeout: timedelta = timedelta(minutes=5),
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self.codec: Codec = gradwire.from_spec(codec) if isinstance(codec, str) else codec
        counts = {"small": small, "nmse_every": nmse_every, "history": history, "check_every": check_every}
        for name, value in counts.items():
            if value < 0:
                raise ParameterError(f"{name} is {value}; give 0 or more")
        if topology not in ("gather", "sharded"):
            raise ParameterError(f"topology is {topology!r}; give 'gather' or 'sharded'")
        if isinstance(error_feedback, bool):
            error_feedback = Classic() if error_feedback else NoFeedback()
        self.variant: Variant = error_feedback
        self.warm_up = warm_up if isinstance(warm_up, WarmUp) else WarmUp(self.codec, warm_up)
        optimizer = unwrapped(optimizer)
        self.factors = Factors(units, optimizer, scaler, clip)
        self.ahead = ahead
        self._optimizer = optimizer
        self._check_ahead(ahead, units, optimizer)
        self.topology = topology
        self.whole_model = whole_model
        self.small = small
        self.dense = tuple(dense)
        self.seed = seed
        self.check_every = check_every
        self.nmse_every = nmse_every
        self.history = history
        self.callback = callback
        self.prepare = prepare
        self.timeout = timeout
        self.group = group
        self.resting = False
        """Whether compression was judged not to pay: DDP's own all-reduce is at work, and the state is empty."""
        self._steps: Steps | None = None
        self._ahead: Ahead | None = None
        # One thread, first in first out: the collectives keep DDP's order of buckets, the same on all ranks.
        self._courier = ThreadPoolExecutor(1, thread_name_prefix="gradwire")

    def register(self, model: DistributedDataParallel) -> "DDPHook":
        """Become the communication hook of the model; collective: every rank of its process group calls it.

        Raises:
            ParameterError: on every rank, if the ranks differ in codec, settings, model or version; if model
                is not a DistributedDataParallel, the hook has a model already, or the codec does not suit
                one of the parameters or error feedback.
            RuntimeError: some rank does not register within 30 seconds.
        """
        if not isinstance(model, DistributedDataParallel):
            raise ParameterError(
                f"register wants a DistributedDataParallel model and got {type(model).__name__}; "
                "wrap it first: DistributedDataParallel(model)"
            )
        if self._steps is not None:
            raise ParameterError("this hook serves a model already; make another DDPHook for the second one")
        limit_threads(torch.get_num_threads())
        layout = Layout(model.module.named_parameters(), self.small, self.dense)
        self.factors.check(layout)
        sizes = [(p.name, p.size) for p in layout.compressed]
        check_codec(self.codec, [("the model", layout.n)] if self.whole_model else sizes, self.variant.contractive)
        ranks = dist.get_process_group_ranks(model.process_group)
        agree(
            {
                "gradwire version": gradwire.__version__,
                "codec": str(self.codec),
                "settings": f"topology={self.topology}, error_feedback={self.variant}, {self.factors.describe()}, "
                f"ahead={self.ahead}, whole_model={self.whole_model}, small={self.small}, dense={self.dense}, "
                f"warm_up={self.warm_up.steps} from {self.warm_up.start}, seed={self.seed}, "
                f"check_every={self.check_every}",
                "model layout": layout.describe(),
            },
            ranks,
        )
        # A group of its own: no other collective, DDP's included, can come between ours.
        group = self.group or own_group(ranks, self.timeout)
        feedback = bool(self.variant.buffers)
        buffers = Buffers(self.variant.buffers, layout.compressed)
        if self.ahead and self._optimizer is not None:
            self._ahead = Ahead(self.ahead, self.factors, layout.compressed, buffers, self._optimizer)
            self._ahead.attach(model)
        self._steps = Steps(
            self,
            layout,
            buffers,
            ShardedTopology(group, feedback) if self.topology == "sharded" else GatherTopology(group),
            ranks,
            self._ahead,
        )
        model.register_comm_hook(state=None, hook=self._hook)
        return self

    def rest(self) -> None:
        """Leave the gradients to DDP's own all-reduce; instead of `register`."""
        self.resting = True

    def stats(self) -> HookStats:
        """Return the measurements of this rank: the latest steps one by one, and the total of all."""
        if self.resting:
            return HookStats((), Measured(), {})
        return self._registered().recorder.stats()

    def state_dict(self) -> dict[str, Any]:
        """Return the step counter and what this rank keeps: tensors and numbers only; each rank saves its own.

        Residuals are flat, in the storage order of their parameter. The rank's part has a key of its own, so that the
        states of all ranks fit in one (`merge_states`, or a distributed checkpoint).
        """
        if self.resting:
            return {"version": STATE_VERSION, "world_size": dist.get_world_size(self.group), "step": 0}
        steps = self._registered()
        part: dict[str, Any] = {name: steps.buffers.state(name) for name in self.variant.buffers}
        part["owned"] = steps.topology.residual.clone()
        world = steps.topology.bytes.world
        return {
            "version": STATE_VERSION,
            "world_size": world,
            "step": steps.step,
            "sharded": int(self.topology == "sharded"),
            part_of(steps.topology.bytes.rank): part,
        }

    def load_state_dict(self, state: Mapping[str, Any], keep: str = "sum") -> None:
        """Go on from a state, with the same bits as if training had never stopped.

        From a run with another number of ranks, take the states of all of them as one (`merge_states`): rank j gets the
        residuals of the old ranks j, j + W', j + 2W', …, W' ranks being there now, so that the sum over the ranks is
        kept (exactly where W' grows, else up to float32 rounding); the owners' residuals are handed to the new owners.
        The sum is what is owed if the learning rate grows with the number of ranks; if it does not, `keep="mean"`
        scales by W'/W. EF21 starts all ranks from the common mean instead.

        Raises:
            ParameterError: a state of another version or model, or parts of the old ranks are missing.
        """
        if state.get("version") != STATE_VERSION:
            raise ParameterError(f"the state has version {state.get('version')}, this is version {STATE_VERSION}")
        empty = not any(key.startswith("rank") for key in state)  # of a hook that rested
        if self.resting and not empty:
            raise ParameterError(
                "the state is of a run with compression, which was judged not to pay this time: its residuals would be "
                "lost; give when='always'"
            )
        if self.resting or empty:
            return
        steps = self._registered()
        if bool(state["sharded"]) != (self.topology == "sharded"):
            raise ParameterError(
                f"the state is of the {'sharded' if state['sharded'] else 'gather'} topology and this hook has "
                f"{self.topology!r}; give topology= as it was (or compress(…, resume=state))"
            )
        if keep not in ("sum", "mean"):
            raise ParameterError(f"keep is {keep!r}; give 'sum' or 'mean'")
        rank, world = steps.topology.bytes.rank, steps.topology.bytes.world
        theirs = parts(state, rank, world)
        for part in theirs:
            if set(part) != {*self.variant.buffers, "owned"}:
                raise ParameterError(
                    f"the state holds {', '.join(sorted(part))}, {self.variant} keeps "
                    f"{', '.join(sorted((*self.variant.buffers, 'owned')))}; give the hook the same error_feedback"
                )
        for name in self.variant.buffers:
            steps.buffers.check(name, [part[name] for part in theirs])
        if int(state["world_size"]) == world:
            if theirs[0]["owned"].numel() != steps.topology.residual.numel():
                raise ParameterError(
                    f"the state owns {theirs[0]['owned'].numel()} entries, this rank "
                    f"{steps.topology.residual.numel()}; load the state of this model, made with the same settings"
                )
            for name in self.variant.buffers:
                steps.buffers.load(name, theirs[0][name])
            steps.topology.residual.copy_(theirs[0]["owned"])
        else:
            self._reshare(steps, theirs, rank, world, keep)
        steps.step = int(state["step"])

    def _reshare(self, steps: Steps, theirs: Sequence[Mapping[str, Any]], rank: int, world: int, keep: str) -> None:
        topology = steps.topology
        old = [topology.owned(len(theirs), r) for r in range(len(theirs))]
        owned = redraw([part["owned"] for part in theirs], old, topology.owned(world, rank), steps.layout.n)
        for name in self.variant.summed:
            steps.buffers.load(name, *(part[name] for part in theirs[rank::world]))
            if keep == "mean":
                steps.buffers.scale(name, world / len(theirs))
        for name in self.variant.common:
            steps.buffers.load(name, theirs[0][name])
        for name, common in self.variant.restarted.items():
            steps.buffers.load(name, theirs[0][common])
            owned.zero_()  # the common buffer is without it; the ranks begin equal to the common one, and owe nothing
        if topology.residual.numel():
            topology.residual.copy_(owned)

    def _registered(self) -> Steps:
        if self._steps is None:
            raise ParameterError("the hook has no model yet; call register(model) first")
        return self._steps

    def _check_ahead(self, ahead: float, units: str, optimizer: torch.optim.Optimizer | None) -> None:
        if not 0 <= ahead < inf:
            raise ParameterError(f"ahead is {ahead}; give 0 or more")
        if ahead and "residual" not in self.variant.buffers:
            raise ParameterError(f"ahead is {ahead}, and {self.variant} keeps no residual to go ahead by")
        if ahead and not isinstance(optimizer, torch.optim.SGD):
            raise ParameterError(
                f"ahead={ahead} needs optimizer=, an SGD: the residual's step is its learning rate times the residual; "
                f"got {type(optimizer).__name__}"
            )
        if optimizer is not None and not ahead and units != "step":
            raise ParameterError("optimizer is given, and nothing uses it: it is for units='step' and for ahead")

    def _hook(self, state: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:  # type: ignore[name-defined]
        if self.prepare is not None:
            self.prepare(bucket)
        steps = self._registered()
        gradients = bucket.buffer()
        on_cpu = gradients.device.type == "cpu"
        # On this thread, where the gradient's stream is current.
        flat = gradients.detach() if on_cpu else gradients.detach().to("cpu")
        future: Future[torch.Tensor] = Future(devices=[] if on_cpu else [gradients.device])
        pieces = steps.layout.pieces(bucket, flat)
        if self._ahead is not None and bucket.is_last():
            self._ahead.after_backward()
        own = torch._C._current_graph_task_id() >= 0
        taken = Bucket(bucket.index(), bucket.is_last(), gradients, flat, pieces, future, own)
        self._courier.submit(steps.take, taken)
        return future.then(lambda done: done.value())
