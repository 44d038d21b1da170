"""The communication hook for DistributedDataParallel: gradients as messages, from every rank to every rank."""

# No `from __future__ import annotations` here: DDP compares the annotations of a hook with its own types.
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire import Codec, Rng, feedback
from gradwire.errors import InputError, ParameterError
from gradwire.torch.agreement import agree
from gradwire.torch.exchange import Gather
from gradwire.torch.layout import Layout, Piece
from gradwire.torch.residuals import Residuals
from gradwire.torch.statistics import HookStats, Measured, Recorder

__all__ = ["DDPHook"]

STATE_VERSION = 1
DENSE = gradwire.Identity()


@dataclass(frozen=True)
class _Bucket:
    """What is needed of a GradBucket after the hook call has returned; dense pieces travel as one message."""

    index: int
    last: bool
    gradients: torch.Tensor
    compressed: list[Piece]
    dense: list[Piece]

    @property
    def messages(self) -> int:
        return len(self.compressed) + bool(self.dense)


class DDPHook:
    """Average the gradients of a DistributedDataParallel model through compressed messages.

    In each step, rank i sends C(p_i), p_i = g_i + residual_i, to all ranks; every rank, the sender too,
    decodes the same bytes in the same order, so that the replicas stay equal bit for bit:
    average = (1/W) Σ C(p_i), residual_i ← p_i − C(p_i). Sums are float32 whatever the parameters are.

    - A residual belongs to a parameter's name, is float32 in gradient units, and lives on the CPU.
    - Tensors of fewer than two dimensions or fewer than `small` entries go dense in float32.
    - If a gradient is not finite on any rank, all ranks get NaN for the rest of the step and no residual
      changes anywhere: skip the optimizer's step, as GradScaler does, and training goes on.
    - The randomness of rank, step and parameter are independent streams of `seed`; PyTorch's global
      generators are not touched.
    - Encoding, exchange and decoding run on a thread of their own, bucket after bucket, while backward
      goes on; the exchange has its own gloo process group. Gradients on another device are copied to
      the CPU and back.

    Args:
        codec: a codec or its text form, e.g. "rtopk:k=0.01,r=0.03".
        error_feedback: keep what a message left out for the next step. Needs a contractive codec.
        small: tensors with fewer entries go dense.
        seed: of the codec's randomness; the same on every rank.
        nmse_every: measure the error of the messages every so many steps; 0 is never.
        history: how many steps `stats()` gives one by one.
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

    Source: error feedback, Karimireddy et al., ICML 2019; top-k on gathered messages, Aji and Heafield,
    EMNLP 2017.
    """

    def __init__(
        self,
        codec: Codec | str,
        *,
        error_feedback: bool = True,
        small: int = 1024,
        seed: int = 0,
        nmse_every: int = 10,
        history: int = 1000,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self.codec: Codec = gradwire.from_spec(codec) if isinstance(codec, str) else codec
        for name, value in (("small", small), ("nmse_every", nmse_every), ("history", history)):
            if value < 0:
                raise ParameterError(f"{name} is {value}; give 0 or more")
        self.error_feedback = error_feedback
        self.small = small
        self.seed = seed
        self.nmse_every = nmse_every
        self._group = group
        self._recorder = Recorder(history)
        self._step = 0
        self._skipping = False
        self._current = Measured()
        self._layout: Layout | None = None
        # One thread, first in first out: the collectives keep DDP's order of buckets, the same on all ranks.
        self._courier = ThreadPoolExecutor(1, thread_name_prefix="gradwire")

    def register(self, model: DistributedDataParallel) -> "DDPHook":
        """Become the communication hook of the model; collective: every rank of its process group calls it.

        Raises:
            ParameterError: on every rank, if the ranks differ in codec, settings, model or version; if model
                is not a DistributedDataParallel, the hook has a model already, or the codec does not suit
                one of the parameters or error feedback.
        """
        if not isinstance(model, DistributedDataParallel):
            raise ParameterError(
                f"register wants a DistributedDataParallel model and got {type(model).__name__}; "
                "wrap it first: DistributedDataParallel(model)"
            )
        if self._layout is not None:
            raise ParameterError("this hook serves a model already; make another DDPHook for the second one")
        layout = Layout(model.module.named_parameters(), self.small)
        self._check(layout)
        # A group of its own: no other collective, DDP's included, can come between ours.
        ranks = dist.get_process_group_ranks(model.process_group)
        group = self._group or dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        agree(
            {
                "gradwire version": gradwire.__version__,
                "codec": str(self.codec),
                "settings": f"error_feedback={self.error_feedback}, small={self.small}, seed={self.seed}",
                "model layout": f"{len(layout.parameters)} parameters, {sum(p.size for p in layout.parameters)} "
                f"entries (names, shapes and types: {layout.fingerprint[:16]})",
            },
            group,
        )
        self._gather = Gather(group)
        self._rng = Rng(self.seed).child(self._gather.rank)
        self._residuals = Residuals(layout.compressed)
        self._layout = layout
        model.register_comm_hook(state=None, hook=self._hook)
        return self

    def _check(self, layout: Layout) -> None:
        """Refuse now what would fail, or diverge, in the middle of training."""
        for name, size in layout.compressed.items():
            try:
                guarantee = self.codec.guarantee(size)
            except ParameterError as error:
                raise ParameterError(f"{self.codec} does not suit {name}: {error}") from None
            if self.error_feedback and guarantee.error >= 1:
                raise ParameterError(
                    f"{self.codec} is not contractive on the {size} entries of {name}: with error feedback its "
                    "residual would grow without bound; give a contractive codec or error_feedback=False"
                )

    def stats(self) -> HookStats:
        """Return the measurements of this rank: the latest steps one by one, and the total of all."""
        return self._recorder.stats()

    def state_dict(self) -> dict[str, Any]:
        """Return the step counter and this rank's residuals: tensors and numbers only.

        Each rank saves its own. Residuals are flat, in the storage order of their parameter.
        """
        self._registered()
        return {
            "version": STATE_VERSION,
            "rank": self._gather.rank,
            "world_size": self._gather.world,
            "step": self._step,
            "residuals": self._residuals.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state_dict of the same rank, with the same bits as if training had never stopped.

        Raises:
            ParameterError: a state of another version, rank, world size or model.
        """
        self._registered()
        mine = {"version": STATE_VERSION, "rank": self._gather.rank, "world_size": self._gather.world}
        for key, value in mine.items():
            if state[key] != value:
                raise ParameterError(
                    f"the state has {key} {state[key]}, this process has {value}; "
                    "load on each rank the state that the same rank saved"
                )
        self._residuals.load(state["residuals"])
        self._step = int(state["step"])

    def _registered(self) -> Layout:
        if self._layout is None:
            raise ParameterError("the hook has no model yet; call register(model) first")
        return self._layout

    def _hook(self, state: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:  # type: ignore[name-defined]
        gradients = bucket.buffer()
        pieces = self._registered().pieces(bucket)
        taken = _Bucket(
            bucket.index(),
            bucket.is_last(),
            gradients,
            [piece for piece in pieces if not piece.parameter.dense],
            [piece for piece in pieces if piece.parameter.dense],
        )
        # On this thread, where the gradient's stream is current; a float32 buffer on the CPU is not copied.
        flat = gradients.detach().to("cpu", torch.float32)
        devices = [] if gradients.device.type == "cpu" else [gradients.device]
        future: Future[torch.Tensor] = Future(devices=devices)
        self._courier.submit(self._average, taken, flat, future)
        return future.then(lambda done: done.value())

    def _average(self, bucket: _Bucket, flat: torch.Tensor, future: Future[torch.Tensor]) -> None:
        """Turn the bucket's gradients into their average over the ranks, then complete the future."""
        try:
            with torch.no_grad():
                if bucket.index == 0:
                    self._begin()
                if not self._skipping:
                    self._exchange(bucket, flat)
                if self._skipping:
                    bucket.gradients.fill_(nan)
                elif flat.data_ptr() != bucket.gradients.data_ptr():
                    bucket.gradients.copy_(flat)
                if bucket.last:
                    self._end()
        except BaseException as error:  # whatever it is, the training loop must see it and not wait for ever
            future.set_exception(error)  # type: ignore[arg-type]
        else:
            future.set_result(bucket.gradients)

    def _begin(self) -> None:
        self._residuals.roll_back()  # left over if the last backward pass ended in an exception
        self._skipping = False
        self._current = Measured(steps=1)

    def _end(self) -> None:
        if self._skipping:
            self._residuals.roll_back()
            self._current = replace(self._current, skipped=1, coordinates=0, message_bytes=0, error=0.0, energy=0.0)
        else:
            self._residuals.commit()
        self._recorder.add(self._current)
        self._step += 1

    def _exchange(self, bucket: _Bucket, flat: torch.Tensor) -> None:
        begin = time.perf_counter()
        try:
            messages = self._encode(bucket, flat)
        except BaseException:
            self._gather.fail(self._step, bucket.index, bucket.messages)
            raise
        encoded = time.perf_counter()
        exchange = self._gather.exchange(self._step, bucket.index, bucket.messages, messages)
        decoding = time.perf_counter()
        self._skipping = exchange.messages is None
        if exchange.messages is not None:
            self._decode(bucket, flat, exchange.messages)
        self._current += Measured(
            coordinates=flat.numel(),
            message_bytes=sum(len(message) for message in messages or ()),
            sent_bytes=exchange.sent_bytes,
            encode_ms=1e3 * (encoded - begin),
            communicate_ms=1e3 * (decoding - encoded),
            decode_ms=1e3 * (time.perf_counter() - decoding),
        )

    def _encode(self, bucket: _Bucket, flat: torch.Tensor) -> list[bytes] | None:
        """Return the bucket's messages, or None if what they would hold is not finite."""
        rng = self._rng.child(self._step % 2**32)
        messages = []
        try:
            for piece in bucket.compressed:
                messages.append(self._message(piece, piece.of(flat), rng.child(piece.parameter.index)))
            if bucket.dense:
                small = torch.cat([piece.of(flat) for piece in bucket.dense])
                messages.append(gradwire.encode(DENSE, small, rng))
                self._measure(small, None)
        except InputError:
            return None
        return messages

    def _message(self, piece: Piece, gradient: torch.Tensor, rng: Rng) -> bytes:
        name = piece.parameter.name
        if not self.error_feedback:
            message = gradwire.encode(self.codec, gradient, rng)
            if self._measuring:
                difference = gradient.clone()
                gradwire.add(message, difference, -1.0)
                self._measure(gradient, difference)
            return message
        residual = self._residuals.get(name)
        message, left = feedback.step(self.codec, gradient, residual, rng)
        self._residuals.propose(name, left)
        if self._measuring:
            self._measure(gradient + residual, left)
        return message

    @property
    def _measuring(self) -> bool:
        return self.nmse_every > 0 and self._step % self.nmse_every == 0

    def _measure(self, sent: torch.Tensor, difference: torch.Tensor | None) -> None:
        """Add ‖difference‖² and ‖sent‖² to this step's error and energy."""
        if self._measuring:
            norms = [
                0.0 if x is None else float(torch.linalg.vector_norm(x, dtype=torch.float64)) ** 2
                for x in (difference, sent)
            ]
            self._current += Measured(error=norms[0], energy=norms[1])

    def _decode(self, bucket: _Bucket, flat: torch.Tensor, ranks: list[list[memoryview]]) -> None:
        """Overwrite flat with the average of all ranks' messages, added in rank order."""
        flat.zero_()
        outputs = [piece.of(flat) for piece in bucket.compressed]
        if bucket.dense:
            outputs.append(torch.zeros(sum(piece.parameter.size for piece in bucket.dense)))
        for messages in ranks:
            for message, output in zip(messages, outputs, strict=True):
                gradwire.add(message, output, 1.0 / len(ranks))
        start = 0
        for piece in bucket.dense:
            piece.of(flat).copy_(outputs[-1][start : start + piece.parameter.size])
            start += piece.parameter.size
