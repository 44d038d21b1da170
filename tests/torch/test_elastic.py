"""Ranks that are killed, stop, are late or differ: training goes on with the same bits, or a sentence names them."""

import re
import signal
import sys
from pathlib import Path

import pytest

import elastic_jobs as jobs
from launched import Launched

STOPS_AT = Path(__file__).parent / "stops_at.py"
TOPOLOGIES = ["gather", "sharded"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface has another name")


@pytest.fixture(scope="module")
def unbroken(four, tmp_path_factory):
    """What the example says of its parameters, by topology, if nobody is killed."""
    reports = {}
    for topology in TOPOLOGIES:
        folder = tmp_path_factory.mktemp("unbroken")
        every = four.run(jobs.example, str(folder), topology)
        assert len({report.split("parameters ")[1] for report in every}) == 1
        reports[topology] = re.fullmatch(r"steps 0 to 200: (loss .*, parameters \w{64})", every[0])[1]
    assert reports["gather"] != reports["sharded"]
    return reports


# Killed


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_killed_at_step_120_and_restarted_by_torchrun_gives_the_bits_of_an_unbroken_run(unbroken, tmp_path, topology):
    with Launched(tmp_path) as launched:
        options = ["--folder", tmp_path / "run", "--topology", topology]
        launched.torchrun(4, 2, STOPS_AT, 2, 120, "SIGKILL", jobs.TRAIN, *options)
        assert launched.wait(100) == [0], launched.all_output()
        assert "SIGKILL at step 120" in launched.output()
        assert f"steps 100 to 200: {unbroken[topology]}" in launched.output()


def test_killed_and_started_by_hand_gives_the_same_bits_and_other_numbers_of_ranks_go_on(unbroken, tmp_path):
    options = ["--folder", tmp_path / "run", "--topology", "sharded"]
    with Launched(tmp_path) as launched:
        launched.ranks(4, STOPS_AT, 2, 120, "SIGKILL", jobs.TRAIN, *options)
        assert launched.wait(100, ends=1)[2] == -signal.SIGKILL
    (tmp_path / "run" / "step000100-of-4-ranks" / "rank0003.pt").unlink()  # as if it had not come to that
    with Launched(tmp_path) as launched:
        launched.ranks(4, jobs.TRAIN, *options)
        assert launched.wait(100) == [0] * 4, launched.all_output()
        assert f"steps 50 to 200: {unbroken['sharded']}" in launched.output()
    with Launched(tmp_path) as launched:
        launched.ranks(2, jobs.TRAIN, *options, "--steps", 202)
        assert launched.wait(100) == [0] * 2, launched.all_output()
        assert "steps 200 to 202: loss" in launched.output()


# Hanging


@pytest.mark.parametrize(
    ("who", "how", "text"),
    [
        (1, "SIGSTOP", "rank 1 did not take part in time in the exchange of step 20"),
        (1, "SIGKILL", "rank 1 broke the connection in the exchange of step 20"),
        (0, "SIGSTOP", "the store of the process group does not answer: rank 0 holds it"),
        (0, "SIGKILL", "the store of the process group does not answer: rank 0 holds it"),
    ],
    ids=["stopped", "dead", "stopped, and holds the store", "dead, and held the store"],
)
def test_a_rank_that_stops_in_the_middle_is_named_by_all_others(tmp_path, who, how, text):
    with Launched(tmp_path) as launched:
        launched.ranks(3, STOPS_AT, who, 20, how, jobs.TRAIN, "--folder", tmp_path / "run", "--patience", 3)
        launched.wait(100, ends=3 if how == "SIGKILL" else 2)
        for rank in {0, 1, 2} - {who}:
            assert text in launched.output(rank), launched.all_output()


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_rank_that_sleeps_longer_than_the_timeout_is_named_by_all_others(four, topology):
    answers = four.run(jobs.sleeper, 1, topology)
    for rank, (error, seconds) in enumerate(answers):
        if rank != 1:
            assert "rank 1 did not take part in time in the exchange of step 2" in error
            assert seconds < 7
    assert "step 2" in answers[1][0], "and the late one gets an error, too"


# Attaching


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (1, "rank 1 has not attached gradwire within 4 s"),
        (0, "the store of the process group does not answer: rank 0 holds it"),
    ],
    ids=["a rank", "the rank that holds the store"],
)
def test_a_rank_that_is_stopped_before_it_attaches_is_named_by_all_others(tmp_path, who, text):
    with Launched(tmp_path) as launched:
        launched.ranks(3, STOPS_AT, who, 0, "SIGSTOP", jobs.TRAIN, "--folder", tmp_path / "run")
        launched.wait(100, ends=2)
        for rank in {0, 1, 2} - {who}:
            assert text in launched.output(rank), launched.all_output()


def test_a_rank_that_never_attaches_is_named(four):
    answers = four.run(jobs.absentee, 2)
    for rank in (0, 1, 3):
        error, seconds = answers[rank]
        assert "rank 2 has not attached gradwire within 1 s" in error
        assert seconds < 3
    assert answers[2] is None


@pytest.mark.parametrize("what", ["codec", "model layout", "gradwire version"])
def test_ranks_that_differ_are_told_so_at_once(four, what):
    answers = four.run(jobs.differ, what)
    assert len({error for error, _ in answers}) == 1
    assert f"the ranks differ in {what}: rank 0 has" in answers[0][0]
    assert max(seconds for _, seconds in answers) < 5
