"""The state of the DDP hook: resume, other numbers of ranks, what is refused."""

import numpy as np
import pytest

import ddp_jobs
import ddp_states as jobs
from gloo_ranks import only
from gradwire.torch import EF21, MomentumCorrection

OPTIONS = {
    "gather": {},
    "sharded": {"topology": "sharded"},
    "momentum": {"error_feedback": MomentumCorrection(0.9), "topology": "sharded"},
    "EF21": {"error_feedback": EF21(), "codec": ddp_jobs.TOPK},
    "whole model": {"whole_model": True, "topology": "sharded"},
    "warm-up": {"warm_up": 8},
}


def test_d6_state_is_tensors_and_numbers_and_loads_with_weights_only(two):
    equal, keys, kinds, residuals = only(two.run(jobs.saved_state, {}))
    assert equal
    assert keys == ["sharded", "step", "version", "world_size"]
    assert kinds == {"int", "dict"}
    assert residuals == ["0.weight", "2.weight", "4.weight", "6.weight"]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("stop", [1, 6])
def test_d7_resume_gives_the_bits_of_a_run_that_never_stopped(four, tmp_path, options, stop):
    through = four.run(jobs.interrupt, options, 10, None, str(tmp_path))
    stopped = four.run(jobs.interrupt, options, 10, stop, str(tmp_path))
    assert stopped == through


def test_d7_four_ranks_stopped_at_step_120_of_200(four, tmp_path):
    through = four.run(jobs.interrupt, {}, 200, None, str(tmp_path))
    assert four.run(jobs.interrupt, {}, 200, 120, str(tmp_path)) == through


@pytest.mark.parametrize("topology", ["gather", "sharded"])
@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 4), (4, 2), (4, 1)])
def test_d13_another_number_of_ranks_keeps_the_sum_of_residuals(one, two, four, tmp_path, topology, old, new):
    options = {"topology": topology, "error_feedback": MomentumCorrection(0.9)}
    first, then = ({1: one, 2: two, 4: four}[world] for world in (old, new))
    before = first.run(jobs.train_and_save, options, 6, str(tmp_path))
    loaded = then.run(jobs.load_merged, options, first.world, str(tmp_path), "sum", 3)
    only([parameters for _, parameters in loaded])
    for buffer in ("residual", "velocity"):
        due = sum(part[buffer].astype(np.float64) for part in before)
        got = sum(part[buffer].astype(np.float64) for part, _ in loaded)
        assert np.abs(due).max() > 0
        np.testing.assert_allclose(got, due, rtol=0, atol=0 if new > old else 2e-7 * np.abs(due).max())
    owned = [np.sort(np.concatenate([part["owned"] for part in parts])) for parts in (before, [p for p, _ in loaded])]
    assert np.array_equal(*owned), "owners change, what is owed does not"
    assert owned[0].any() == (topology == "sharded")


def test_d13_the_mean_is_kept_on_request(two, four, tmp_path):
    before = four.run(jobs.train_and_save, {}, 4, str(tmp_path))
    loaded = two.run(jobs.load_merged, {}, 4, str(tmp_path), "mean")
    mean, got = (
        np.mean([p["residual"].astype(np.float64) for p in parts], axis=0) for parts in (before, [p for p, _ in loaded])
    )
    np.testing.assert_allclose(got, mean, rtol=0, atol=1e-7)


def test_ef21_starts_other_ranks_from_the_common_mean(two, four, tmp_path):
    options = {**OPTIONS["EF21"], "topology": "sharded"}
    before = two.run(jobs.train_and_save, options, 4, str(tmp_path))
    for part, _ in four.run(jobs.load_merged, options, 2, str(tmp_path), "sum", 2):
        assert np.array_equal(part["mean"], before[0]["mean"])
        assert np.array_equal(part["estimate"], before[0]["mean"])
        assert not part["owned"].any()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("rank", "the same rank saved"),
        ("missing", "merge_states"),
        ("size", "0.weight"),
        ("variant", "error_feedback"),
        ("topology", "sharded topology"),
        ("owned", "owns 5 entries"),
        ("version", "version 1"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(two, change, text):
    for error, unchanged in two.run(jobs.foreign, change):
        assert text in error
        assert unchanged
