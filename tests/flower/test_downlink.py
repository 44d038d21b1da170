"""One reference for all: who gets what, and how many bytes, under partial participation, dropouts and evaluation."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord

import gradwire.flower
from flower.apps import arrays_of, client_app, compressed, fed_avg, federate, model, record
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower.state import ClientState

DOWN = "sd:alpha=0.2"


class Rounds:
    """Rounds with chosen clients, by hand."""

    def __init__(self, nodes=(1, 2, 3, 4), downlink=DOWN, fate=None):
        self.strategy = compressed(fed_avg(), uplink="topk:k=0.1", downlink=downlink)
        self.grid = InProcessGrid(client_app(gradwire.flower.compress()), nodes, fate)
        self.arrays = record(model())
        self.number = 0

    def train(self, *nodes):
        """One round with these; the payload that each got."""
        self.number += 1
        self.grid.online = list(nodes)
        messages = list(self.strategy.configure_train(self.number, self.arrays, ConfigRecord(), self.grid))
        self.sent = [list(m.content["arrays"].values()) for m in messages]  # the grid gives the messages to the nodes
        arrays, self.metrics = self.strategy.aggregate_train(self.number, self.grid.send_and_receive(messages))
        self.arrays = arrays or self.arrays
        return self.strategy.meter.by_client("train-down", self.number)

    def evaluate(self, *nodes):
        self.grid.online = list(nodes)
        messages = self.strategy.configure_evaluate(self.number, self.arrays, ConfigRecord(), self.grid)
        self.metrics = self.strategy.aggregate_evaluate(self.number, self.grid.send_and_receive(messages))
        return self.strategy.meter.by_client("evaluate-down", self.number)

    def reference(self, node):
        state = ClientState.load(self.grid.context(node).state, self.strategy._broadcast.session)
        return state.version, state.reference


WHOLE = 15_000
"""Bytes above which a payload must be a whole model: the model has 15,409, a step some 3,700."""


def test_new_clients_get_the_model_others_a_step_and_late_ones_all_steps_that_they_missed():
    rounds = Rounds()
    assert all(size > WHOLE for size in rounds.train(1, 2).values())
    step = rounds.train(1, 2)
    assert all(0 < size < 5000 for size in step.values())
    third = rounds.train(1, 2, 3)
    assert third[3] > WHOLE, "new"
    late = rounds.train(1, 4)
    assert late[4] > WHOLE
    caught_up = rounds.train(2)  # it missed one
    assert late[1] < caught_up[2] < 2.5 * late[1] < WHOLE


def test_all_references_are_equal_bit_for_bit():
    rounds = Rounds()
    for nodes in ((1, 2), (1, 3), (2, 3, 4), (1,), (1, 2, 3, 4)):
        rounds.train(*nodes)
    due = rounds.strategy._broadcast.reference
    for node in (1, 2, 3, 4):
        version, reference = rounds.reference(node)
        assert version == 5
        for name, array in due.items():
            assert array.tobytes() == reference[name].tobytes(), name


def test_a_step_is_encoded_once_for_all():
    rounds = Rounds()
    rounds.train(1, 2, 3, 4)
    rounds.train(1, 2, 3, 4)
    assert [len(arrays) for arrays in rounds.sent] == [1, 1, 1, 1]
    assert len({id(arrays[0]) for arrays in rounds.sent}) == 1, "one object, which Flower sends and stores once"


def test_a_client_away_too_long_gets_the_model():
    rounds = Rounds()
    rounds.train(1, 2)
    for _ in range(12):
        rounds.train(2)
    assert rounds.train(1, 2)[1] > WHOLE
    assert rounds.reference(1)[1]["fc.weight"].tobytes() == rounds.reference(2)[1]["fc.weight"].tobytes()
    steps = rounds.strategy._broadcast._steps
    assert sum(len(step.data) for _, step in steps) < rounds.strategy._broadcast.layout.nbytes


def test_f8_a_model_that_is_there_is_not_sent_again():
    rounds = Rounds()
    rounds.train(1, 2)
    assert all(0 < size < 5000 for size in rounds.evaluate(1, 2).values()), "the new model, once"
    assert rounds.train(1, 2) == {1: 0, 2: 0}, "training starts from the model just evaluated"
    first = rounds.evaluate(1, 2)
    again = rounds.evaluate(1, 2)
    assert all(again[node] == first[node] for node in (1, 2)), "the second evaluation of a model costs nothing"


def test_dropouts_and_lost_replies_leave_references_in_order():
    lost: set[int] = set()
    rounds = Rounds(fate=lambda reply: None if reply.metadata.src_node_id in lost else reply)
    rounds.train(1, 2, 3)
    lost.add(2)  # it gets the step and answers, but the answer is lost: the server sends that step again
    rounds.train(1, 2, 3)
    assert rounds.reference(2)[0] == 2
    lost.clear()
    sizes = rounds.train(1, 2, 3)
    assert sizes[2] > 1.5 * sizes[1]
    assert rounds.reference(2)[1]["fc.weight"].tobytes() == rounds.reference(1)[1]["fc.weight"].tobytes()


def test_f10_a_client_that_lost_its_state_says_so_and_gets_the_model():
    rounds = Rounds()
    rounds.train(1, 2)
    del rounds.grid.contexts[2]
    rounds.train(1, 2)
    assert rounds.metrics["gradwire-dropped"] == 1
    assert rounds.train(1, 2)[2] > WHOLE
    assert rounds.metrics["gradwire-dropped"] == 0


def test_another_strategy_object_starts_anew():
    rounds = Rounds()
    rounds.train(1, 2)
    rounds.train(1, 2)
    before = rounds.grid.contexts
    fresh = Rounds()
    fresh.strategy._broadcast.session += 1
    fresh.grid.contexts = before
    assert all(size > WHOLE for size in fresh.train(1, 2).values())
    assert fresh.metrics["gradwire-dropped"] == 0


def test_downlink_error_is_fed_back():
    """With a coarse downlink the clients' reference still follows the model: what a step leaves out goes later."""
    app = client_app(gradwire.flower.compress(), train=lambda arrays, node: arrays)  # a model at rest
    strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="identity", downlink="topk:k=0.1")
    grid = InProcessGrid(app, [1])
    strategy.start(grid, record(model(0)), num_rounds=1)
    goal = record(model(9))
    distances = []
    for number in range(2, 14):
        arrays = record(
            {k: a + np.float32(1e-7) * number if k == "conv.bias" else a for k, a in arrays_of(goal).items()}
        )
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        strategy.aggregate_train(number, grid.send_and_receive(messages))
        reference = strategy._broadcast.reference["fc.weight"]
        distances.append(float(np.linalg.norm(reference - arrays_of(goal)["fc.weight"])))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-6 * distances[0]


