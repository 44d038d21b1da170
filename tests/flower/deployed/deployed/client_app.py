import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import gradwire.flower

app = ClientApp(mods=[gradwire.flower.compress("rtopk:k=0.01,r=0.03")])


@app.train()
def train(message, context):
    part = int(context.node_config["part"])
    server_round = message.content["config"]["server-round"]
    # The test kills a node while it is at work: it says that it is, and takes its time.
    (Path(str(context.run_config["folder"])) / f"training-{server_round}-{part}").touch()
    time.sleep(float(context.run_config["seconds"]))
    rng = np.random.default_rng(part)
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    moved = {
        name: a + np.float32(0.5) * (rng.standard_normal(a.shape, np.float32) - a) if a.dtype.kind == "f" else a + 1
        for name, a in arrays.items()
    }
    record = ArrayRecord({name: Array(np.asarray(a)) for name, a in moved.items()})
    metrics = MetricRecord({"num-examples": 10, "committed": int(len(context.state["gradwire.residual"]) > 0)})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    size = float(sum(np.abs(a.numpy()).sum() for a in message.content["arrays"].values()))
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "size": size})}), reply_to=message)
