"""A hostile client costs its own reply only: the round ends as if that client had not been asked."""

from __future__ import annotations

import logging
import struct

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import gradwire
import gradwire.flower
from flower.apps import arrays_of, client_app, compressed, fed_avg, federate, model, pull, record
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower import bundle
from gradwire.flower.arrays import bundle_array
from gradwire.flower.layout import Layout, Rules

HOSTILE = 13
LAYOUT = Layout.of(model(), Rules())


def crafted(**tensors) -> bytes:
    """A well-formed update with chosen values in some tensors."""
    parts: list[bundle.Part] = []
    for t in LAYOUT.tensors:
        x = tensors.get(t.name)
        if x is None:
            parts.append(None)
        elif isinstance(x, list | memoryview):
            parts.append(x)
        else:
            parts.append(np.full(t.shape, x, t.kept).reshape(-1).view(np.uint8).data)
    return bundle.write_changes(bundle.UPDATE, LAYOUT, iter(parts))


def frame(n: int, value: float) -> list[bytes]:
    return [gradwire.encode("identity", np.full(n, value, np.float32), 0)]


def with_update(data: bytes):
    def change(content: RecordDict) -> None:
        content["arrays"] = ArrayRecord({"update": bundle_array(data)})

    return change


def claims_2_to_the_40() -> list[bytes]:
    """A gradwire message whose header and sections claim more entries than there can be."""
    message = bytearray(gradwire.encode("topk:k=3", np.arange(2000, dtype=np.float32), 0))
    message[4:6] = bytes([0xFF, 0xFF, 0xFF, 0xFF, 0x0F])  # n = 2^32 − 1, the most that a varint holds
    return [bytes(message)]


def npy_of_2_to_the_40() -> Array:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
    return Array("float32", (2**40,), "numpy.ndarray", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)


def metrics(**values):
    def change(content: RecordDict) -> None:
        content["metrics"] = MetricRecord(values)

    return change


def put(key, value):
    def change(content: RecordDict) -> None:
        content["gradwire"][key] = value

    return change


ATTACKS = {
    "random bytes": with_update(np.random.default_rng(0).bytes(5000)),
    "no bytes": with_update(b""),
    "random bytes after a true head": with_update(crafted()[:9] + np.random.default_rng(1).bytes(500)),
    "a frame of random bytes": with_update(crafted(**{"fc.weight": [b"gw\x01" + np.random.default_rng(2).bytes(50)]})),
    "another size": with_update(crafted(**{"fc.weight": frame(1999, 1.0)})),
    "claims 2^32 entries in a frame": with_update(crafted(**{"fc.weight": claims_2_to_the_40()})),
    "claims 2^40 entries in numpy's form": lambda c: c.__setitem__(
        "arrays", ArrayRecord({"update": npy_of_2_to_the_40()})
    ),
    "the model in numpy's form": lambda c: c.__setitem__("arrays", record(model())),
    "NaN in a lossless tensor": with_update(crafted(**{"conv.bias": np.nan})),
    "infinity in a lossless tensor": with_update(crafted(**{"norm.running_var": np.inf})),
    "NaN raw in a compressed tensor": with_update(crafted(**{"fc.weight": np.nan})),
    "1e38 in a frame": with_update(crafted(**{"fc.weight": frame(2000, 1e38)})),
    "1e38 in a lossless tensor": with_update(crafted(**{"conv.bias": 1e38})),
    "overflow on adding": with_update(crafted(**{"fc.weight": frame(2000, 3.4e38)})),
    "another version": put("version", 99),
    "a version that is no number": put("version", "x"),
    "an old ticket": put("ticket", 0),
    "another session": put("session", 5),
    "no record": lambda c: c.__delitem__("gradwire"),
    "no arrays": lambda c: c.__delitem__("arrays"),
    "two records of arrays": lambda c: c.__setitem__("more", ArrayRecord({"update": bundle_array(crafted())})),
    "no metrics": lambda c: c.__delitem__("metrics"),
    "other metrics": metrics(**{"num-examples": 1, "evil": 1.0}),
    "weight NaN": metrics(**{"num-examples": np.nan, "loss": 0.5}),
    "weight infinite": metrics(**{"num-examples": np.inf, "loss": 0.5}),
    "weight negative": metrics(**{"num-examples": -1, "loss": 0.5}),
    "weight zero": metrics(**{"num-examples": 0, "loss": 0.5}),
    "weight 1e308": metrics(**{"num-examples": 1e308, "loss": 0.5}),
    "weight a list": metrics(**{"num-examples": [1, 2], "loss": 0.5}),
    "loss NaN": metrics(**{"num-examples": 1, "loss": float("nan")}),
    "loss a list": metrics(**{"num-examples": 1, "loss": [0.5, 0.5]}),
    "another record": lambda c: c.__setitem__("extra", ConfigRecord({"a": 1})),
}


def train_with(fate, nodes=(11, 12, HOSTILE), rounds=2):
    strategy = compressed(fed_avg(), uplink="rtopk:k=0.1,r=0.3", downlink="sd:alpha=0.2")
    result, _ = federate(strategy, client_app(gradwire.flower.compress()), nodes, rounds, fate)
    return result, strategy


def silent(reply: Message):
    return None if reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "train" else reply


@pytest.fixture(scope="module")
def without_it():
    return arrays_of(train_with(silent)[0].arrays)