def test_nothing_of_the_model_is_lost_to_a_coarse_downlink():
    """Updates are added to the server's model, not to the clients' reference of it."""
    app = client_app(gradwire.flower.compress(), train=lambda arrays, node: arrays)
    strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="identity", downlink="topk:k=0.01")
    grid = InProcessGrid(app, [1, 2])
    strategy.start(grid, record(model(0)), num_rounds=1)
    arrays = record(model(9))
    for number in range(2, 5):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
    np.testing.assert_allclose(arrays_of(arrays)["fc.weight"], model(9)["fc.weight"], rtol=1e-6)


def test_per_client_rates():
    codecs = {1: "topk:k=0.01", 2: "topk:k=0.1", 3: gradwire.SparseDithering(alpha=0.5)}
    strategy = compressed(fed_avg(), uplink=lambda node: codecs[node])
    federate(strategy, client_app(gradwire.flower.compress()), nodes=(1, 2, 3), rounds=2)
    up = strategy.meter.by_client("train-up", 2)
    fixed = up[1] - _size(codecs[1])
    assert up[2] - fixed == pytest.approx(_size(codecs[2]), rel=0.05)
    assert up[1] < up[2]
    assert up[3] not in (up[1], up[2])


def _size(codec):
    rng = np.random.default_rng(0)
    return sum(len(gradwire.encode(codec, rng.standard_normal(n), 0)) for n in (600, 2000))


def test_the_clients_choice_where_the_server_has_none():
    sizes = []
    for spec in ("topk:k=0.01", "topk:k=0.1"):
        strategy = compressed(fed_avg())
        federate(strategy, client_app(gradwire.flower.compress(spec)), rounds=1)
        sizes.append(strategy.meter.total("train-up"))
    assert sizes[0] < sizes[1]
