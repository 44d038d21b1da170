"""Kashin's chunks a group at a time: what a vector becomes does not depend on how many are at hand."""

import numpy as np
import pytest

import gradwire
from gradwire.codecs import spreading
from gradwire.codecs.frames import layout_for
from gradwire.rng import Rng

N = 700_001


def spread_with(monkeypatch, group, rounds, x):
    monkeypatch.setattr(spreading, "GROUP", group)
    monkeypatch.setattr(spreading, "ROUNDS", rounds)
    layout, _ = layout_for(len(x), 2.0, 1)
    return spreading.spread(x, layout, 5, 25 / 16 * 2.0, 2, Rng(3))


@pytest.mark.parametrize("rounds", [24, 9])
def test_groups_are_one_vector(monkeypatch, rounds):
    x = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    x[: N // 2] **= 3
    whole, parts = (spread_with(monkeypatch, group, rounds, x) for group in (2**22, 2**20))
    assert (rounds == 9) == (whole.frames.max() > 0)  # with few rounds some chunks need another frame
    assert b"".join(map(bytes, whole.section)) == b"".join(map(bytes, parts.section))
    np.testing.assert_array_equal(whole.magnitudes, parts.magnitudes)
    np.testing.assert_array_equal(whole.frames, parts.frames)


def test_a_chunk_without_a_frame_in_the_last_group_sends_the_whole_otherwise(monkeypatch):
    x = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    assert spread_with(monkeypatch, 2**20, 0, x) is None
    codec = gradwire.from_spec("kashin")
    y = gradwire.decode(gradwire.encode(codec, x, 0), N)
    assert np.mean((y - x) ** 2) < 1.5 * codec.omega * np.mean(x**2)
