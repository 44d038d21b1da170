"""Replies are taken as they arrive: the fast clients' are checked while the slow ones still train."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message, RecordDict

import gradwire.flower
from flower.apps import arrays_of, client_app, compressed, fed_avg, model, record
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower import arrivals, replies
from gradwire.flower.arrivals import Arrivals, arriving

NODES = (11, 12, 13)


class SlowGrid(InProcessGrid):
    """Each question for replies finds at most one, the other clients are at work; ``silent`` never answer."""

    def __init__(self, events, silent=()):
        super().__init__(client_app(gradwire.flower.compress()), NODES)
        self.events, self.silent, self.questions = events, silent, 0

    def push_messages(self, messages):
        self.at_work = {str(m.metadata.dst_node_id): m for m in messages}
        self.events.append("sent")
        return list(self.at_work)

    def pull_messages(self, message_ids):
        assert set(message_ids) <= set(self.at_work), "asked again for what has been given"
        self.questions += 1
        ready = [i for i in self.at_work if i in message_ids and int(i) not in self.silent]
        if not ready or self.questions % 2 == 0:  # every other question is too early
            return []
        [reply] = InProcessGrid.send_and_receive(self, [self.at_work.pop(ready[0])])
        self.events.append(f"arrived {ready[0]}")
        reply.metadata.__dict__["_reply_to_message_id"] = ready[0]
        return [reply]


@pytest.fixture
def pauses(monkeypatch):
    made = []
    monkeypatch.setattr(arrivals.time, "sleep", made.append)
    return made


def test_each_reply_is_checked_when_it_arrives(pauses, monkeypatch):
    events: list[str] = []
    read = replies.read_update

    def spy(*args):
        events.append("checked")
        return read(*args)

    monkeypatch.setattr(replies, "read_update", spy)
    strategy = compressed(fed_avg(), uplink="topk:k=0.1")
    grid = SlowGrid(events)
    messages = strategy.configure_train(1, record(model()), ConfigRecord(), grid)
    arrays, metrics = strategy.aggregate_train(1, Arrivals(grid).send_and_receive(messages))
    arrived = [e for e in events if e.startswith("arrived")]
    assert events == ["sent", arrived[0], "checked", arrived[1], "checked", arrived[2], "checked"]
    assert len(set(arrived)) == 3
    assert metrics["gradwire-dropped"] == 0
    assert set(arrays_of(arrays)) == set(model())


def test_messages_are_sent_before_anybody_asks_for_replies():
    events: list[str] = []
    grid = SlowGrid(events)
    Arrivals(grid).send_and_receive([Message(RecordDict(), 11, "train")])
    assert events == ["sent"]


def test_pauses_grow_while_nothing_arrives_and_the_time_is_kept(monkeypatch):
    now, made = [100.0], []

    def sleep(seconds):
        made.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(arrivals.time, "sleep", sleep)
    monkeypatch.setattr(arrivals.time, "monotonic", lambda: now[0])
    grid = SlowGrid([], silent=(12,))
    strategy = compressed(fed_avg(), uplink="topk:k=0.1")
    messages = strategy.configure_train(1, record(model()), ConfigRecord(), grid)
    found = list(Arrivals(grid).send_and_receive(messages, timeout=20.0))
    assert {reply.metadata.src_node_id for reply in found} == {11, 13}
    assert now[0] == pytest.approx(120.0)
    assert made[0] == arrivals.SHORTEST
    assert max(made) == arrivals.LONGEST
    assert all(b <= 1.5 * a + 1e-9 or b == arrivals.SHORTEST for a, b in pairwise(made))


def test_only_flowers_own_grids_are_wrapped():
    own = InProcessGrid(client_app(), NODES)
    assert arriving(own) is own

    class Flowers(InProcessGrid):
        def send_and_receive(self, messages, *, timeout=None):
            raise AssertionError("replies are pulled")

    Flowers.send_and_receive.__module__ = "flwr.superlink.grid.http_grid"
    grid = Flowers(client_app(), NODES)
    wrapped = arriving(grid)
    assert isinstance(wrapped, Arrivals)
    assert list(wrapped.get_node_ids()) == list(NODES)
    assert wrapped.run.run_id == grid.run.run_id
    assert [node.node_id for node in wrapped.get_nodes()] == list(NODES)


def test_flowers_grids_are_known_as_such():
    """The rule is by the module's name: this fails if Flower moves its grids elsewhere."""
    from flwr.superlink.grid.http_grid import HttpGrid
    from flwr.superlink.grid.inmemory_grid import InMemoryGrid

    for kind in (HttpGrid, InMemoryGrid):
        assert isinstance(arriving(kind.__new__(kind)), Arrivals)
