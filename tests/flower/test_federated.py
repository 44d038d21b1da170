"""``gradwire compare --federated``, small."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

import torch

from gradwire.errors import ParameterError
from gradwire.experiments import compare, federated
from gradwire.experiments.federated.settings import Settings
from gradwire.experiments.federated.split import split


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def options(tmp_path, *words):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    parser.set_defaults(out=tmp_path, seeds=1)
    return parser.parse_args(["--federated", *words])


def test_comparison_in_process(tmp_path, capsys):
    words = "--engine in-process --rounds 6 --clients 4 --codec topk:k=0.02 --codec sd:alpha=0.9 --split writer --json"
    assert federated.run(options(tmp_path, *words.split())) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["complete"]
    assert [row["codec"] for row in found["codecs"]] == ["dense", "topk:k=0.02", "sd:alpha=0.9"]
    dense, topk, sd = found["codecs"]
    assert dense["accuracy"] > 0.3
    assert topk["fewer_up"] > 20
    assert topk["fewer_down"] == pytest.approx(sd["fewer_down"], rel=0.2)
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert len(records) == 3
    assert records[0]["round_bytes"] == sorted(records[0]["round_bytes"])
    assert records[0]["round_bytes"][-1] == records[0]["down_bytes"] + records[0]["up_bytes"]
    assert records[0]["down_bytes"] > 6 * 2 * 4 * records[0]["parameters"]
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_the_same_seed_gives_the_same_run(tmp_path, capsys):
    words = ["--engine", "in-process", "--rounds", "2", "--clients", "3", "--codec", "rtopk:k=0.02,r=0.05", "--json"]
    runs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        federated.run(options(tmp_path / name, *words))
        lines = (tmp_path / name / "results.jsonl").read_text().splitlines()
        runs.append([{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines])
    assert runs[0] == runs[1]


def test_ahead_reaches_the_clients(tmp_path, capsys):
    losses = []
    for ahead in ("0", "0.5"):
        words = f"--engine in-process --rounds 3 --clients 3 --fraction 1 --codec topk:k=0.05 --json --ahead {ahead}"
        federated.run(options(tmp_path, *words.split()))
        dense, topk = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
        losses.append((dense["round_loss"], topk["round_loss"]))
        assert f"training {ahead} of the residual ahead" in (tmp_path / "report.html").read_text()
    assert losses[0][0] == losses[1][0]
    assert losses[0][1][:1] == losses[1][1][:1], "there is no residual in the first round"
    assert losses[0][1][1:] != losses[1][1][1:]


@pytest.mark.long
def test_comparison_in_flowers_simulation(tmp_path, capsys):
    pytest.importorskip("ray")
    words = "--engine simulation --rounds 3 --clients 4 --codec topk:k=0.02 --json"
    assert federated.run(options(tmp_path, *words.split())) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["codecs"][1]["fewer_up"] > 20


@pytest.mark.parametrize("how", ["dirichlet", "writer", "even"])
def test_every_sample_is_dealt_once_and_every_client_has_some(how):
    labels = np.random.default_rng(0).integers(0, 10, 3000)
    for alpha in (0.05, 0.3, 100.0):
        parts = split(how, labels, 20, alpha, seed=3, samples=2500)
        together = np.concatenate(parts)
        assert len(parts) == 20
        assert len(together) == len(np.unique(together)) == 2500
        assert min(map(len, parts)) >= 1


def test_dirichlet_is_as_uneven_as_its_alpha_says():
    labels = np.arange(10_000) % 10

    def unevenness(alpha):
        parts = split("dirichlet", labels, 10, alpha, seed=1, samples=10_000)
        shares = np.stack([np.bincount(labels[part], minlength=10) for part in parts]) / 1000
        return float((shares**2).sum(0).mean())  # of one label over the clients: 1/10 if even, 1 if all at one client

    # The expectation of Σ p² under Dir(α, …, α) with 10 clients is (α + 1)/(10α + 1).
    for alpha in (0.1, 0.3, 1.0, 100.0):
        assert unevenness(alpha) == pytest.approx((alpha + 1) / (10 * alpha + 1), rel=0.35)


def test_options_that_are_not_good(tmp_path):
    for words, match in (
        ("--rounds 0", "rounds"),
        ("--fraction 0", "fraction"),
        ("--split writer --data fashion-mnist", "writer"),
        ("--codec topk:k=0.1 --codec topk:k=0.1", "twice"),
        ("--downlink nothing", "no codec"),
        ("--alpha -1", "alpha"),
        ("--ahead 1.5", "ahead"),
    ):
        with pytest.raises(ParameterError, match=match):
            Settings.of(options(tmp_path, *words.split()))
