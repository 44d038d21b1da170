"""The DDP hook step by step: buckets are sent as they come, and taken over when the whole step counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.futures import Future

import gradwire
from gradwire import Identity, Rng
from gradwire.errors import GradwireError
from gradwire.torch.absence import name_the_absent
from gradwire.torch.ahead import Ahead
from gradwire.torch.buffers import Buffers
from gradwire.torch.layout import Layout, Piece
from gradwire.torch.replicas import check_replicas
from gradwire.torch.statistics import LayerMeasured, Measured, Recorder, StepMeasured
from gradwire.torch.topologies import Posted, Topology
from gradwire.torch.units import Scratch, Shard, Unit

if TYPE_CHECKING:
    from gradwire.torch.ddp import DDPHook

__all__ = ["Bucket", "Steps"]

DENSE = Identity()
PART = 1 << 16


@dataclass(frozen=True)
class Bucket:
    """What is needed of a GradBucket after the hook call has returned; `flat` is its buffer or a copy on the CPU.

    `own` is false where it belongs to no backward pass of this rank, which is through with its data under `Join`.
    """

    index: int
    last: bool
    gradients: torch.Tensor
    flat: torch.Tensor
    pieces: Sequence[Piece]
    future: Future[torch.Tensor]
    own: bool


class _Sent(NamedTuple):
    """Units that were exchanged, with their factors."""

    posted: Posted
    units: Sequence[Unit]
    local: float


class Steps:
    """The state machine of one hook, on the hook's thread.

    begin → (post a bucket)* → settle and deliver, or take back.
    """

    def __init__(
        self,
        hook: DDPHook,
        layout: Layout,
        buffers: Buffers,
        topology: Topology,
        ranks: Sequence[int],
        ahead: Ahead | None,
    ) -> None:
        self.hook = hook
        self.layout = layout
        self.buffers = buffers
        self.topology = topology
        self.recorder = Recorder(hook.history)
        self.step = 0
        self._ranks = ranks
        self._ahead = ahead
        self._rng = Rng(hook.seed).child(topology.bytes.rank)
        self._x, self._p = Scratch(), Scratch()
        # Clipping and the model's one vector need all gradients before anything can be encoded.
        self._wait = hook.whole_model or hook.factors.clip is not None
        whole = [(0, slice(0, layout.n))] if layout.n else []
        topology.prepare(whole if hook.whole_model else [(p.index, p.place) for p in layout.compressed])
        self._buckets: list[Bucket] = []
        self._sent: list[_Sent] = []
        self._skipping = False
        self._broken: BaseException | None = None
        self._total = Measured(steps=1)
        self._layers: dict[str, LayerMeasured] = {}

    def take(self, bucket: Bucket) -> None:
        """Send a bucket; after the last one, complete the futures of all."""
        if bucket.index == 0:
            self._begin()
        self._buckets.append(bucket)
        if self._broken is not None:  # the ranks no longer agree in what comes next on their connections
            bucket.future.set_exception(self._broken)  # type: ignore[arg-type]
            return
        try:
            with torch.no_grad():
                self._send(bucket)
                if bucket.last:
                    self._check(bucket)
                    self._end()
        except BaseException as error:  # whatever it is, the training loop must see it and not wait for ever
            for waiting in self._buckets:
                waiting.future.set_exception(error)  # type: ignore[arg-type]
            self._broken = error

    def _begin(self) -> None:
        """Forget what is left over if the last backward pass ended in an exception."""
        self._buckets, self._sent = [], []
        self._skipping = False
        self._broken = None
        self._total, self._layers = Measured(steps=1), {}

    def _send(self, bucket: Bucket) -> None:
        if self._skipping or (self._wait and not bucket.last):
            return
        pieces = [piece for b in (self._buckets if self._wait else [bucket]) for piece in b.pieces]
        units = self._units(pieces, bucket.index)
        local = self.hook.factors.local(pieces, self.topology.bytes.world)
        begin, sent_bytes, encoding = time.perf_counter(), self.topology.bytes.sent_bytes, self._total.encode_ms

        def encode(unit: Unit, shards: Sequence[Shard], draws: Callable[[Shard], Rng]) -> list[bytes]:
            return self._encode(unit, shards, draws, local)

        with self._naming(bucket):
            rng = self._rng.child(self.step % 2**32)
            posted = self.topology.post(self.step, 0 if self._wait else bucket.index, units, encode, rng)
        elapsed = 1e3 * (time.perf_counter() - begin)
        self._total += Measured(
            coordinates=sum(piece.parameter.size for piece in pieces),
            message_bytes=posted.message_bytes if posted else 0,
            sent_bytes=self.topology.bytes.sent_bytes - sent_bytes,
            communicate_ms=elapsed - (self._total.encode_ms - encoding),
        )
        if posted is None:
            self._skipping = True
        else:
            self._sent.append(_Sent(posted, units, local))

    def _units(self, pieces: Sequence[Piece], index: int) -> list[Unit]:
        codec = self.hook.warm_up.at(self.step)
        units = []
        compressed = [piece for piece in pieces if not piece.parameter.dense]
        if self.hook.whole_model and compressed:
            compressed.sort(key=lambda piece: piece.parameter.index)
            units.append(Unit("model", 0, codec, compressed, slice(0, self.layout.n)))
        else:
            units += [Unit(p.parameter.name, p.parameter.index, codec, [p], p.parameter.place) for p in compressed]
        dense = [piece for piece in pieces if piece.parameter.dense]
        if dense:
            units.append(Unit("dense", index, DENSE, dense, None))
        return units

    def _encode(self, unit: Unit, shards: Sequence[Shard], draws: Callable[[Shard], Rng], local: float) -> list[bytes]:
        begin = time.perf_counter()
        x = unit.gather([local * a for a in self._common(unit)], self._x)
        p = x if unit.place is None else self.hook.variant.vector(x, self.buffers.at(unit.place), self._p.of(x.numel()))
        messages = [gradwire.encode(unit.codec, shard.of(p), draws(shard)) for shard in shards]
        elapsed = 1e3 * (time.perf_counter() - begin)
        self._total += Measured(encode_ms=elapsed)
        size = sum(map(len, messages))
        measured = LayerMeasured(steps=1, coordinates=unit.size, message_bytes=size, encode_ms=elapsed)
        self._count(unit, measured + self._error(unit, p, shards, messages))
        return messages

    def _common(self, unit: Unit) -> list[float]:
        return self.hook.factors.common([piece.parameter for piece in unit.pieces])

    @property
    def _measuring(self) -> bool:
        return self.hook.nmse_every > 0 and self.step % self.hook.nmse_every == 0

    def _error(self, unit: Unit, p: torch.Tensor, shards: Sequence[Shard], messages: Sequence[bytes]) -> LayerMeasured:
        if not self._measuring:
            return LayerMeasured()
        energy = _square(p)
        if unit.codec == DENSE:
            return LayerMeasured(energy=energy, sent_energy=energy)
        # What p is not in is free: once p is made, nobody wants x.
        sent = (self._p if self._x.holds(p) else self._x).of(p.numel()).zero_()
        for shard, message in zip(shards, messages, strict=True):
            gradwire.add(message, shard.of(sent), 1.0)
        sent_energy = _square(sent)
        return LayerMeasured(error=_square(sent.sub_(p)), energy=energy, sent_energy=sent_energy)

    def _check(self, last: Bucket) -> None:
        """Now and then, compare the replicas: here, where the ranks have agreed which step this is."""
        if self.hook.check_every and self.step % self.hook.check_every == 0:
            with self._naming(last):
                parameters = [self._ahead.shared(p) if self._ahead else p.tensor for p in self.layout.parameters]
                check_replicas(parameters, self.topology.bytes.group, f"the model at step {self.step}", last.own)

    def _count(self, unit: Unit, measured: LayerMeasured) -> None:
        before = self._layers.get(unit.name)  # the dense tensors come once a bucket
        self._layers[unit.name] = before + replace(measured, steps=0) if before else measured
        self._total += Measured(error=measured.error, energy=measured.energy)

    def _end(self) -> None:
        """The step is over: take it over on all ranks, or on none."""
        begin = time.perf_counter()
        if self._skipping:
            for bucket in self._buckets:
                bucket.gradients.fill_(nan)
            self._layers = {}
            self._total = replace(self._total, skipped=1, coordinates=0, message_bytes=0, error=0.0, energy=0.0)
        else:
            for sent in self._sent:
                sent.posted.settle()
                for index, unit in enumerate(sent.units):
                    self._take_over(sent, index, unit)
            for bucket in self._buckets:
                if bucket.flat.data_ptr() != bucket.gradients.data_ptr():
                    bucket.gradients.copy_(bucket.flat)
        self._total += Measured(decode_ms=1e3 * (time.perf_counter() - begin))
        report = StepMeasured(self.step, self._total, self._layers)
        self.recorder.add(report)
        self.step += 1
        if self.hook.callback is not None:
            self.hook.callback(report)
        for bucket in self._buckets:
            bucket.future.set_result(bucket.gradients)
        self._buckets, self._sent = [], []

    def _take_over(self, sent: _Sent, index: int, unit: Unit) -> None:
        """Change what is kept of a unit, and put the mean in the place of its gradients."""
        factors = self._common(unit)
        if unit.place is not None:
            kept = self.buffers.at(unit.place)
            # The gradient is still in its bucket: what was encoded is computed again, and no copy of it was needed.
            x = unit.gather([sent.local * a for a in factors], self._x)
            self.hook.variant.settle(x, kept, lambda out, weight: sent.posted.add_sent(index, out, weight))
            if self._measuring and "residual" in kept:
                self._count(unit, LayerMeasured(residual_norm=_square(kept["residual"]) ** 0.5))
        direct = len(unit.pieces) == 1 and unit.pieces[0].gradient.dtype == torch.float32
        mean = sent.posted.mean(index, unit.pieces[0].gradient if direct else self._p.of(unit.size))
        if unit.place is not None:
            self.hook.variant.deliver(mean, self.buffers.at(unit.place))
        unit.scatter(mean, factors)

    @contextmanager
    def _naming(self, bucket: Bucket) -> Iterator[None]:
        """Say which rank is missing if an exchange ends in an error of the transport."""
        try:
            yield
        except GradwireError:
            raise
        except RuntimeError as error:
            raise name_the_absent(error, f"step {self.step}, bucket {bucket.index}", self._ranks) from error


def _square(x: torch.Tensor) -> float:
    """‖x‖² in float64, by parts: a copy of a whole layer in float64 would be the largest thing in memory."""
    total = 0.0
    for start in range(0, x.numel(), PART):
        total += float(x[start : start + PART].double().square().sum())
    return total
