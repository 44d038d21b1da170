"""The sharded topology, and gather beside it, on real gloo processes."""

import re
import sys

import numpy as np
import pytest
import torch

import gradwire
import sharded_jobs as jobs
from gloo_ranks import GlooRanks, RankError, only
from gradwire.torch.pieces import PIECE
from gradwire.torch.shards import Section, cut, pack, unpack

TOPOLOGIES = ["sharded", "gather"]
CODECS = ["topk:k=0.05", "rtopk:k=0.05,r=0.2", "sd:alpha=0.2", "topk:k=0.05,values=sd(alpha=0.1)"]


# Who owns what


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_every_entry_has_one_owner_and_one_part(world):
    parts = [Section(gradwire.Identity(), (5, 0, 11)), Section(gradwire.Identity(), (6,))]
    shards = cut(parts, world)
    entries = sorted(i for shard in shards for s in shard for i in range(s.start, s.stop))
    assert entries == list(range(22))
    assert all(not s.start < border < s.stop for shard in shards for s in shard for border in (5, 16))
    for first, last in ((0, 16), (16, 22)):
        owned = [sum(s.stop - s.start for s in shard if first <= s.start < last) for shard in shards]
        assert max(owned) - min(owned) <= 1


def test_packed_messages_come_back_and_a_wrong_length_is_an_error():
    messages = [b"", b"abc", b"x"]
    assert [bytes(m) for m in unpack(memoryview(pack(messages)), 3)] == messages
    for wrong in (pack(messages)[:-1], pack(messages) + b"y", b"\1\0\0"):
        with pytest.raises(gradwire.MessageError):
            unpack(memoryview(wrong), 3)


# What is computed


@pytest.mark.parametrize("codec", CODECS)
def test_sharded_means_are_those_of_the_definition_to_the_bit(four, codec):
    assert only([r[0] for r in four.run(jobs.rounds, "sharded", codec, 4)]) == jobs.by_definition(4, codec, 4)


