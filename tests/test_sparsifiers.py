"""What the theory says of top-k, random-k and rTop-k, and what their messages cost."""

import math

import numpy as np
import pytest

import gradwire
from gradwire import RandomK, RTopK, TopK


def test_ties_go_to_the_lower_index():
    x = np.array([1, -2, 2, -1, 2, 1], np.float32)
    assert gradwire.decode(gradwire.encode(TopK(2), x, 0), 6).tolist() == [0, -2, 2, 0, 0, 0]
    assert gradwire.decode(gradwire.encode(TopK(4), x, 0), 6).tolist() == [1, -2, 2, 0, 2, 0]


def test_rtopk_with_r_equal_k_sends_the_values_of_topk():
    x = np.random.default_rng(0).standard_t(2, 5000).astype(np.float32)
    for k in (1, 50, 4999):
        a = gradwire.decode(gradwire.encode(TopK(k), x, 0), 5000)
        b = gradwire.decode(gradwire.encode(RTopK(k, k), x, 9), 5000)
        assert np.array_equal(a, b)


def test_rtopk_with_r_equal_n_is_a_uniform_subset():
    """Every coordinate and every pair is sent as often as by a uniform k-subset: chi-square within 5 deviations."""
    n, k, runs = 12, 5, 20000
    x = np.arange(1, n + 1, dtype=np.float32)
    kept = np.array([gradwire.decode(gradwire.encode(RTopK(k, n), x, s), n) != 0 for s in range(runs)])
    assert (kept.sum(1) == k).all()
    p = k / n
    single = (kept.sum(0) - runs * p) ** 2 / (runs * p * (1 - p))
    assert single.sum() * (n - 1) / n < (n - 1) + 5 * math.sqrt(2 * (n - 1))
    pair = k * (k - 1) / (n * (n - 1))
    counts = (kept.T.astype(np.float64) @ kept)[np.triu_indices(n, 1)]
    assert np.abs(counts - runs * pair).max() < 5 * math.sqrt(runs * pair * (1 - pair))


@pytest.mark.parametrize(("k", "r"), [(5, 5), (5, 20), (5, 100), (1, 2)])
def test_rtopk_error_identity(k, r):
    """E‖w − C(w)‖² = ‖w‖² − (k/r)‖Top_r(w)‖², within 5 standard errors and these below 1 % of it."""
    n, runs = 100, 6000
    w = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    w64 = w.astype(np.float64)
    errors = []
    for s in range(runs):
        d = gradwire.decode(gradwire.encode(RTopK(k, r), w, s), n) - w64
        errors.append(d @ d)
    top = np.sort(w64**2)[::-1]
    expected = top.sum() - (k / r) * top[:r].sum()
    standard_error = np.std(errors) / math.sqrt(runs)
    assert abs(np.mean(errors) - expected) <= 5 * standard_error + 1e-6 * expected
    assert standard_error < 0.01 * expected


def test_workers_draw_independently():
    x = np.ones(1000, np.float32)
    first, second = (gradwire.decode(gradwire.encode(RTopK(100, 1000), x, w), 1000) for w in (0, 1))
    assert 0 < np.count_nonzero(first * second) < 40


def test_randomk_scaled_is_unbiased_with_its_variance():
    n, k, runs = 20, 5, 20000
    x = np.linspace(-1, 2, n).astype(np.float32)
    y = np.array([gradwire.decode(gradwire.encode(RandomK(k, scale=True), x, s), n) for s in range(runs)], np.float64)
    assert np.abs(y.mean(0) - x).max() < 5 * np.abs(x).max() * math.sqrt((n / k - 1) / runs)
    omega = ((y - x) ** 2).sum(1).mean() / (x.astype(np.float64) ** 2).sum()
    assert abs(omega - (n / k - 1)) < 0.05


def test_randomk_indices_cost_eight_bytes():
    x = np.ones(100_000, np.float32)
    assert len(gradwire.encode(RandomK(1000), x, 0)) <= 4 * 1000 + 32


def test_topk_at_one_percent_costs_40_3_bits_an_entry():
    n, k = 1_000_000, 10_000
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    assert 8 * len(gradwire.encode(TopK(0.01), x, 0)) / k <= 32 + 8.3


@pytest.mark.parametrize("share", [1e-4, 1e-3, 0.01, 0.03, 0.1, 0.25, 0.382, 0.5])
def test_indices_cost_within_two_percent_of_the_binomial(share):
    """Index bytes of a message, against log2 C(n, k), at n = 1e6; the section's own head is in it."""
    n = 1_000_000
    k = round(share * n)
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    seen = gradwire.inspect(gradwire.encode(TopK(k), x, 0))
    limit = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)
    assert seen.details["index_bytes"] * 8 <= 1.02 * limit


def test_ten_entries_cost_tens_of_bytes():
    x = np.arange(10, dtype=np.float32)
    assert len(gradwire.encode(TopK(2), x, 0)) <= 24
    assert len(gradwire.encode(RandomK(2), x, 0)) <= 32
