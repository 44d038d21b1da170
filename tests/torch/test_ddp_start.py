"""One line to start, and more of what other hooks get wrong."""

from math import sqrt

import pytest

import ddp_starts as jobs
from gloo_ranks import only
from gradwire import ParameterError, TopK, from_spec
from gradwire.advise import Line, Speeds, advise
from gradwire.policy import WarmUp, codec_for_ratio
from gradwire.torch import EF21


def chosen(results):
    """What all ranks chose, and what came of it: all but what was said and measured."""
    return only([{key: value for key, value in one.items() if key not in ("said", "ratio")} for one in results])


def test_one_line_compresses_on_a_slow_link_and_says_what_and_why(two):
    first, second = two.run(jobs.one_line, "slow", {"ratio": 20, "warm_up": 0})
    (said,) = first["said"]
    assert second["said"] == [], "rank 0 speaks for all"
    assert chosen([first, second])["steps"] == 3
    assert first["ratio"] == pytest.approx(20, rel=0.2), "of the whole gradient, its dense tensors too"
    for word in (first["codec"], first["topology"], "2", "× smaller", "4 of 8 tensors", "faster than dense"):
        assert word in said
    assert "\n" not in said


def test_every_choice_can_be_named(two):
    choices = {"codec": "rtopk:k=0.02,r=0.1", "topology": "sharded", "warm_up": 5, "when": "always"}
    seen = chosen(two.run(jobs.one_line, "fast", choices))
    assert (seen["codec"], seen["topology"]) == ("rtopk:k=0.02,r=0.1", "sharded")
    assert (seen["warm-up"], seen["resting"]) == (5, False)


@pytest.mark.parametrize(
    ("choices", "ahead"),
    [
        ({"give": True}, 1.0),
        ({"give": True, "ahead": 2.0}, 2.0),
        ({"give": True, "ahead": 0.0}, 0.0),
        ({"give": True, "optimizer": "AdamW"}, 0.0),
        ({"give": True, "error_feedback": EF21()}, 0.0),
        ({"give": True, "codec": "sd:alpha=0.3"}, 0.0),
        ({}, 0.0),
    ],
)
def test_gradients_are_taken_a_step_ahead_where_the_optimizer_is_known_to_be_sgd(two, choices, ahead):
    first, second = two.run(jobs.one_line, "slow", {"codec": "topk:k=0.02", **choices})
    assert chosen([first, second])["ahead"] == ahead
    assert ("ahead" in first["said"][0]) == (ahead > 0)


def test_d15_dense_stays_where_compression_does_not_pay_and_it_is_said(two):
    first, second = two.run(jobs.one_line, "fast", {})
    (said,) = first["said"]
    seen = chosen([first, second])
    assert seen["resting"]
    assert seen["steps"] == 0
    assert seen["state"] == ["step", "version", "world_size"]
    assert "stay dense" in said
    assert "when='always'" in said


def test_what_is_measured_on_a_real_link_is_the_same_decision_on_all_ranks(two):
    chosen(two.run(jobs.one_line, "real", {}))


def test_a_resting_hooks_state_is_empty_and_a_working_ones_is_not_lost(two):
    assert "when='always'" in only(two.run(jobs.resting_state))


def test_a_run_goes_on_as_it_was_whatever_is_measured_now(two):
    assert only(two.run(jobs.resumed, "slow", "fast")) == [(False, "gather", 1), (False, "gather", 2)]
    assert only(two.run(jobs.resumed, "fast", "slow")) == [(True, "gather", 0), (True, "gather", 0)]


