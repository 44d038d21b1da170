"""A small federation in numpy: each client pulls the model half way to a target of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import gradwire.flower
from gradwire.experiments.federated.in_process import InProcessGrid

SHAPES = {"conv.weight": (30, 20), "conv.bias": (20,), "norm.running_var": (600,), "fc.weight": (50, 40)}

Arrays = dict[str, np.ndarray]


def model(seed: int = 0) -> Arrays:
    """Floats that are compressed, small ones, an excluded one, and every kind of odd tensor."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    arrays["norm.running_var"] = np.abs(arrays["norm.running_var"])
    arrays["norm.num_batches_tracked"] = np.array(7, np.int64)  # 0-d, as BatchNorm has it
    arrays["empty"] = np.zeros((0, 3), np.float32)
    arrays["ids"] = np.arange(300, dtype=np.int64) << 33
    arrays["mask"] = np.array([True, False])
    return arrays


def record(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in arrays.items()})


def arrays_of(record: ArrayRecord) -> Arrays:
    return {name: a.numpy() for name, a in record.items()}


def target(node: int) -> Arrays:
    return model(seed=node)


def pull(arrays: Arrays, node: int) -> Arrays:
    """One round of local training."""
    goal = target(node)
    moved = {
        k: (a + 0.5 * (goal[k] - a)).astype(a.dtype) if a.dtype.kind == "f" else a.copy() for k, a in arrays.items()
    }
    moved["norm.num_batches_tracked"] = arrays["norm.num_batches_tracked"] + 10
    return moved


def client_app(
    *mods: Callable, train: Callable[[Arrays, int], Arrays] = pull, weight: Callable[[int], float] = lambda node: 1
) -> ClientApp:
    app = ClientApp(mods=list(mods))

    @app.train()
    def _train(message, context):
        new = train(arrays_of(message.content["arrays"]), context.node_id)
        metrics = MetricRecord({"num-examples": weight(context.node_id), "loss": 0.5})
        return Message(RecordDict({"arrays": record(new), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def _evaluate(message, context):
        loss = float(
            np.mean((message.content["arrays"]["fc.weight"].numpy() - target(context.node_id)["fc.weight"]) ** 2)
        )
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": loss})}), reply_to=message)

    return app


def federate(
    strategy,
    app: ClientApp,
    nodes: Iterable[int] = (11, 12, 13),
    rounds: int = 3,
    fate: Callable | None = None,
    initial: Arrays | None = None,
):
    """Run it; the result and the grid."""
    grid = InProcessGrid(app, nodes, fate)
    result = strategy.start(grid, record(model() if initial is None else initial), num_rounds=rounds)
    return result, grid


def fed_avg(**options) -> FedAvg:
    return FedAvg(min_train_nodes=1, min_evaluate_nodes=1, min_available_nodes=1, **options)


def compressed(inner=None, **options) -> gradwire.flower.Compressed:
    return gradwire.flower.Compressed(inner or fed_avg(), seed=1, **options)