@pytest.mark.parametrize("wrong", ["same draws", "owner keeps nothing"])
def test_a_wrong_definition_is_seen(four, wrong):
    codec = "rtopk:k=0.05,r=0.2"
    assert only([r[0] for r in four.run(jobs.rounds, "sharded", codec, 4)]) != jobs.by_definition(4, codec, 4, wrong)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_d12_replicas_are_bit_identical_and_nothing_is_lost(four, topology, codec):
    results = four.run(jobs.rounds, topology, codec, 8)
    only([prints for prints, *_ in results])
    inputs = sum(jobs.vector(rank, round).double() for rank in range(4) for round in range(8)).numpy() / 4
    kept = sum(sent.astype(np.float64) for _, _, sent, _ in results) / 4
    if topology == "sharded":
        whole = np.zeros_like(kept)
        for shard, (*_, owned) in zip(cut(jobs.sections(codec), 4), results, strict=True):
            whole[np.concatenate([np.arange(s.start, s.stop) for s in shard])] = owned
        assert np.abs(whole).max() > 0.1, "the owners have a residual of their own"
        kept += whole
    np.testing.assert_allclose(results[0][1] + kept, inputs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_dense_is_the_mean_and_leaves_no_residual(four, topology):
    for _, total, sent, owned in four.run(jobs.rounds, topology, "identity", 1):
        mean = sum(jobs.vector(rank, 0).double() for rank in range(4)).numpy() / 4
        np.testing.assert_allclose(total, mean, rtol=0, atol=1e-6)
        assert not sent.any()
        assert not owned.any()


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_fewer_entries_than_ranks_and_a_rank_alone(four, topology, n):
    assert only(four.run(jobs.few_entries, topology, n)) == ([1.5] * n, True, 0)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_without_error_feedback_unbiased_codecs_are_taken_and_residuals_stay_zero(four, topology):
    for _, total, sent, owned in four.run(jobs.rounds, topology, "randomk:k=0.05,scale=true", 2, False):
        assert total.any()
        assert not sent.any()
        assert not owned.any()


def test_an_unbiased_codec_is_refused_under_error_feedback(four):
    with pytest.raises(AssertionError, match="not contractive"):
        four.run(jobs.rounds, "sharded", "randomk:k=0.05,scale=true", 1)


# Skipping and failing


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_d1_a_round_with_an_infinite_entry_leaves_no_trace(four, topology):
    clean, skipped = (four.run(jobs.rounds, topology, "topk:k=0.05", 4, True, skip) for skip in (None, 2))
    for (prints, _, sent, owned), (prints2, _, sent2, owned2) in zip(clean, skipped, strict=True):
        assert prints == prints2
        assert np.array_equal(sent, sent2)
        assert np.array_equal(owned, owned2)


def test_d1_an_owner_whose_sum_overflows_makes_all_ranks_skip(four):
    assert only(four.run(jobs.overflow_at_owner)) == (True, True)


@pytest.mark.parametrize(("topology", "half"), [("sharded", 0), ("sharded", 1), ("gather", 0)])
def test_a_rank_that_fails_stops_the_others_with_a_sentence(four, topology, half):
    errors = four.run(jobs.one_fails, topology, half)
    assert errors[3][0] == "ZeroDivisionError"
    assert all(kind == "RuntimeError" and "rank 3 failed to encode at round 0" in text for kind, text in errors[:3])


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_ranks_at_different_rounds_are_told_so(four, topology):
    errors = four.run(jobs.at_another_round, topology)
    assert all("rank 1 is at round 1, part 0 and rank" in errors[rank] for rank in (0, 2, 3))
    assert "rank 0 is at round 0, part 0 and rank 1 at round 1" in errors[1]


def test_the_check_of_replicas_names_those_that_differ(four):
    assert only(four.run(jobs.diverge, ())) is None
    assert "the model on rank 2 is not what ranks 0, 1, 3 hold" in only(four.run(jobs.diverge, (2,)))
    assert "on ranks 2, 3 are not what ranks 0, 1 hold" in only(four.run(jobs.diverge, (2, 3)))


def test_the_exchange_checks_its_own_mean_now_and_then(four):
    quiet, error = only(four.run(jobs.diverging_mean))
    assert quiet
    assert "the mean of round 2 on rank 1 is not what ranks 0, 2, 3 hold" in error


# Bytes


def test_blobs_of_any_length_arrive(four):
    assert only(four.run(jobs.letters))


@pytest.mark.parametrize("how", ["all", "each"])
def test_long_blobs_arrive_in_pieces_and_are_counted_to_the_byte(four, how):
    """In the heads, in the room or a second collective, and in pieces, which carry nothing but the blobs."""
    results = four.run(jobs.long_letters, how)
    assert all(good for good, *_ in results)
    for _, counted, due in results:
        for sent, blobs in zip(counted, due, strict=True):
            assert sent == 3 * 16 + blobs  # some rank's blob is always long, so that there is no room to fill


def test_all_pieces_are_asked_for_before_one_is_sent(four):
    """Or else the link carries one direction after the other (docs/slow-links.md)."""
    for rank, calls in enumerate(four.run(jobs.order)):
        assert [kind for kind, *_ in calls] == ["ask"] * 9 + ["send"] * 9
        for kind in ("ask", "send"):
            for other in {0, 1, 2, 3} - {rank}:
                assert [size for k, peer, size in calls if (k, peer) == (kind, other)] == [PIECE, PIECE, 1]


@pytest.mark.parametrize(
    ("how", "leave", "text"),
    [("all", "hangs", "Timed out"), ("each", "hangs", "Timed out"), ("each", "dies", "[Cc]losed|reset")],
)
def test_a_rank_that_leaves_after_the_heads_is_an_error_for_the_others_in_time(how, leave, text):
    ranks = GlooRanks(3)
    try:
        with pytest.raises(RankError) as error:
            ranks.run(jobs.leaves_before_pieces, how, leave, seconds=20)
    finally:
        ranks.close()
    for rank in (0, 2):
        kind, said = error.value.failures[rank]
        assert kind == "RuntimeError"
        assert re.search(text, said)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count in /proc")
def test_d14_sharded_traffic_does_not_grow_with_the_ranks_and_gathered_does():
    """A rank of W sends (1 − 1/W)·(C(p_i) + C(q)) and lengths; both as counted and as the kernel counts."""
    n, codec, groups = 2_000_000, "topk:k=0.01", (2, 4, 8)
    message = len(gradwire.encode(codec, torch.randn(n), 0))
    ranks = GlooRanks(8)
    try:
        sharded = ranks.run(jobs.traffic, "sharded", codec, n, groups)
        gathered = ranks.run(jobs.traffic, "gather", codec, n, groups)
    finally:
        ranks.close()
    for size in groups:
        for rank in range(size):
            sent, written = sharded[rank][size]
            assert written == pytest.approx(sent, rel=0.05)
            assert sent == pytest.approx((1 - 1 / size) * 2 * message, rel=0.05)
            assert sent < 2 * message
            sent, written = gathered[rank][size]
            assert written == pytest.approx(sent, rel=0.05)
            assert sent == pytest.approx((size - 1) * message, rel=0.05)
