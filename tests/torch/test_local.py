"""Local updates on real gloo processes."""

import numpy as np
import pytest
import torch

import gradwire
import local_jobs as jobs
from gloo_ranks import only
from gradwire.torch.chunks import ChunkedTopK

TOPOLOGIES = ["sharded", "gather"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_dense_messages_give_diloco_as_written_down(three, topology):
    assert max(three.run(jobs.against_definition, topology)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("ahead", [0.0, 0.5, 1.0])
def test_rounds_begin_ahead_as_written_down(three, ahead, dtype):
    for difference, moved in three.run(jobs.ahead_against_definition, ahead, dtype):
        assert difference < 1e-6
        assert (moved > 1e-3) == (ahead > 0)


def test_ranks_move_once_with_their_first_step_of_a_round(three):
    results = three.run(jobs.where_ranks_stand)
    common = only([prints[0] for prints, *_ in results])
    for prints, ways, moved, half in results:
        assert prints[1] == common
        assert ways == [0.0, 0.0], "the way begins where the rank moved to"
        assert moved == pytest.approx(half, rel=1e-3)
        assert half > 1e-3


def test_a_compiled_model_moves_too(two):
    plain, compiled = only(two.run(jobs.compiled))
    assert compiled == plain


def test_without_a_residual_or_its_owner_nothing_moves(two):
    assert only(two.run(jobs.without_feedback)) == (True, True)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nothing_is_lost_over_rounds(three, topology):
    """What the model moved and what the residuals hold is the mean of all the ways."""
    results = three.run(jobs.conserve, topology, 4)
    moved = results[0][0]
    kept = sum(sent.astype(np.float64) / 3 + owned for _, sent, owned, _ in results)
    ways = sum(way for *_, way in results) / 3
    assert np.abs(kept).max() > 1e-3
    np.testing.assert_allclose(moved + kept, ways, rtol=0, atol=1e-6)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("stop", [6, 8], ids=["at the end of a round", "within a round"])
def test_d7_resume_gives_the_bits_of_a_run_that_never_stopped(three, tmp_path, topology, stop):
    through = three.run(jobs.train, topology, 12)
    assert three.run(jobs.train, topology, 12, jobs.CODEC, stop, str(tmp_path)) == through
    only([parameters for parameters, *_ in through])
    assert len({residual for _, residual, _ in through}) == 3


def test_d6_state_is_tensors_and_numbers_and_loads_with_weights_only(two):
    kinds, residuals, steps, rounds = only(two.run(jobs.saved_state))
    assert kinds == {"int", "dict", "Tensor"}
    assert residuals == ["0.weight", "2.weight", "4.weight", "6.weight"]
    assert (steps, rounds) == (1, 1)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_d6_a_distributed_checkpoint_holds_all_parts_and_what_it_would_lose_is_refused(three, tmp_path, topology):
    same, error = only(three.run(jobs.checkpointed, topology, str(tmp_path)))
    assert same
    assert "0 of the outer optimizer's 8 tensors" in error


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_d1_a_round_that_is_not_finite_is_taken_back_on_all_ranks(three, topology):
    results = three.run(jobs.spoil, topology)
    for rank, (seen, finite, skipped, rounds, _) in enumerate(results):
        assert seen["before"] == seen["after"]
        assert seen["model"]
        assert seen["state kept"] == (rank != 2), "only the rank that was not finite forgets its optimizer's state"
        assert finite
        assert (skipped, rounds) == (1, 4)
    only([end for *_, end in results])


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_f11_statistics_are_averaged_and_other_buffers_and_frozen_parameters_stay(three, topology):
    results = three.run(jobs.buffers, topology)
    assert all(close and masked and untouched for close, masked, untouched, *_ in results)
    only([moved for *_, moved, _ in results])
    assert [count for *_, count in results] == [3, 8, 3]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_bf16_parameters_follow_a_float32_start(two, topology):
    _, rounded, kinds = only(two.run(jobs.low_precision, topology))
    assert rounded
    assert kinds == {"torch.float32"}


@pytest.mark.parametrize(
    ("topology", "codec"), [("sharded", "topk:k=0.1,values=sd(alpha=0.05)"), ("gather", "topk:k=0.05")]
)
def test_training_with_few_bits_learns(two, topology, codec):
    results = two.run(jobs.learn, topology, codec, 100)
    for before, after, _, stats in results:
        assert after < 0.5 * before
        assert stats.rounds == 20
        assert stats.skipped == 0
        assert stats.sent_bytes < stats.dense_bytes / 3
    only([end for _, _, end, _ in results])


@pytest.mark.parametrize("keep", ["sum", "mean"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("grow", [True, False], ids=["2 to 3", "3 to 2"])
def test_d13_states_load_at_another_world_size_with_the_sum_kept(two, three, tmp_path, topology, grow, keep):
    before, after = (two, three) if grow else (three, two)
    parameters = only(before.run(jobs.save_states, topology, 2, str(tmp_path)))
    old = [torch.load(tmp_path / f"of{before.world}rank{r}.pt", weights_only=True) for r in range(before.world)]
    results = after.run(jobs.load_states, topology, before.world, str(tmp_path), keep)
    old = [state[f"rank{rank}"] for rank, state in enumerate(old)]
    summed = sum(torch.cat(list(part["residuals"].values())).double().numpy() for part in old)
    loaded = sum(residual[0].astype(np.float64) for residual, *_ in results)
    scale = after.world / before.world if keep == "mean" else 1.0
    assert np.abs(summed).max() > 1e-3
    np.testing.assert_allclose(loaded[: summed.size], scale * summed, rtol=0, atol=1e-8)
    assert not loaded[summed.size :].any(), "dense entries have no residual"
    owned_before = np.concatenate([part["owned"].numpy() for part in old])
    owned_after = np.concatenate([residual[1] for residual, *_ in results])
    np.testing.assert_array_equal(np.sort(owned_after), np.sort(owned_before))
    assert only([print_ for _, print_, _ in results]) == parameters
    only([end for *_, end in results])


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("model", "ParameterError", "not parameters of the model"),
        ("replicas", "RuntimeError", "the replicas have diverged: the model at the start"),
        ("every", "ParameterError", "rank 1 has every=3"),
        ("ahead", "ParameterError", "ahead=0.5"),
        ("too far", "ParameterError", "ahead is 1.5"),
        ("codec", "ParameterError", "codec: rank 0 has topk:k=0.2"),
        ("topology", "ParameterError", "'ring'"),
        ("unbiased", "ParameterError", "not contractive"),
        ("rank", "ParameterError", "same rank saved"),
        ("name", "ParameterError", "0.weight"),
        ("owned", "ParameterError", "owns 0 entries"),
        ("version", "ParameterError", "has version 1"),
        ("keep", "ParameterError", "keep is 'all'"),
        ("within", "ParameterError", "after 1 steps of a round"),
        ("missing", "ParameterError", "lacks the part of rank1, rank2"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(two, what, kind, text):
    errors = two.run(jobs.refuse, what)
    assert all(error is not None and error[0] == kind and text in error[1] for error in errors), errors


# SparseLoCo's regime


@pytest.mark.parametrize("values", ["sd(alpha=0.05)", "sd(alpha=0.1)"])
@pytest.mark.parametrize("law", ["gauss", "laplace", "student"])
def test_d18_a_kept_value_costs_at_most_ten_bits_in_all(values, law):
    n = 4096 * 64
    x = torch.from_numpy(
        {
            "gauss": lambda rng: rng.standard_normal(n),
            "laplace": lambda rng: rng.laplace(size=n),
            "student": lambda rng: rng.standard_t(3, size=n),
        }[law](np.random.default_rng(0)).astype(np.float32)
    )
    whole = gradwire.from_spec(f"topk:k=0.015625,values={values}")
    for codec in (whole, ChunkedTopK(k=64, chunk=4096, values=whole.values)):
        size = len(gradwire.encode(codec, x, 1))
        assert 8 * size / (n // 64) < 10


def test_chunked_top_k_keeps_the_largest_of_every_chunk():
    x = torch.randn(1000 * 3 + 7, generator=torch.Generator().manual_seed(0))
    y = torch.from_numpy(gradwire.decode(gradwire.encode(ChunkedTopK(k=10, chunk=1000), x, 0), x.numel()))
    for chunk, got, k in zip(x.split(1000), y.split(1000), (10, 10, 10, 1), strict=True):
        expected = torch.zeros_like(chunk)
        top = chunk.abs().topk(k).indices
        expected[top] = chunk[top]
        assert torch.equal(got, expected)
    guarantee = ChunkedTopK(k=10, chunk=1000).guarantee(x.numel())
    assert guarantee.error == pytest.approx(0.99)
    assert ((x - y) ** 2).sum() <= guarantee.error * (x**2).sum()


@pytest.mark.parametrize("n", [1, 99, 100, 101, 1000])
def test_chunked_top_k_is_within_its_guarantee_for_equal_magnitudes_and_is_as_short_as_it_says(n):
    codec = ChunkedTopK(k=7, chunk=100)
    x = torch.ones(n)
    message = gradwire.encode(codec, x, 0)
    left = x - torch.from_numpy(gradwire.decode(message, n))
    assert (left**2).sum() <= codec.guarantee(n).error * n * (1 + 1e-6)
    assert len(message) <= codec.guarantee(n).max_bytes


def test_chunked_top_k_refuses_what_is_not_finite_and_wrong_parameters():
    with pytest.raises(gradwire.InputError):
        gradwire.encode(ChunkedTopK(k=1, chunk=4), torch.tensor([0.0, 1, 2, 3, 4, float("nan")]), 0)
    for wrong in ({"k": 0}, {"k": 5, "chunk": 4}, {"values": "float8"}):
        with pytest.raises(gradwire.ParameterError):
            ChunkedTopK(**wrong)
