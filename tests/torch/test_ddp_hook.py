"""The DDP hook on real gloo processes. The names d1 … d17 are the cases that other hooks get wrong."""

import sys

import numpy as np
import pytest

import ddp_fits as fits
import ddp_jobs as jobs
from ddp_definition import against_definition
from gloo_ranks import GlooRanks, RankError, only
from gradwire.torch import EF21, Classic, MomentumCorrection

# What the hook computes


DEFINITIONS = {
    "topk": {},
    "rtopk": {"codec": jobs.RTOPK},
    "randomk": {"codec": "randomk:k=0.05"},
    "bfloat16 values": {"codec": "topk:k=0.05,values=bfloat16"},
    "dithering": {"codec": "sd:alpha=0.3"},
    "no feedback": {"codec": "randomk:k=0.05,scale=true", "variant": False},
    "decay": {"variant": Classic(decay=0.9)},
    "EF21": {"variant": EF21()},
    "momentum": {"variant": MomentumCorrection(0.9)},
    "momentum without masking": {"codec": jobs.RTOPK, "variant": MomentumCorrection(0.9, masking=False)},
    "step units": {"units": "step"},
    "loss scale": {"scaled": True},
    "step units, loss scale, momentum": {"units": "step", "scaled": True, "variant": MomentumCorrection(0.5)},
    "clip": {"clip": 0.05},
    "clip, loss scale": {"clip": 0.05, "scaled": True, "codec": jobs.RTOPK},
    "whole model": {"whole": True},
    "whole model, step units, clip": {"whole": True, "units": "step", "clip": 0.05},
    "ahead": {"ahead": 2.0},
    "ahead, step units, momentum": {"ahead": 0.5, "units": "step", "variant": MomentumCorrection(0.5)},
    "ahead, whole model, loss scale": {"ahead": 1.0, "whole": True, "scaled": True, "codec": jobs.RTOPK},
}


@pytest.mark.parametrize("topology", ["gather", "sharded"])
@pytest.mark.parametrize("options", DEFINITIONS.values(), ids=DEFINITIONS)
def test_gradients_and_residuals_are_those_of_the_definition_to_the_bit(four, options, topology):
    assert four.run(against_definition, {**options, "topology": topology}) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"codec": jobs.RTOPK}, "same draws"),
        ({}, "residual of the gradient only"),
        ({"variant": MomentumCorrection(0.9)}, "no masking"),
        ({"units": "step"}, "mean in other units"),
        ({"topology": "sharded"}, "owner keeps nothing"),
        ({"ahead": 2.0}, "stays where it is"),
    ],
)
def test_a_wrong_definition_is_seen(four, options, wrong):
    assert all(n > 0 for n in four.run(against_definition, options, wrong))


