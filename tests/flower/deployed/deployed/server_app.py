import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import gradwire.flower

app = ServerApp()


@app.main()
def main(grid, context):
    rng = np.random.default_rng(100)
    model = {f"layer{i}.weight": rng.standard_normal((200, 500), np.float32) for i in range(10)}
    model["norm.num_batches_tracked"] = np.array(0, np.int64)
    strategy = FedAvg(min_train_nodes=1, fraction_evaluate=0.0)
    strategy = gradwire.flower.Compressed(strategy, downlink="sd:alpha=0.2")
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(a) for name, a in model.items()}),
        num_rounds=context.run_config["rounds"],
        timeout=context.run_config["timeout"],
    )
    folder = Path(str(context.run_config["folder"]))
    report = {
        "readings": [asdict(reading) for reading in strategy.meter.readings],
        "train": {r: dict(m) for r, m in result.train_metrics_clientapp.items()},
        "counter": float(result.arrays["norm.num_batches_tracked"].numpy()),
    }
    (folder / "report.part").write_text(json.dumps(report))
    (folder / "report.part").rename(folder / "report.json")
