"""The FSDP2 hook on real gloo processes and a CPU mesh."""

import numpy as np
import pytest
import torch

import fsdp_jobs as jobs
from gloo_ranks import only
from gradwire.torch.fsdp_layout import Piece


@pytest.mark.parametrize("kind", ["1d", "replicas"])
@pytest.mark.parametrize("nested", [True, False], ids=["layer by layer", "as one"])
@pytest.mark.parametrize("make", ["net", "unused"])
def test_dense_messages_give_the_gradients_of_fsdp(four, kind, nested, make):
    for worst, seen, sent in four.run(jobs.dense_gradients, kind, nested, make, "float32"):
        assert worst < 1e-6
        assert seen == 12
        assert sent


def test_weights_that_are_cut_by_columns_are_put_together_in_order(four):
    for worst, seen, _ in four.run(jobs.dense_gradients, "1d", True, "net", "columns"):
        assert worst < 1e-6
        assert seen == 12


@pytest.mark.parametrize(
    ("shape", "dim", "shards"), [((7, 3), 0, 3), ((2, 3), 0, 4), ((3, 8, 2), 1, 4), ((0, 3), 0, 2)]
)
def test_a_piece_knows_where_its_entries_lie_in_chunks(shape, dim, shards):
    """Chunks as FSDP2 makes them: torch.chunk along the dimension, padded to the first one's size."""
    piece = Piece("weight", shape, dim, shards, dense=False)
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    parts = [part.contiguous().flatten() for part in weight.chunk(shards, dim)] if weight.numel() else []
    chunks = torch.full((shards, piece.padded), torch.nan)
    for chunk, part in zip(chunks, parts, strict=False):
        chunk[: part.numel()] = part
    whole = torch.empty(piece.size)
    piece.take(chunks, whole)
    assert torch.equal(whole, weight.movedim(dim, 0).flatten())
    back = torch.full_like(chunks, torch.nan)
    for shard in range(shards):
        one = torch.empty(piece.held(shard).stop - piece.held(shard).start)
        piece.take(chunks[shard : shard + 1], one)
        assert torch.equal(one, whole[piece.held(shard)])
        piece.put(one, back[shard])
    assert torch.equal(back, chunks.nan_to_num(0.0))


def test_d8_float16_reduction_is_summed_in_float32(four):
    for worst, seen, _ in four.run(jobs.dense_gradients, "1d", True, "net", "float16"):
        assert worst < 2e-3
        assert seen == 12


@pytest.mark.parametrize(
    ("kind", "codec"), [("1d", "rtopk:k=0.05,r=0.2,values=sd(alpha=0.1)"), ("replicas", "rtopk:k=0.05,r=0.2")]
)
def test_d7_resume_gives_the_bits_of_a_run_that_never_stopped(four, kind, codec):
    through, stopped = four.run(jobs.train, codec, kind, 16), four.run(jobs.train, codec, kind, 16, 8)
    assert [result[:2] for result in stopped] == [result[:2] for result in through]
    only([parameters for parameters, *_ in through])
    assert len({residual for _, residual, *_ in through}) == 4
    assert all(after < before for _, _, before, after, _ in through)


@pytest.mark.parametrize("kind", ["1d", "replicas"])
def test_d6_a_distributed_checkpoint_holds_the_parts_of_all_ranks(four, tmp_path, kind):
    assert four.run(jobs.checkpointed, kind, str(tmp_path)) == [(True, True, 1)] * 4


def whole(parts, kind):
    """The sum over the ranks of what they keep, by name and in the order of the whole parameter."""
    sums = {}
    for part in parts:
        for name, kept in part.items():
            sums.setdefault(name, np.zeros(dict(jobs.net().named_parameters())[name].numel()))
            start, values = kept[f"{kind}_from"], np.asarray(kept[kind], np.float64)
            sums[name][start : start + len(values)] += values
    return sums


@pytest.mark.parametrize("keep", ["sum", "mean"])
@pytest.mark.parametrize("kind", ["1d", "replicas", "all replicas"])
@pytest.mark.parametrize("grow", [True, False], ids=["2 to 4", "4 to 2"])
def test_d13_states_load_at_another_number_of_ranks_with_the_sum_kept(two, four, tmp_path, kind, grow, keep):
    before, after = (two, four) if grow else (four, two)
    before.run(jobs.save, kind, 3, str(tmp_path))
    states = [torch.load(tmp_path / f"rank{r}of{before.world}.pt", weights_only=True) for r in range(before.world)]
    old = [state[f"rank{rank}"] for rank, state in enumerate(states)]
    results = after.run(jobs.load, kind, before.world, keep, str(tmp_path))
    new = [part for part, *_ in results]
    senders = [2 if kind == "replicas" else ranks.world for ranks in (before, after)]
    scale = senders[1] / senders[0] if keep == "mean" else 1.0
    for name, residual in whole(old, "sent").items():
        assert np.abs(residual).max() > 1e-3
        np.testing.assert_allclose(whole(new, "sent")[name], scale * residual, rtol=0, atol=1e-7)
    for name, residual in whole(old, "owned").items():
        assert np.any(residual) == (kind != "1d")
        np.testing.assert_array_equal(whole(new, "owned")[name], residual)
    assert set(whole(old, "sent")) == {"0.weight", "2.weight", "4.weight"}
    assert only([step for _, step, _ in results]) == 3
    only([end for *_, end in results])


@pytest.mark.parametrize("kind", ["1d", "replicas"])
def test_d1_a_step_that_is_not_finite_is_nan_everywhere_and_leaves_no_trace(four, kind):
    clean = four.run(jobs.train, "rtopk:k=0.05,r=0.2", kind, 6)
    poisoned = four.run(jobs.train, "rtopk:k=0.05,r=0.2", kind, 6, None, 4)
    assert all(well for *_, well in poisoned)
    assert [result[:2] for result in poisoned] == [result[:2] for result in clean]


def test_nothing_is_lost_in_the_reduce_scatter(four):
    for worst, most in four.run(jobs.conserve, 5):
        assert worst < 1e-6
        assert most > 1e-2


def test_fewer_bytes_are_sent(four):
    for compressed, dense in four.run(jobs.traffic):
        assert compressed < dense / 50


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("plain", "call fully_shard"),
        ("native", "one-dimensional mesh"),
        ("unbiased", "not contractive"),
        ("codec", "the ranks differ in codec"),
        ("state", "differ in the compressed parameters 2.weight, 4.weight"),
        ("size", "residuals of 0.weight do not fit the model"),
        ("version", "has version 1"),
        ("keep", "keep is 'all'"),
        ("parts", "lacks the part of rank"),
        ("kind", "the same kind of seat"),
        ("factor", "set_force_sum_reduction_for_comms"),
        ("frozen", "requires_grad"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(four, what, text):
    for error in four.run(jobs.refuse, what):
        assert error is not None
        assert text in error
