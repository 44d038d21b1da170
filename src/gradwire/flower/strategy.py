"""The server's side: a strategy around a strategy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from logging import INFO, WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

import gradwire
from gradwire.errors import GradwireError, MessageError, ParameterError
from gradwire.flower import meter, replies
from gradwire.flower.arrays import from_record, to_record
from gradwire.flower.arrivals import arriving
from gradwire.flower.broadcast import Broadcast
from gradwire.flower.changes import squared_norm
from gradwire.flower.layout import LOSSLESS, Rules
from gradwire.flower.meter import Meter
from gradwire.flower.protocol import RECORD, Down, Up

__all__ = ["Compressed"]

CodecLike = gradwire.Codec | str

SANE_NORM = 1000.0
"""Without ``max_norm`` an update may be so many times the norm of the model plus one: anything above is no training."""

DROPPED = "gradwire: round %d, dropped the reply of node %d: %s"


class Compressed(Strategy):
    """A strategy whose broadcasts and replies are compressed; the strategy inside is called unchanged.

    Clients need :func:`gradwire.flower.compress` as their first mod.

    Down: every client holds the same decoded reference; a new model goes as one encoded step from it, once, however
    often the model is used (training and evaluation of one model send it once). A client that missed some steps gets
    them; a new one, and one that missed too many, gets the whole model. Up: each reply is decoded and checked (shape,
    dtype, finite, norm, weight); a bad one is dropped with a line in the log, and the round goes on. The strategy
    inside gets arrays that are decoded when it reads them.

    Args:
        strategy: any strategy of Flower's message API: FedAvg, FedAdam, FedProx, a wrapper for differential privacy…
        uplink: the clients' codec: a codec, its text form, a function of the node's id that gives one, or None to
            leave it to each client.
        downlink: a contractive codec for the steps, or None to send each model whole.
        min_size: floats of at least so many entries are compressed; all else goes as it is, bit for bit.
        lossless: patterns of names that are never compressed.
        max_norm: Euclidean norm that an update may have; by default 1000 times (norm of the model + 1).
        seed: of the codec's randomness in the downlink; None draws one.

    Attributes:
        meter: every byte, per round, direction and client.

    Raises:
        ParameterError: a codec that does not exist, or that is not fit for its place.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> strategy = Compressed(FedAvg(), uplink="rtopk:k=0.01,r=0.03", downlink="sd:alpha=0.2")

    Source: the downlink is EF21-like: Gruntkowska et al., "EF21-P and Friends", ICML 2023, Algorithm 1.
    """

    def __init__(
        self,
        strategy: Strategy,
        uplink: CodecLike | Callable[[int], CodecLike] | None = None,
        downlink: CodecLike | None = None,
        *,
        min_size: int = 256,
        lossless: Iterable[str] = LOSSLESS,
        max_norm: float | None = None,
        seed: int | None = None,
    ) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ParameterError(f"max_norm = {max_norm} must be positive")
        self.strategy = strategy
        self.uplink = uplink if uplink is None or callable(uplink) else _codec(uplink)
        self.max_norm = max_norm
        self.meter = Meter()
        downlink_codec = None if downlink is None else _codec(downlink)
        self._broadcast = Broadcast(downlink_codec, Rules(min_size, tuple(lossless)), seed)
        self._weight = _weight_key(strategy)
        self._ticket = 0
        self._asked: set[int] = set()
        self._accepted: dict[int, int] = {}
        self._usual: dict[bool, object] = {}

    def summary(self) -> None:
        """Log the settings of this strategy and of the one inside."""
        uplink = "per client" if callable(self.uplink) else self.uplink or "the client's choice"
        log(INFO, "\t├──> gradwire: uplink %s, downlink %s", uplink, self._broadcast.codec or "whole models")
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages, each with what its client needs to hold the model, and a request for an update."""
        self._ticket += 1
        messages = self._configure(self.strategy.configure_train, server_round, arrays, config, grid)
        for message in messages:
            told = message.content.config_records[RECORD]
            told[Down.TICKET] = self._ticket
            told[Down.UPLINK] = self._uplink_of(message.metadata.dst_node_id)
        self._asked = self._sent(server_round, meter.TRAIN_DOWN, messages)
        return messages

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages, each with what its client needs to hold the model: often nothing at all."""
        messages = self._configure(self.strategy.configure_evaluate, server_round, arrays, config, grid)
        self._asked = self._sent(server_round, meter.EVALUATE_DOWN, messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the replies, and let the strategy aggregate the good ones."""
        good, bad = self._sift(server_round, meter.TRAIN_UP, replies)
        arrays, metrics = self.strategy.aggregate_train(server_round, good)
        if arrays is not None:
            used = (reply.metadata.src_node_id for reply in good if reply.has_content())
            self._accepted.update(dict.fromkeys(used, self._ticket))
            arrays = self._as_model(arrays)
        record = self.meter.record(server_round, (meter.TRAIN_DOWN, meter.TRAIN_UP))
        record["gradwire-dropped"] = bad
        return arrays, _joined(metrics, record)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Check the replies, and let the strategy aggregate the good ones."""
        good, _ = self._sift(server_round, meter.EVALUATE_UP, replies)
        metrics = self.strategy.aggregate_evaluate(server_round, good)
        record = self.meter.record(server_round, (meter.EVALUATE_DOWN, meter.EVALUATE_UP))
        return _joined(metrics, record) if record else metrics

    def start(self, grid: Grid, *args: Any, **kwargs: Any) -> Result:
        """Run all rounds, as Flower's own strategies do, but check each reply when it arrives.

        At the end the bytes are in the log as a table.
        """
        result = super().start(arriving(grid), *args, **kwargs)
        for line in self.meter.table().splitlines():
            log(INFO, "\t%s", line)
        return result

    def _configure(
        self,
        configure: Callable[..., Iterable[Message]],
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> list[Message]:
        self._broadcast.advance(arrays)
        model = replies.inner_record(arrays)
        messages = list(configure(server_round, model, config, grid))
        for message in messages:
            node = message.metadata.dst_node_id
            names = [name for name, record in message.content.items() if record is model]
            if len(names) != 1:
                raise ParameterError(
                    f"{type(self.strategy).__name__} puts the model into {len(names)} records of a message, where "
                    "gradwire can follow it into one: use the strategy without compression"
                )
            content = RecordDict({**message.content, names[0]: self._broadcast.bundles(node)})
            content[RECORD] = ConfigRecord(
                {
                    Down.SESSION: self._broadcast.session,
                    Down.VERSION: self._broadcast.version,
                    Down.ACCEPTED: self._accepted.get(node, 0),
                    Down.ARRAYS: names[0],
                }
            )
            message.content = content
        return messages

    def _uplink_of(self, node: int) -> str:
        codec = self.uplink(node) if callable(self.uplink) else self.uplink
        return "" if codec is None else str(_codec(codec))

    def _sent(self, server_round: int, direction: str, messages: list[Message]) -> set[int]:
        for message in messages:
            self.meter.read(server_round, direction, message.metadata.dst_node_id, message)
        return {message.metadata.dst_node_id for message in messages}

    def _sift(self, server_round: int, direction: str, received: Iterable[Message]) -> tuple[list[Message], int]:
        """The good replies, as the strategy inside knows them, and errors that clients report; the number dropped."""
        train = direction == meter.TRAIN_UP
        limit = self._norm_limit() if train else 0.0
        good: list[Message] = []
        failed: list[Message] = []
        dropped = 0
        for reply in received:
            node = reply.metadata.src_node_id
            self.meter.read(server_round, direction, node, reply)
            if reply.has_error():
                failed.append(reply)
                continue
            try:
                if node not in self._asked:
                    raise MessageError("nobody asked, or it has answered already")
                self._asked.discard(node)
                self._take(reply, limit, train)
                good.append(reply)
            except (GradwireError, ValueError, OverflowError, MemoryError) as e:
                dropped += 1
                log(WARNING, DROPPED, server_round, node, e)
        contents, self._usual[train] = replies.in_line([m.content for m in good], self._usual.get(train))
        used: list[Message] = []
        for reply, content in zip(good, contents, strict=True):
            if content is None:
                dropped += 1
                why = "its records or metrics are not those of the others"
                log(WARNING, DROPPED, server_round, reply.metadata.src_node_id, why)
            else:
                reply.content = content
                used.append(reply)
        return used + failed, dropped

    def _take(self, reply: Message, limit: float, train: bool) -> None:
        """Check a reply and put into it what the app had given."""
        node = reply.metadata.src_node_id
        told = reply.content.get(RECORD)
        if isinstance(told, ConfigRecord) and told.get(Up.SESSION) == self._broadcast.session:
            self._broadcast.holds(node, told.get(Up.VERSION))
        answer = replies.answer_of(reply, self._broadcast.session)
        if train:
            due = {Up.VERSION: self._broadcast.version, Up.TICKET: self._ticket}
            update = replies.read_update(reply.content, answer, self._broadcast.layout, self._broadcast.model, due)
            if update.norm > limit:
                raise MessageError(f"its update has norm {update.norm:.3g}, above the {limit:.3g} of max_norm")
            content = update.content(reply.content)
        else:
            content = RecordDict({name: record for name, record in reply.content.items() if name != RECORD})
        replies.check_metrics(content, self._weight)
        reply.content = content

    def _norm_limit(self) -> float:
        if self.max_norm is not None:
            return self.max_norm
        floats = (a for a in self._broadcast.model.values() if a.dtype.kind == "f")
        return SANE_NORM * (1.0 + math.sqrt(sum(map(squared_norm, floats))))

    def _as_model(self, arrays: ArrayRecord) -> ArrayRecord:
        """Integers back from the mean that the strategy made of them."""
        if all(tensor.dtype.startswith("float") for tensor in self._broadcast.layout.tensors):
            return arrays
        found = from_record(arrays)
        self._broadcast.layout.check_names(found)
        for tensor in self._broadcast.layout.tensors:
            if not tensor.compressed:
                found[tensor.name] = tensor.keep(found[tensor.name])
        return to_record(found)


def _codec(codec: CodecLike) -> gradwire.Codec:
    return gradwire.from_spec(codec) if isinstance(codec, str) else codec


def _weight_key(strategy: Any) -> str | None:
    """The metric that the innermost strategy weighs replies by, if it says."""
    while strategy is not None:
        key = getattr(strategy, "weighted_by_key", None)
        if isinstance(key, str):
            return key
        strategy = getattr(strategy, "strategy", None)
    return None


def _joined(metrics: MetricRecord | None, ours: MetricRecord) -> MetricRecord:
    """The strategy's metrics and the meter's."""
    return MetricRecord({**(metrics or {}), **ours})
