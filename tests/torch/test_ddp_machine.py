"""What the DDP hook costs the machine: memory, overlap with backward, buffers, traffic."""

import sys

import pytest

import ddp_machine as jobs
from gloo_ranks import GlooRanks


def run_fresh(function, *args):
    """In processes whose memory holds nothing of earlier tests."""
    ranks = GlooRanks(2)
    try:
        return ranks.run(function, *args)
    finally:
        ranks.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count in /proc")
def test_d16_peak_memory_is_the_residuals_and_two_buckets(monkeypatch):
    # What is freed goes back to the kernel at once, so that memory is what is used and not what malloc has kept.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "131072")
    plain = min(memory for memory, _ in run_fresh(jobs.peak, None))
    residuals, bucket = 4 * jobs.DEPTH * jobs.WIDTH**2, jobs.CAP * 2**20
    for codec, topology in (("topk:k=0.01", "gather"), ("topk:k=0.01", "sharded"), ("sd:alpha=0.3", "gather")):
        settings = {"codec": codec, "topology": topology, "nmse_every": 2, "check_every": 0}
        for memory, ratio in run_fresh(jobs.peak, settings):
            messages = 3 * residuals / ratio  # this rank's, and two received
            owned = residuals / 2 if topology == "sharded" else 0
            assert memory - plain <= residuals + owned + 2 * bucket + messages + 2e6, (codec, topology, memory - plain)


@pytest.mark.parametrize("topology", ["gather", "sharded"])
def test_buckets_leave_while_later_gradients_are_computed(four, topology):
    for exchanged, steps in four.run(jobs.overlap, topology):
        assert exchanged >= 1
        assert steps == 2


@pytest.mark.parametrize("topology", ["gather", "sharded"])
def test_buffers_are_reused(four, topology):
    assert all(four.run(jobs.buffers, topology))


def test_d14_sharded_traffic_does_not_grow_with_the_ranks_and_gathered_does(four):
    sharded, gathered = (four.run(jobs.traffic, topology, (2, 4))[0] for topology in ("sharded", "gather"))
    # A rank sends (1 − 1/W) of its messages twice: W = 4 sends 3/2 of what W = 2 sends, and never twice as much.
    assert sharded[4] / sharded[2] == pytest.approx(1.5, rel=0.05)
    assert gathered[4] / gathered[2] == pytest.approx(3.0, rel=0.05)


def test_d16_other_hooks_compose(four):
    for same, steps, layers in four.run(jobs.prepared):
        assert same
        assert steps == [0, 0]
        assert layers == ["0.weight", "2.weight", "4.weight", "6.weight", "dense"]
