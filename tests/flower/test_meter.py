"""The meter: payload to the byte, messages as Flower counts them, in metrics and in a table."""

from __future__ import annotations

import logging

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

import gradwire.flower
from flower.apps import client_app, compressed, fed_avg, federate, model, record
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower import Meter
from gradwire.flower.meter import content_bytes, payload_bytes


def test_f8_payload_is_the_bytes_that_were_sent():
    seen = {"down": 0, "up": 0}

    def fate(reply: Message):
        if reply.metadata.message_type == "train":
            seen["up"] += sum(len(a.data) for a in reply.content["arrays"].values())
        return reply

    class Counting(InProcessGrid):
        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            for m in messages:
                seen["down"] += sum(len(a.data) for a in m.content["arrays"].values())
            return super().send_and_receive(messages, timeout=timeout)

    strategy = compressed(fed_avg(), uplink="rtopk:k=0.1,r=0.3", downlink="sd:alpha=0.2")
    result = strategy.start(
        Counting(client_app(gradwire.flower.compress()), [1, 2, 3], fate), record(model()), num_rounds=3
    )
    meter = strategy.meter
    assert meter.total("train-up") == seen["up"]
    assert meter.total("train-down", "evaluate-down") == seen["down"]
    assert meter.total("evaluate-up") == 0
    for number, metrics in result.train_metrics_clientapp.items():
        assert metrics["gradwire-train-up-bytes"] == meter.total("train-up", server_round=number)
        clients = dict(
            zip(metrics["gradwire-train-up-clients"], metrics["gradwire-train-up-client-bytes"], strict=True)
        )
        assert clients == meter.by_client("train-up", number)
        assert set(clients) == {1, 2, 3}
        assert metrics["gradwire-dropped"] == 0
        assert metrics["loss"] == 0.5, "the strategy's own metrics are there as well"
    evaluated = result.evaluate_metrics_clientapp[3]
    assert evaluated["gradwire-evaluate-down-bytes"] == meter.total("evaluate-down", server_round=3)


def test_f5_a_message_is_counted_as_flower_sends_it():
    """Flower sends every different object of a message once; the meter's count is that and their names."""
    rng = np.random.default_rng(0)
    content = RecordDict(
        {
            "arrays": ArrayRecord([rng.standard_normal(1000), np.zeros(10), np.zeros(10), rng.bytes(3) and np.ones(1)]),
            "config": ConfigRecord({"a": 1, "b": "text"}),
            "metrics": MetricRecord({"x": 1.0, "y": [1, 2]}),
        }
    )
    objects = get_all_nested_objects(content)
    exact = sum(len(o.deflate()) for o in objects.values())
    assert content_bytes(content) - 68 * (len(objects) + 1) == pytest.approx(exact, abs=16 * 4)
    assert payload_bytes(content) == 0


def test_table_is_logged_and_sums_up(caplog):
    with caplog.at_level(logging.INFO, logger="flwr"):
        strategy = compressed(fed_avg(), uplink="topk:k=0.1")
        federate(strategy, client_app(gradwire.flower.compress()), rounds=2)
    lines = strategy.meter.table().splitlines()
    assert [line.split()[0] for line in lines] == ["round", "1", "2", "sum"]
    assert all(f"\t{line}" in caplog.text for line in lines)
    total = int(lines[-1].split()[-1].replace(",", ""))
    assert total == strategy.meter.total()


def test_an_empty_meter():
    assert Meter().total() == 0
    assert Meter().table().splitlines()[-1].split() == ["sum", "0", "0", "0", "0", "0"]