def test_dense_equals_ddp_without_a_hook(four):
    plain, hooked = four.run(jobs.train_plain, 5), four.run(jobs.train_plain, 5, "identity")
    np.testing.assert_allclose(hooked[0], plain[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("topology", ["gather", "sharded"])
@pytest.mark.parametrize("codec", [jobs.TOPK, jobs.RTOPK, "randomk:k=0.05", "sd:alpha=0.3"])
def test_d12_replicas_are_bit_identical_and_residuals_are_each_ranks_own(four, codec, topology):
    results = four.run(jobs.train, codec, 20, jobs.MANY_BUCKETS, 0, topology)
    only([parameters for parameters, _ in results])
    assert len({residuals for _, residuals in results}) == 4


def test_the_same_seed_gives_the_same_bits_and_another_one_others(two):
    first = two.run(jobs.train, jobs.RTOPK, 5)
    assert first == two.run(jobs.train, jobs.RTOPK, 5)
    assert first != two.run(jobs.train, jobs.RTOPK, 5, jobs.MANY_BUCKETS, 1)


def test_global_generators_are_left_alone(two):
    assert only(two.run(jobs.global_generators))


# What others get wrong


@pytest.mark.parametrize("where", [0, 2, 6], ids=["last bucket", "middle bucket", "first bucket"])
def test_d1_infinite_gradient_is_skipped_and_training_goes_on(two, where):
    clean = two.run(jobs.train, jobs.TOPK, 6)
    for rank, seen in enumerate(two.run(jobs.poison, where, 1)):
        assert not seen["finite after"]
        assert seen["residuals before"] == seen["residuals after"]
        assert (seen["steps"], seen["skipped"]) == (7, 1)
        assert seen["end"] == clean[rank], "a skipped step must leave no trace"


def test_d1_grad_scaler_finds_its_scale(two):
    results = two.run(jobs.with_scaler)
    for losses, scale, skipped, _ in results:
        assert 1 <= skipped < 20
        assert scale == 2.0 ** (24 - skipped)
        assert losses[-1] < losses[0]
    only([parameters for _, _, _, parameters in results])


@pytest.mark.parametrize("codec", [jobs.TOPK, jobs.RTOPK, "randomk:k=0.05", "identity"])
def test_d2_layer_with_zero_gradient_is_exact(two, codec):
    for zero, finite, nmse in two.run(jobs.zero_layer, codec):
        assert zero
        assert finite
        assert 0 <= nmse < 1.5


def test_d3_many_buckets_work_on_gloo_and_give_the_bits_of_one_bucket(four):
    assert only(four.run(jobs.bucket_count, jobs.MANY_BUCKETS)) == [1, 4]
    assert only(four.run(jobs.bucket_count, 25)) == [1, 1]
    many, one = four.run(jobs.train, jobs.RTOPK, 20), four.run(jobs.train, jobs.RTOPK, 20, 25)
    assert many == one


def test_d4_the_first_step_is_compressed(two):
    assert min(two.run(jobs.first_step, "topk:k=0.01")) > 70


def test_d5_scalar_parameter_works(two):
    assert only(two.run(jobs.scalar_parameter)) == [((64, 32), True), ((), True)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_d8_half_precision_on_gloo_is_summed_in_float32(two, dtype):
    assert two.run(jobs.half_precision, dtype) == [0, 0]


# Works with the rest of DDP


def test_d17_unused_parameters(two):
    results = two.run(fits.unused)
    only([gradients for gradients, _, _ in results])
    assert all(clean and steps == 2 for _, clean, steps in results)


def test_d17_tied_weights_have_one_residual(two):
    _, names = only(two.run(fits.tied))
    assert names == ["a.weight"]


def test_d17_no_sync_accumulates_and_sends_once(two):
    _, steps = only(two.run(fits.accumulate, 3))
    assert steps == 1


@pytest.mark.parametrize("ahead", [0.0, 2.0])
def test_d17_join_with_uneven_inputs(two, ahead):
    _, steps = only(two.run(fits.uneven, ahead))
    assert steps == 3


def test_d17_channels_last(two):
    assert only(two.run(fits.channels_last))


def test_d17_compiled_model(two):
    _, steps = only(two.run(fits.compiled))
    assert steps == 1


def test_d17_world_size_one_and_a_group_that_is_not_the_world(two):
    assert only(two.run(fits.alone)) == (True, 0)


# Attaching, failing, counting


@pytest.mark.parametrize(
    ("what", "text"),
    [("codec", "codec: rank 0 has topk"), ("seed", "settings"), ("names", "model layout")],
)
def test_ranks_that_differ_are_told_so_on_every_rank(four, what, text):
    error = only(four.run(jobs.differ, what))
    assert text in error
    assert "rank 1" in error
    only([p for p, _ in four.run(jobs.train, jobs.TOPK, 1)])  # and the processes are still good


@pytest.mark.parametrize(
    ("codec", "settings", "text"),
    [
        ("randomk:k=0.05,scale=true", {}, "not contractive"),
        ("topk:k=500", {}, "6.weight"),
        ("topk:k=0.1", {"history": -1}, "history"),
        ("nosuch:k=1", {}, "nosuch"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(two, codec, settings, text):
    assert text in only(two.run(jobs.refuse, codec, settings))


def test_unbiased_codec_is_taken_without_error_feedback(two):
    assert only(two.run(jobs.refuse, "randomk:k=0.05,scale=true", {"error_feedback": False})) is None


def test_a_rank_that_fails_stops_the_others_with_a_sentence(four):
    errors = four.run(jobs.one_fails)
    assert all("rank 3 failed to encode" in error for error in errors[:3])
    assert "division" in errors[3]


def test_a_rank_at_another_step_is_told_so(two):
    errors = two.run(jobs.at_another_step)
    assert "rank 1 is at step 5, bucket 0 and rank 0 at step 0" in errors[0]
    assert "rank 0 is at step 0, bucket 0 and rank 1 at step 5" in errors[1]


@pytest.mark.parametrize("topology", ["gather", "sharded"])
def test_d12_replicas_that_differ_in_a_bit_are_found(four, topology):
    for step, error in four.run(jobs.diverge, topology):
        assert step == 3
        assert "the model at step 3 on rank 3 is not what ranks 0, 1, 2 hold" in error


def test_messages_of_any_length_arrive_and_one_collective_is_enough_where_lengths_are_steady(four):
    sizes = [7, 7, 7, 100, 100, 0, 0, 5000]
    good, counted = only(four.run(jobs.varying, sizes))
    assert good
    head, lengths = 4 * 4, 4 * 2
    assert counted[0] == 3 * (head + lengths + 6 * 4 * 7), "the first time, exactly what is needed"
    assert counted[1] == 3 * (head + lengths + 6 * 4 * 7 + 18), "then in one, with a little to spare"
    assert counted[2] == 3 * (head + lengths + 6 * 4 * 7 + 15), "and less where nothing changes"
    assert counted[3] == 3 * (head + lengths + 6 * 4 * 100), "what did not fit followed"


def test_a_dead_rank_is_an_error_for_the_others():
    ranks = GlooRanks(2)
    try:
        with pytest.raises(RankError) as error:
            ranks.run(jobs.die, 1, seconds=30)
        assert error.value.failures[1] == ("", "died")
        assert error.value.failures[0][0] == "RuntimeError"
    finally:
        ranks.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count in /proc")
@pytest.mark.parametrize("codec", ["identity", "topk:k=0.05"])
def test_d11_bytes_are_those_of_the_codec_as_the_kernel_counts_them(four, codec):
    for sent, written, messages in four.run(jobs.counted, codec, 4):
        assert sent >= 3 * messages
        bits = 8 * messages / (4 * 800_400)
        assert bits == pytest.approx(32 if codec == "identity" else 0.05 * (32 + 5.8), rel=0.02)
        assert sent == pytest.approx(written, rel=0.02), "sent by the hook's count, written by the kernel's"