def test_advice_follows_the_numbers():
    slow, fast = Line(1e-3, 8e-8), Line(1e-5, 1e-11)
    cheap = {"encode": 5e-10, "decode": 2e-10, "bits": 0.32}
    assert advise(10**7, 2, 4, Speeds(slow, slow, slow, **cheap)).choice == "gather"
    assert advise(10**7, 32, 4, Speeds(slow, slow, slow, **cheap)).choice == "sharded"
    assert advise(10**7, 32, 4, Speeds(fast, fast, fast, **cheap)).choice == "dense"
    assert advise(10**7, 1, 4, Speeds(slow, slow, slow, **cheap)).choice == "dense", "nobody to talk to"
    seconds = advise(10**7, 4, 2, Speeds(slow, slow, slow, **cheap)).seconds
    assert seconds["dense"] == pytest.approx(2 * (1e-3 + 8e-8 * 2 * 10**7))
    assert seconds["gather"] == pytest.approx(5e-3 + 2 * (1e-3 + 8e-8 * 2e5) + 4 * 2e-3)
    with pytest.raises(ParameterError):
        advise(0, 2, 1, Speeds(slow, slow, slow, **cheap))


@pytest.mark.parametrize("ratio", [2, 4, 8, 16, 32, 50, 100, 1000])
def test_the_codec_for_a_ratio_has_it(ratio):
    import numpy as np

    import gradwire

    x = np.random.default_rng(3).standard_normal(300_000).astype(np.float32)
    assert 4 * len(x) / len(gradwire.encode(codec_for_ratio(ratio), x, 0)) == pytest.approx(ratio, rel=0.05)


def test_warm_up():
    warm = WarmUp(from_spec("rtopk:k=0.01,r=0.03"), 10, start=0.64)
    shares = [(warm.at(step).k, warm.at(step).r) for step in range(12)]
    assert shares[0] == pytest.approx((0.64, 1.0))
    assert shares[5] == pytest.approx((0.08, 0.24))
    assert shares[10] == shares[11] == (0.01, 0.03)
    assert str(WarmUp(from_spec("sd:alpha=0.1"), 1).at(0)) == "identity"
    with pytest.raises(ParameterError, match="share"):
        WarmUp(TopK(k=5), 10)
    with pytest.raises(ParameterError, match="starts at 2"):
        WarmUp(TopK(k=0.1), 10, start=2)


# What others get wrong


def test_d9_values_in_half_precision_keep_large_and_small_gradients(two):
    for worst, skipped in two.run(jobs.half_values):
        assert skipped == 0
        assert max(worst) <= 2**-11


@pytest.mark.parametrize("codec", ["topk:k=0.01", "sd:alpha=0.2"])
def test_d10_convolutions_unused_layers_and_prime_sizes_have_their_residuals(two, codec):
    results = two.run(jobs.awkward, codec)
    only([prints for prints, _ in results])
    for _, residuals in results:
        assert residuals == {"words.weight": True, "convolution.weight": True, "unused.weight": False}


def test_d17_gradient_clipping_sees_the_average(two):
    before, after = only(two.run(jobs.clipped))
    assert before > 0.01
    assert after == pytest.approx(0.01, rel=1e-4)


def test_stats_of_every_layer(two):
    for stats, sizes, residuals in two.run(jobs.layers):
        compressed = {name: size for name, size in sizes.items() if "weight" in name}
        assert set(stats.layers) == {*compressed, "dense"}
        assert sum(layer.message_bytes for layer in stats.layers.values()) == stats.total.message_bytes
        assert sum(layer.coordinates for layer in stats.layers.values()) == stats.total.coordinates
        for name, size in compressed.items():
            layer = stats.layers[name]
            assert (layer.steps, layer.coordinates) == (3, 3 * size)
            assert 0 < layer.nmse < 0.95
            # top-k keeps entries as they are: ⟨p, C(p)⟩ = ‖C(p)‖² = ‖p‖² − ‖p − C(p)‖²
            assert layer.cosine == pytest.approx(sqrt(1 - layer.nmse), rel=1e-6)
            assert layer.residual_norm == pytest.approx(float(residuals[name].double().norm()), rel=1e-6)
            assert layer.encode_ms > 0
        dense = stats.layers["dense"]
        assert (dense.nmse, dense.cosine) == (0, pytest.approx(1))
