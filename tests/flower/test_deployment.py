"""A real SuperLink and two SuperNodes: three rounds, one node killed at work and started again."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("flwr")

from flower.deployment import Deployment, wait

pytestmark = pytest.mark.timeout(280)


def test_f8_f10_run_survives_a_node_that_dies_and_comes_back(tmp_path):
    with Deployment(tmp_path) as deployment:
        deployment.node(0, "stays")
        victim = deployment.node(1, "dies")
        run = deployment.run(rounds=3, seconds=1.0, timeout=20.0)
        at_work = tmp_path / "training-2-1"
        wait(at_work.exists, 100, "round 2 at the node that dies")
        deployment.kill(victim)
        at_work.unlink()
        deployment.node(1, "comes-back")
        report = tmp_path / "report.json"
        try:
            wait(report.exists, 150, "the end of the run")
            wait(lambda: deployment.state(run)["status"] == "finished:completed", 20, "the end as Flower sees it")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{deployment.logs()}") from None
        traffic = deployment.state(run)["network-traffic"]

    found = json.loads(report.read_text())
    readings = found["readings"]
    assert set(found["train"]) == {"1", "2", "3"}
    # The share of clients with a committed residual: none at first; then the one that stays, whose first update was
    # acknowledged; then it and the one that came back with nothing.
    assert [found["train"][r]["committed"] for r in "123"] == [0.0, 1.0, 0.5]

    def answers(server_round):
        return {
            r["node"] for r in readings if r["direction"] == "train-up" and r["round"] == server_round and r["payload"]
        }

    assert len(answers(1)) == 2
    assert len(answers(2)) == 1, "the node died before it answered"
    returned = answers(3) - answers(1)
    assert returned, "the node that came back took part in the last round"
    whole = [r for r in readings if r["direction"].endswith("down") and r["payload"] > 4_000_000]
    nodes = [r["node"] for r in whole]
    assert len(nodes) == len(set(nodes)) == 3, "each node gets the whole model once, the one that lost its state again"

    # The meter's count of what goes to and from the SuperNodes is Flower's own, within 3 %.
    up = sum(r["message"] for r in readings if r["direction"].endswith("up"))
    assert up == pytest.approx(traffic["inbound-bytes"], rel=0.03)
    down = [r for r in readings if r["direction"].endswith("down")]
    # What was sent to the dead node after its death waits in the SuperLink, and crosses no wire.
    unread = sum(r["message"] for r in down if (r["node"], r["round"]) not in _read(readings))
    assert sum(r["message"] for r in down) - unread == pytest.approx(traffic["outbound-bytes"], rel=0.03)


def _read(readings):
    """Nodes and rounds of which something came back, or that were killed at work."""
    return {(r["node"], r["round"]) for r in readings if r["direction"].endswith("up")} | {
        (r["node"], 2) for r in readings
    }
