"""The two apps of a run: PyTorch at the clients, and a strategy at the server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gradwire.flower
from gradwire.experiments.compare.datasets import load
from gradwire.experiments.compare.models import build
from gradwire.experiments.federated.settings import DENSE, Task
from gradwire.experiments.federated.split import split
from gradwire.flower.meter import TRAIN_DOWN, TRAIN_UP, Meter

__all__ = ["Look", "MeteredFedAvg", "client_app", "run_server"]

Progress = Callable[[int, float], None]
Look = tuple[int, float, float]
"""Round, loss and accuracy on the test set."""


class MeteredFedAvg(FedAvg):
    """Flower's own FedAvg, with its bytes counted as those of Compressed are."""

    def __init__(self, chosen: int, clients: int) -> None:
        super().__init__(
            fraction_train=chosen / clients,
            min_train_nodes=chosen,
            min_available_nodes=clients,
        )
        self.meter = Meter()
        self.count = False

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """FedAvg's, counted."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages if self.count else ():
            self.meter.read(server_round, TRAIN_DOWN, message.metadata.dst_node_id, message)
        return messages

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """None: the server looks at the test set by itself."""
        return []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """FedAvg's, counted."""
        replies = list(replies)
        for reply in replies if self.count else ():
            self.meter.read(server_round, TRAIN_UP, reply.metadata.src_node_id, reply)
        return super().aggregate_train(server_round, replies)


def client_app(task: Task) -> ClientApp:
    """The app of every client."""
    compress = gradwire.flower.compress
    mods = [compress(task.codec, error_feedback=task.error_feedback, ahead=task.ahead)] if task.codec != DENSE else []
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        partition = int(context.node_config["partition-id"])
        record = message.content.array_records["arrays"]
        server_round = message.content.config_records["config"]["server-round"]
        model = _network(task)
        model.load_state_dict(record.to_torch_state_dict())
        loss, samples = train_locally(task, model, partition, int(str(server_round)))
        metrics = MetricRecord({"num-examples": samples, "train-loss": loss})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def _network(task: Task) -> nn.Module:
    network: nn.Module = build(task.data, task.seed)
    # 1.8 times as fast on a processor; PyTorch's stubs do not know the argument.
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def train_locally(task: Task, model: nn.Module, partition: int, server_round: int) -> tuple[float, int]:
    """E epochs of SGD on a client's samples; the mean loss and the number of samples."""
    x, y = _client_data(task.data, task.data_dir, task.split, task.clients, task.alpha, task.seed, task.samples)[
        partition
    ]
    order = np.random.default_rng([task.seed, 2, server_round, partition])
    optimizer = torch.optim.SGD(model.parameters(), lr=task.lr)
    losses = []
    model.train()
    for _ in range(task.local_epochs):
        for batch in np.array_split(order.permutation(len(y)), -(-len(y) // task.batch)):
            optimizer.zero_grad()
            loss = cross_entropy(model(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses)), len(y)


def run_server(task: Task, grid: Grid, progress: Progress) -> tuple[list[Look], Meter, int]:
    """All rounds; what the test set said, the bytes, and the number of parameters."""
    strategy = MeteredFedAvg(task.chosen, task.clients)
    strategy.count = task.codec == DENSE
    outer: MeteredFedAvg | gradwire.flower.Compressed = strategy
    if task.codec != DENSE:
        downlink = None if task.downlink == DENSE else task.downlink
        outer = gradwire.flower.Compressed(strategy, downlink=downlink, seed=task.seed)
    model = _network(task)
    x, y = _test_data(task.data, task.data_dir)
    looks: list[Look] = []

    def look(server_round: int, arrays: ArrayRecord) -> None:
        if server_round in task.evaluated:
            model.load_state_dict(arrays.to_torch_state_dict())
            looks.append((server_round, *evaluate(model, x, y)))
        progress(server_round, looks[-1][2] if looks else 0.0)

    state = random.getstate()
    random.seed(task.seed)  # Flower draws the clients of a round from it: the same for every codec
    try:
        outer.start(grid, ArrayRecord(model.state_dict()), num_rounds=task.rounds, evaluate_fn=look)
    finally:
        random.setstate(state)
    return looks, outer.meter, sum(p.numel() for p in model.parameters())


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Mean loss and share of right answers."""
    model.eval()
    loss, right = 0.0, 0
    for i in range(0, len(y), 1000):
        out = model(x[i : i + 1000])
        loss += float(cross_entropy(out, y[i : i + 1000], reduction="sum"))
        right += int((out.argmax(1) == y[i : i + 1000]).sum())
    return loss / len(y), right / len(y)


def _scaled(images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Tensor:
    return (torch.from_numpy(images.astype(np.float32)) / 255 - 0.5) * 2


@lru_cache(maxsize=4)
def _client_data(
    data: str, data_dir: str | None, how: str, clients: int, alpha: float, seed: int, samples: int
) -> list[tuple[Tensor, Tensor]]:
    loaded = load(data, data_dir)
    parts = split(how, loaded.train_y, clients, alpha, seed, samples)
    return [(_scaled(loaded.train_x[part]), torch.from_numpy(loaded.train_y[part])) for part in parts]


@lru_cache(maxsize=1)
def _test_data(data: str, data_dir: str | None) -> tuple[Tensor, Tensor]:
    loaded = load(data, data_dir)
    return _scaled(loaded.test_x), torch.from_numpy(loaded.test_y.copy())
