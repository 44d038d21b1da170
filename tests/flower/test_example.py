"""The example: a stock PyTorch app becomes compressed by three lines and nothing else, and still learns."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp

from gradwire.experiments.federated.in_process import InProcessGrid

EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"

THREE_LINES = {
    "import gradwire.flower",
    'app = ClientApp(mods=[gradwire.flower.compress("rtopk:k=0.01,r=0.03")])',
    'strategy = gradwire.flower.Compressed(strategy, downlink="sd:alpha=0.2")',
}


def test_the_difference_is_three_lines():
    files = sorted(path.relative_to(EXAMPLES / "before") for path in (EXAMPLES / "before").rglob("*.py"))
    assert len(files) == 4
    added, removed = set(), set()
    for file in files:
        before, after = ((EXAMPLES / part / file).read_text().splitlines() for part in ("before", "after"))
        for line in difflib.ndiff(before, after):
            if line[2:].strip() and line[0] in "+-":
                (added if line[0] == "+" else removed).add(line[2:].strip())
    assert added == THREE_LINES
    assert removed == {"app = ClientApp()"}


@pytest.fixture
def apps(request, monkeypatch):
    """The example's modules, imported from its folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES / request.param))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: threads would wait for each other on a busy machine
    yield _load()
    torch.set_num_threads(threads)
    for name in [name for name in sys.modules if name.split(".")[0] == "digits_app"]:
        del sys.modules[name]


def _load():
    import digits_app.client_app
    import digits_app.server_app
    import digits_app.task

    return digits_app


@pytest.mark.parametrize("apps", ["before", "after"], indirect=True)
def test_it_runs_and_learns(apps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    assert isinstance(apps.client_app.app, ClientApp)
    grid = InProcessGrid(apps.client_app.app, range(2, 8))
    config = {"num-server-rounds": 10, "fraction-train": 0.5, "local-epochs": 1, "lr": 0.05}
    for node in grid.nodes:
        grid.context(node).run_config.update(config)
    server = grid.context(2)
    apps.server_app.app(grid, type(server)(1, 1, {}, server.state.__class__(), config))
    state = torch.load(tmp_path / "final_model.pt")
    net = apps.task.Net()
    net.load_state_dict(state)
    assert all(torch.isfinite(v.float()).all() for v in state.values())
    accuracy = [apps.task.test(net, apps.task.load_data(i, 6)[1])[1] for i in range(6)]
    assert sum(accuracy) / 6 > 0.8
    assert ArrayRecord(net.state_dict())
