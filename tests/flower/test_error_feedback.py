"""Residuals: committed when the server has used the update, rolled back when it has not; nothing is ever lost."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, MessageType

import gradwire
import gradwire.flower
from flower.apps import arrays_of, client_app, compressed, fed_avg, federate, model, pull, record, target
from gradwire.errors import InputError, ParameterError
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower import bundle
from gradwire.flower.changes import changes
from gradwire.flower.layout import Layout, Rules
from gradwire.flower.state import ClientState

CODECS = ["rtopk:k=0.1,r=0.3", "topk:k=0.05,values=bfloat16", "sd:alpha=0.3"]


def some(seed):
    layout = Layout.of(model(), Rules())
    reference = {t.name: t.keep(a) for t, a in zip(layout.tensors, model(seed).values(), strict=True)}
    return layout, reference


def decoded(layout, parts):
    """What the server adds to its reference."""
    zero = {t.name: np.zeros(t.shape, np.float32) for t in layout.tensors if t.compressed}
    return {t.name: bundle.apply(t, zero[t.name], parts[t.name]).reshape(-1) for t in layout.tensors if t.compressed}


@pytest.mark.parametrize("spec", [*CODECS, "randomk:k=0.1", "randomk:k=0.1,scale=true"])
def test_f10_sent_plus_new_residual_is_change_plus_old_residual(spec):
    layout, reference = some(1)
    after = pull(reference, 5)
    codec = gradwire.from_spec(spec)
    old = {
        t.name: np.random.default_rng(3).standard_normal(t.size).astype(np.float32)
        for t in layout.tensors
        if t.compressed
    }
    made = changes(layout, reference, after, old, codec, gradwire.Rng(1))
    sent = decoded(layout, made.parts)
    for name in old:
        due = (after[name] - reference[name]).reshape(-1) + old[name]
        left = made.residuals.get(name)
        if left is None:
            assert codec.guarantee(due.size).error >= 1, "only a codec that is not contractive keeps no residual"
            continue
        if spec.startswith("sd"):
            np.testing.assert_allclose(sent[name] + left, due, rtol=0, atol=np.abs(due).max() * 2**-22)
        else:
            np.testing.assert_array_equal(sent[name] + left, due)


def test_f9_a_tensor_in_pieces_keeps_the_same_invariant(monkeypatch):
    monkeypatch.setattr(bundle, "PIECE", 77)
    layout, reference = some(1)
    after = pull(reference, 5)
    old = {t.name: np.ones(t.size, np.float32) for t in layout.tensors if t.compressed}
    made = changes(layout, reference, after, old, gradwire.RTopK(0.1, 0.3), gradwire.Rng(1))
    data = bundle.write_changes(bundle.UPDATE, layout, (made.parts[t.name] for t in layout.tensors))
    assert len(made.parts["fc.weight"]) == 26
    sent = decoded(layout, bundle.read_changes(bundle.UPDATE, layout, data))
    for name in old:
        due = (after[name] - reference[name]).reshape(-1) + old[name]
        np.testing.assert_array_equal(sent[name] + made.residuals[name], due)
    result, _ = federate(
        compressed(uplink="topk:k=0.1", downlink="sd:alpha=0.2"), client_app(gradwire.flower.compress())
    )
    assert result.train_metrics_clientapp[3]["gradwire-dropped"] == 0


def test_f2_small_and_large_changes_are_encoded_alike():
    """Relative error does not depend on the scale of the change, from 1e-30 to 1e30."""
    layout, reference = some(1)
    zero = {name: np.zeros_like(a) for name, a in reference.items()}
    change = {name: np.random.default_rng(4).standard_normal(a.shape) for name, a in zero.items()}
    for spec in CODECS:
        errors = []
        for scale in (1e-30, 1e-4, 1.0, 1e30):
            after = {
                t.name: (scale * change[t.name]).astype(np.float32) if t.compressed else zero[t.name]
                for t in layout.tensors
            }
            made = changes(layout, zero, after, {}, gradwire.from_spec(spec), gradwire.Rng(1))
            left = made.residuals["fc.weight"].astype(np.float64) / scale
            errors.append(float((left**2).sum() / (change["fc.weight"] ** 2).sum()))
        assert max(errors) < 1.02 * min(errors), spec


def test_f3_encoding_changes_nothing_that_it_is_given():
    layout, reference = some(1)
    after, old = pull(reference, 5), {"fc.weight": np.ones(2000, np.float32)}
    before = [{k: a.copy() for k, a in d.items()} for d in (reference, after, old)]
    first = changes(layout, reference, after, old, gradwire.RTopK(0.1, 0.3), gradwire.Rng(1))
    again = changes(layout, reference, after, old, gradwire.RTopK(0.1, 0.3), gradwire.Rng(1))
    assert first.parts == again.parts
    for was, now in zip(before, (reference, after, old), strict=True):
        assert all(np.array_equal(was[k], now[k]) for k in was)


def test_what_does_not_change_costs_one_byte():
    layout, reference = some(1)
    made = changes(layout, reference, reference, {}, gradwire.TopK(0.1), gradwire.Rng(1))
    assert set(made.parts.values()) == {None}
    data = bundle.write_changes(bundle.UPDATE, layout, (made.parts[t.name] for t in layout.tensors))
    assert len(data) == 9 + len(layout.tensors)


def test_a_change_that_is_not_finite_names_the_tensor():
    layout, reference = some(1)
    after = pull(reference, 5)
    after["fc.weight"][3, 4] = np.nan
    with pytest.raises(InputError, match=r"fc\.weight.*nan"):
        changes(layout, reference, after, {}, gradwire.TopK(0.1), gradwire.Rng(1))


def test_norm_limit_scales_what_is_sent_and_keeps_the_rest():
    layout, reference = some(1)
    after = pull(reference, 5)
    old = {t.name: np.full(t.size, 3, np.float32) for t in layout.tensors if t.compressed}
    for spec in CODECS:
        limit = 40.0
        free = changes(layout, reference, after, old, gradwire.from_spec(spec), gradwire.Rng(1))
        held = changes(layout, reference, after, old, gradwire.from_spec(spec), gradwire.Rng(1), norm_limit=limit)

        def norm(made):
            end = {t.name: bundle.apply(t, reference[t.name], made.parts[t.name]) for t in layout.tensors}
            return np.sqrt(
                sum(float(((end[k].astype(float) - reference[k]) ** 2).sum()) for k in end if end[k].dtype != bool)
            )

        assert norm(free) > limit
        assert limit * 0.999 < norm(held) <= limit
        for name in old:
            due = (after[name] - reference[name]).reshape(-1) + old[name]
            np.testing.assert_allclose(
                decoded(layout, held.parts)[name] + held.residuals[name], due, rtol=1e-5, atol=1e-5
            )


class Federation:
    """One round at a time, by hand."""

    def __init__(self, fate=None, codec="topk:k=0.05", **options):
        self.strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink=codec, **options)
        self.grid = InProcessGrid(client_app(gradwire.flower.compress()), [7, 8], fate)
        self.arrays = record(model())
        self.rounds = 0

    def train(self):
        self.rounds += 1
        messages = self.strategy.configure_train(self.rounds, self.arrays, ConfigRecord(), self.grid)
        replies = self.grid.send_and_receive(messages)
        arrays, _ = self.strategy.aggregate_train(self.rounds, replies)
        self.arrays = arrays or self.arrays

    def state(self, node):
        return ClientState.load(self.grid.context(node).state, self.strategy._broadcast.session)


def test_f10_committed_when_used_rolled_back_when_lost():
    lost: set[int] = set()
    federation = Federation(fate=lambda reply: None if reply.metadata.src_node_id in lost else reply)
    federation.train()
    first = federation.state(7)
    assert first.ticket == 1
    assert first.residuals == {}
    assert first.pending["fc.weight"].any()

    lost.add(7)
    federation.train()  # its message tells node 7 that the first update was used; the second one is lost
    second = federation.state(7)
    assert second.ticket == 2
    assert np.array_equal(second.residuals["fc.weight"], first.pending["fc.weight"])

    lost.clear()
    federation.train()
    third = federation.state(7)
    assert np.array_equal(third.residuals["fc.weight"], first.pending["fc.weight"]), "as before the lost one"
    assert np.array_equal(federation.state(8).residuals["fc.weight"], federation.state(8).residuals["fc.weight"])
    federation.train()
    assert np.array_equal(federation.state(7).residuals["fc.weight"], third.pending["fc.weight"])


def test_f10_a_dropped_update_is_rolled_back():
    federation = Federation(max_norm=1e-3)  # every update is too large for it
    federation.train()
    federation.train()
    assert federation.state(7).residuals == {}
    assert federation.state(7).ticket == 2


def test_f10_an_evaluation_acknowledges_too():
    federation = Federation()
    federation.train()
    federation.strategy.strategy.fraction_evaluate = 1.0
    pending = federation.state(7).pending["fc.weight"]
    messages = federation.strategy.configure_evaluate(1, federation.arrays, ConfigRecord(), federation.grid)
    assert all(m.metadata.message_type == MessageType.EVALUATE for m in messages)
    replies = federation.grid.send_and_receive(messages)
    assert federation.strategy.aggregate_evaluate(1, replies) is not None
    assert np.array_equal(federation.state(7).residuals["fc.weight"], pending)
    assert federation.state(7).ticket == 0


def test_f10_an_app_that_fails_loses_nothing():
    fail = [False]

    def train(arrays, node):
        if fail[0] and node == 7:
            raise RuntimeError("out of memory")
        return pull(arrays, node)

    federation = Federation()
    federation.grid.app = client_app(gradwire.flower.compress(), train=train)
    federation.train()
    pending = federation.state(7).pending["fc.weight"]
    fail[0] = True
    federation.train()
    fail[0] = False
    federation.train()
    assert np.array_equal(federation.state(7).residuals["fc.weight"], pending)


def test_error_feedback_reaches_the_mean_that_top_k_alone_misses():
    def step(arrays, node):
        goal = target(node)
        return {n: a + np.float32(0.1) * (goal[n] - a) if a.dtype.kind == "f" else a for n, a in arrays.items()}

    def distance(error_feedback):
        strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="topk:k=0.1")
        app = client_app(gradwire.flower.compress(error_feedback=error_feedback), train=step)
        result, grid = federate(strategy, app, rounds=60)
        mean = np.mean([target(node)["fc.weight"] for node in grid.nodes], axis=0)
        return float(np.linalg.norm(arrays_of(result.arrays)["fc.weight"] - mean))

    assert distance(True) < 0.3 * distance(False)


class Spied(InProcessGrid):
    """Keeps what the app of the last message got and gave back, and the update that was sent."""

    def __init__(self, node, ahead):
        def train(arrays, node):
            self.given, self.returned = arrays, pull(arrays, node)
            return self.returned

        app = client_app(gradwire.flower.compress("sd:alpha=0.3", ahead=ahead), train=train)
        super().__init__(app, [node])

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        [reply] = super().send_and_receive(messages, timeout=timeout)
        self.got = arrays_of(messages[0].content["arrays"])  # the mod has put it there
        if reply.metadata.message_type == MessageType.TRAIN:
            self.sent = reply.content["arrays"]["update"].data
        return [reply]


def test_training_starts_ahead_of_the_reference_and_evaluation_at_it():
    strategy, grid = compressed(fed_avg(), downlink="sd:alpha=0.2"), Spied(7, ahead=0.25)

    def state():
        return ClientState.load(grid.context(7).state, strategy._broadcast.session)

    arrays = record(model())
    for number in range(1, 4):
        old = state().residuals
        assert bool(old) == (number > 1)
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
        now = state()
        update = decoded(now.layout, bundle.read_changes(bundle.UPDATE, now.layout, grid.sent))
        for t in now.layout.tensors:
            residual = old.get(t.name, np.zeros(t.size, np.float32))
            start = now.reference[t.name]
            if t.compressed:
                start = start + np.float32(0.25) * residual.reshape(t.shape)
                due = (grid.returned[t.name] - start).reshape(-1) + residual
                left = due - update[t.name]
                np.testing.assert_allclose(now.pending[t.name], left, rtol=0, atol=np.abs(due).max() / 2**22)
            np.testing.assert_array_equal(grid.given[t.name], start)
        messages = strategy.configure_evaluate(number, arrays, ConfigRecord(), grid)
        strategy.aggregate_evaluate(number, grid.send_and_receive(messages))
        assert state().residuals["fc.weight"].any()
        for name, array in state().reference.items():
            np.testing.assert_array_equal(grid.got[name], array)


def test_training_ahead_keeps_residuals_small_where_clients_are_unlike():
    """A client that starts at the reference asks in each round anew for what waits in its residual already."""

    def run(ahead):
        strategy = compressed(fed_avg(fraction_evaluate=0.0), uplink="topk:k=0.1")
        result, grid = federate(strategy, client_app(gradwire.flower.compress(ahead=ahead)), range(11, 19), rounds=20)
        mean = np.mean([target(node)["fc.weight"] for node in grid.nodes], axis=0)
        states = [ClientState.load(grid.context(n).state, strategy._broadcast.session) for n in grid.nodes]
        waiting = np.mean([np.linalg.norm(state.pending["fc.weight"]) for state in states])
        return float(np.linalg.norm(arrays_of(result.arrays)["fc.weight"] - mean)), float(waiting)

    (far, much), (near, little) = run(0.0), run(0.5)
    assert near < 0.75 * far
    assert little < 0.75 * much


def test_ahead_is_a_share():
    for ahead in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="ahead"):
            gradwire.flower.compress("topk:k=0.1", ahead=ahead)


def test_no_residual_where_the_codec_is_not_contractive():
    layout, reference = some(1)
    for scale in (False, True):
        made = changes(layout, reference, pull(reference, 5), {}, gradwire.RandomK(0.1, scale=scale), gradwire.Rng(1))
        assert bool(made.residuals) == (not scale)
