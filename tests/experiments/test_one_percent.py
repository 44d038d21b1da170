"""Training at 1 % density meets dense accuracy: `pytest -m long tests/experiments/test_one_percent.py`, 15 minutes.

The folder of CIFAR-10 is named by GRADWIRE_DATA; Fashion-MNIST is found where Debian's package puts it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.errors import MissingError
from gradwire.experiments.compare.datasets import load

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
DATA = os.environ.get("GRADWIRE_DATA")
RUNS = {
    "fashion-mnist": [],
    "cifar10": ["--batch", "16", "--steps", "4400", "--whole-model", "--warm-up", "200", "--ahead", "2"],
}


@pytest.mark.parametrize("data", RUNS)
def test_dense_accuracy_is_met_within_the_spread_of_the_seeds(data, tmp_path):
    try:
        load(data, DATA)
    except MissingError as error:
        pytest.skip(str(error))
    command = [Path(sys.executable).parent / "gradwire", "compare", "--data", data, "--workers", "2", "--seeds", "3"]
    command += ["--codec", "identity", "--codec", "topk:k=0.01", "--json", "--out", tmp_path, *RUNS[data]]
    command += ["--data-dir", DATA] if DATA else []
    done = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    dense, sparse = json.loads(done.stdout)["codecs"]
    print(data, *((c["codec"], c["accuracy"], c["accuracy_deviation"], c["ratio"]) for c in (dense, sparse)))
    assert sparse["ratio"] > 40
    spread = max(dense["accuracy_deviation"], sparse["accuracy_deviation"])
    assert sparse["accuracy"] >= dense["accuracy"] - spread
