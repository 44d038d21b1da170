"""Sparse Dithering at n = 100,000: error and bits on the rate-distortion experiment's vectors, adversarial ones too."""

import math

import numpy as np
import pytest

import gradwire
from gradwire.codecs.step_search import largest_step
from gradwire.experiments.rate_distortion_vectors import ADVERSARIAL, VECTORS, vector
from gradwire.theory.bounds import sparse_dithering_rate

N = 100_000
HEADER = 8 * 40
"""Bits of the frame and the sections' heads."""


def measure(spec, x, seed=0):
    message = gradwire.encode(spec, x, seed)
    y = gradwire.decode(message, len(x)).astype(np.float64)
    x = x.astype(np.float64)
    return 8 * len(message), float(((y - x) ** 2).sum() / (x * x).sum())


@pytest.fixture(scope="module", params=[*VECTORS, "one entry"])
def x(request):
    if request.param == "one entry":
        return np.eye(1, N, N // 2, dtype=np.float32)[0]
    pytest.importorskip("sklearn")
    return vector(request.param, N, 0)


@pytest.mark.parametrize("gain", ["paper", "optimal"])
def test_nearest_keeps_nu_and_the_papers_bits(x, gain):
    bits, error = measure(f"sd:nu=0.1,gain={gain}", x)
    assert error <= 0.1
    assert bits <= 30 + math.log2(len(x)) + sparse_dithering_rate(0.1) * len(x) + HEADER


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 5000, 20_000])
@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
def test_bits_stay_within_the_papers_formula_for_the_share_of_zeros(n, nu):
    """30 + log2 n + (H2(τ) + 1.5(1 − τ) + (1 − τ/2)/(2√ν))·n and the heads, τ the message's own share of zeros."""
    g = np.random.default_rng(n)
    for x in (g.standard_normal(n), g.standard_t(2, n), np.where(g.random(n) < 0.2, g.standard_normal(n), 0.0)):
        message = gradwire.encode(f"sd:nu={nu},gain=paper", x, 0)
        zeros = float(np.mean(gradwire.decode(message, n) == 0))
        rate = sparse_dithering_rate(nu, zero_share=zeros)
        assert 8 * len(message) <= 30 + math.log2(n) + rate * n + HEADER


def test_optimal_gain_never_has_more_error(x):
    assert measure("sd:nu=0.1", x)[1] <= measure("sd:nu=0.1,gain=paper", x)[1] + 1e-9


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01])
def test_searched_step_keeps_alpha_and_pays(x, alpha):
    bits, error = measure(f"sd:alpha={alpha}", x)
    assert error <= alpha
    assert bits <= measure(f"sd:nu={alpha},gain=paper", x)[0] + HEADER


@pytest.mark.parametrize(
    ("kind", "most"), [("gauss", 1.94), ("laplace", 1.80), ("sparse", 0.45), *((kind, 2.1) for kind in ADVERSARIAL)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_searched_step_s_bits(kind, most, seed):
    bits, error = measure("sd:alpha=0.1", vector(kind, N, seed))
    assert error <= 0.1
    assert bits / N <= most


def test_shared_dither_has_exactly_a_third_of_nu(x):
    nu = 0.3
    omegas = [measure(f"sd:nu={nu},rounding=shared", x, seed)[1] for seed in range(4)]
    assert np.mean(omegas) == pytest.approx(nu / 3, rel=0.02)


def test_stochastic_rounding_keeps_omega_and_its_bits(x):
    measured = [measure("sd:nu=0.25,rounding=stochastic", x, seed) for seed in range(8)]
    assert np.mean([error for _, error in measured]) <= 0.25
    assert np.mean([bits for bits, _ in measured]) <= 30 + math.log2(len(x) + 1) + 2.585 * len(x) + HEADER


def test_unbiased_roundings_have_no_bias():
    """Mean of 200 messages of 2,000 entries: its squared distance to x is ω‖x‖²/200, 3 % of chance either way."""
    x = vector("laplace", 2000, 3)
    for spec, omega in (("sd:nu=0.25,rounding=stochastic", None), ("sd:nu=0.75,rounding=shared", 0.25)):
        runs = 200
        total = np.zeros(len(x))
        errors = []
        for seed in range(runs):
            y = gradwire.decode(gradwire.encode(spec, x, seed), len(x)).astype(np.float64)
            total += y / runs
            errors.append(((y - x) ** 2).sum())
        distance = ((total - x) ** 2).sum()
        assert distance == pytest.approx(np.mean(errors) / runs, rel=0.2)
        if omega is not None:
            energy = float((x.astype(np.float64) ** 2).sum())
            assert np.mean(errors) / energy == pytest.approx(omega, rel=0.02)


def test_the_search_ends_near_the_largest_step():
    x = vector("gauss", N, 1)
    energy = float((x.astype(np.float64) ** 2).sum())
    step = largest_step(x, energy, float(np.abs(x).max()), 0.1)
    k = np.rint(x / np.float32(step)).astype(np.float64)
    error = 1 - (x @ k) ** 2 / ((k @ k) * energy)
    assert 0.1 * (1 - 2**-8) <= error <= 0.1
