"""Gradients taken ahead: where the parameters are during a step, and that they are shared again after it."""

import pytest
import torch

import ddp_ahead as jobs
import ddp_states as states
from gloo_ranks import RankError, only
from gradwire.errors import ParameterError
from gradwire.torch import EF21, DDPHook


def test_parameters_move_for_the_gradient_and_come_back_to_the_bit(two):
    results = two.run(jobs.places)
    only([end for _, _, end in results])
    for moved, back, _ in results:
        assert moved == [False, True, True]  # there is no residual before the first step
        assert back == [True, True, True]


def test_they_move_by_their_residual_in_every_layout_and_type(two):
    assert two.run(jobs.in_storage_order) == [[True] * 6] * 2


def test_evaluation_and_state_see_what_is_shared(two):
    assert only(two.run(jobs.looks_between)) == (True, True, True, True, True, 2)


def test_a_skipped_step_changes_nothing(two):
    stays, goes_on, _ = only(two.run(jobs.skips))
    assert stays
    assert goes_on


def test_compiled_model(two):
    assert only(two.run(jobs.compiled))


def test_the_replicas_are_compared_by_what_they_share(two):
    with pytest.raises(RankError, match="the replicas have diverged"):
        two.run(jobs.diverge)


def test_resumed_training_has_the_same_bits(two, tmp_path):
    options = {"ahead": 2.0}
    straight = two.run(states.interrupt, options, 8, None, str(tmp_path))
    assert two.run(states.interrupt, options, 8, 5, str(tmp_path)) == straight


def test_the_optimizer_may_be_wrapped_as_accelerate_and_lightning_do():
    class Wrapped:
        optimizer = torch.optim.SGD([torch.zeros(1)])

    assert DDPHook("topk:k=0.01", ahead=1.0, optimizer=Wrapped()).ahead == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ahead": -1.0}, "ahead is -1.0; give 0 or more"),
        ({"ahead": 1.0}, "needs optimizer=, an SGD"),
        ({"ahead": 1.0, "optimizer": torch.optim.Adam([torch.zeros(1)])}, "got Adam"),
        ({"ahead": 1.0, "error_feedback": False}, "keeps no residual"),
        ({"ahead": 1.0, "error_feedback": EF21()}, "keeps no residual"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, "nothing uses it"),
    ],
)
def test_errors_say_what_to_do(settings, message):
    with pytest.raises(ParameterError, match=message):
        DDPHook("topk:k=0.01", **settings)
