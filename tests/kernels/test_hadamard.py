"""The Walsh–Hadamard transform and Kashin's representation: native against reference and definition."""

import numpy as np
import pytest
from scipy.linalg import hadamard as matrix

from gradwire import _core
from gradwire.codecs.frames import Layout, RandomFrame
from gradwire.kernels import reference


def same_bits(a, b):
    return np.array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


@pytest.mark.parametrize("log2n", range(9))
def test_reference_is_the_matrix(log2n):
    x = np.random.default_rng(log2n).integers(-99, 99, (3, 1 << log2n)).astype(np.float32)
    expected = x @ matrix(1 << log2n)
    assert np.array_equal(reference.hadamard(x.reshape(-1), log2n), expected.reshape(-1).astype(np.float32))


@pytest.mark.parametrize("log2n", [0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 14, 15])
def test_native_is_the_reference(level, log2n):
    """Rounding floats, so that another order of sums would show; 13 and beyond are walked in blocks."""
    x = np.random.default_rng(log2n).standard_t(2, 3 << log2n).astype(np.float32)
    assert same_bits(_core.hadamard(x, log2n), reference.hadamard(x, log2n))


@pytest.mark.parametrize("log2n", [12, 14])
def test_twice_is_the_length(log2n):
    x = np.random.default_rng(1).standard_normal(1 << log2n).astype(np.float32)
    twice = _core.hadamard(_core.hadamard(x, log2n), log2n)
    assert np.abs(twice / (1 << log2n) - x).max() < 1e-5


def frame_of(log2n, count, seed=3):
    return RandomFrame(seed, 0, Layout(log2n, count, 1))


def goals_of(y, factor):
    return (factor * np.sqrt((y.astype(np.float64) ** 2).sum(1))).astype(np.float32)


@pytest.mark.parametrize(("log2n", "count"), [(1, 1), (3, 3), (6, 50), (9, 256), (12, 2048), (12, 4000)])
def test_native_representation_is_the_reference(level, log2n, count):
    g = np.random.default_rng(count)
    y = g.standard_t(2, (4, count)).astype(np.float32)
    y[1] = 0
    y[2] *= np.float32(1e-38)
    frame, goals = frame_of(log2n, count), goals_of(y, 1.3)
    arguments = (y.reshape(-1), frame.positions, frame.signs, log2n, goals, 9)
    for got, expected in zip(_core.represent(*arguments), reference.represent(*arguments), strict=True):
        assert same_bits(np.abs(got), np.abs(expected))
        assert np.array_equal(got, expected)


def test_it_represents_within_the_goal():
    """λ = 2: K = 1.7678 is reached, where the shortest representation is 2.3 times as large, and Hp/N gives y back."""
    log2n, count = 12, 2048
    y = np.random.default_rng(0).standard_normal((20, count)).astype(np.float32)
    frame, goals = frame_of(log2n, count), goals_of(y, 1.25 * 2**0.5)
    p, largest = _core.represent(y.reshape(-1), frame.positions, frame.signs, log2n, goals, 24)
    p = p.reshape(20, -1)
    assert (largest <= goals).all()
    assert np.array_equal(np.abs(p).max(1), largest)
    back = reference.hadamard(p.reshape(-1), log2n).reshape(20, -1)[:, frame.positions] * frame.signs / 4096
    assert np.abs(back - y).max() < 2e-6
    shortest, first = _core.represent(y.reshape(-1), frame.positions, frame.signs, log2n, goals, 0)
    assert (first > 1.8 * goals).all()
    assert (np.linalg.norm(p, axis=1) >= np.linalg.norm(shortest.reshape(20, -1), axis=1)).all()


def test_wrong_shapes_are_refused():
    x = np.ones(12, np.float32)
    with pytest.raises(ValueError, match="whole number"):
        _core.hadamard(x, 3)
    positions, signs = np.array([0, 1, 2], np.uint32), np.ones(3, np.float32)
    goals = np.ones(4, np.float32)
    for bad in (positions[::-1].copy(), np.array([0, 1, 4], np.uint32), np.array([1, 1, 2], np.uint32)):
        with pytest.raises(ValueError, match="ascend"):
            _core.represent(x, bad, signs, 2, goals, 1)
    with pytest.raises(ValueError, match="lengths"):
        _core.represent(x, positions, signs, 2, goals[:3], 1)
    with pytest.raises(ValueError, match="too large"):
        _core.represent(x, positions, signs, 13, goals, 1)