@pytest.mark.parametrize("attack", ATTACKS)
def test_f1_f7_hostile_reply_costs_itself_only(attack, without_it, caplog):
    def fate(reply: Message):
        if reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "train":
            ATTACKS[attack](reply.content)
        return reply

    with caplog.at_level(logging.WARNING, logger="flwr"):
        result, _ = train_with(fate)
    found = arrays_of(result.arrays)
    for name, array in without_it.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6, err_msg=name)
    assert [m["gradwire-dropped"] for m in result.train_metrics_clientapp.values()] == [1, 1]
    reasons = [r.getMessage() for r in caplog.records if "dropped the reply" in r.getMessage()]
    assert len(reasons) == 2
    assert all(f"node {HOSTILE}:" in reason for reason in reasons)


TIES = {
    "other metrics": metrics(**{"num-examples": 1, "evil": 1.0}),
    "fewer metrics": metrics(**{"num-examples": 1}),
    "a list": metrics(**{"num-examples": 1, "loss": [0.5, 0.5]}),
    "another record": lambda c: c.__setitem__("extra", ConfigRecord({"a": 1})),
    "another name": lambda c: c.__setitem__("numbers", c.pop("metrics")),
    "another name of the model": lambda c: c.__setitem__("weights", c.pop("arrays")),
}


@pytest.mark.parametrize("order", [(11, HOSTILE), (HOSTILE, 11)])
@pytest.mark.parametrize("lie", TIES)
def test_one_word_against_another_loses_no_update(lie, order):
    """Two clients in a first round: nobody can tell who lies, so the round goes on with what both have."""
    lying = [True]

    def fate(reply: Message):
        if lying[0] and reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "train":
            TIES[lie](reply.content)
        return reply

    app = client_app(gradwire.flower.compress(), train=pull)
    runs = []
    for lying[0] in (True, False):
        strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="identity")
        grid = InProcessGrid(app, order, fate)
        messages = sorted(
            strategy.configure_train(1, record(model()), ConfigRecord(), grid),
            key=lambda m: order.index(m.metadata.dst_node_id),
        )
        runs.append(strategy.aggregate_train(1, grid.send_and_receive(messages)))
    (found, numbers), (due, _) = runs
    assert numbers["gradwire-dropped"] == 0
    for name, array in arrays_of(due).items():
        np.testing.assert_allclose(arrays_of(found)[name], array, rtol=1e-6, err_msg=name)
    assert "evil" not in numbers
    assert ("loss" in numbers) == (lie.startswith("another"))


def test_a_lie_in_a_first_round_does_not_become_the_rule():
    def fate(reply: Message):
        if reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "train":
            TIES["other metrics"](reply.content)
        return reply

    strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="topk:k=0.1")
    grid = InProcessGrid(client_app(gradwire.flower.compress()), (HOSTILE, 11, 12), fate)
    arrays, dropped = record(model()), []
    for number, online in enumerate([(HOSTILE, 11), (HOSTILE, 11, 12), (HOSTILE, 11)], 1):
        grid.online = list(online)
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, numbers = strategy.aggregate_train(number, grid.send_and_receive(messages))
        dropped.append(numbers["gradwire-dropped"])
    assert dropped == [0, 1, 1], "undecided; then two against one; then the honest form is the usual one"


def test_a_second_reply_of_one_node_and_a_reply_of_one_not_asked_are_dropped():
    app = client_app(gradwire.flower.compress())
    strategy = compressed(fed_avg(), uplink="topk:k=0.1")
    grid = InProcessGrid(app, [11, 12, 13])
    messages = list(strategy.configure_train(1, record(model()), ConfigRecord(), grid))
    asked, not_asked = messages[:2], messages[2:]
    strategy._asked -= {m.metadata.dst_node_id for m in not_asked}
    replies = list(grid.send_and_receive(asked))
    again = [Message(RecordDict(dict(replies[0].content)), reply_to=asked[0])]
    _, metrics = strategy.aggregate_train(1, [*replies, *again, *grid.send_and_receive(not_asked)])
    assert metrics["gradwire-dropped"] == 2


def test_random_mutations_of_a_reply_never_end_the_run():
    rng = np.random.default_rng(3)

    def fate(reply: Message):
        if reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "train":
            data = bytearray(reply.content["arrays"]["update"].data)
            for _ in range(3):
                data[rng.integers(len(data))] = rng.integers(256)
            reply.content["arrays"] = ArrayRecord({"update": bundle_array(bytes(data))})
        return reply

    result, _ = train_with(fate, rounds=30)
    assert all(np.isfinite(a).all() for a in arrays_of(result.arrays).values())
    assert sum(m["gradwire-dropped"] for m in result.train_metrics_clientapp.values()) > 15


def test_all_replies_bad_keeps_the_model():
    result, _ = train_with(lambda reply: put("session", 5)(reply.content) or reply)
    assert len(result.arrays) == 0, "Flower's result stays empty: no round gave a model"


def test_a_hostile_evaluation_is_dropped():
    def fate(reply: Message):
        if reply.metadata.src_node_id == HOSTILE and reply.metadata.message_type == "evaluate":
            reply.content["metrics"] = MetricRecord({"num-examples": float("inf"), "loss": 0.0})
        return reply

    result, _ = train_with(fate)
    assert all(np.isfinite(m["loss"]) and m["loss"] > 0 for m in result.evaluate_metrics_clientapp.values())


def test_a_client_that_diverged_refuses_by_itself(caplog):
    def train(arrays, node):
        moved = pull(arrays, node)
        if node == HOSTILE:
            moved["fc.weight"][0, 0] = np.nan
        return moved

    strategy = compressed(uplink="topk:k=0.1")
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result, _ = federate(strategy, client_app(gradwire.flower.compress(), train=train), rounds=1)
    assert result.train_metrics_clientapp[1]["gradwire-dropped"] == 1
    assert any("refused" in r.getMessage() and "fc.weight" in r.getMessage() for r in caplog.records)
