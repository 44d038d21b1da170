"""The bounds agree with 50-digit arithmetic, direct sums, and codes that really quantise vectors."""

import doctest
import math
import os
import subprocess
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import gradwire.theory
from gradwire.errors import ParameterError
from gradwire.theory import bounds

ALPHAS = [1.1e-9, 1e-4, 0.1, 0.5, 0.9] + [1 - y for y in (1e-2, 1e-4, 1e-6, 1e-8, 1.1e-9)]
DIMS = [2, 3, 4, 5, 10, 33, 100, 1000, 10**5, 10**7, 10**9]
# a·(1 − α) around 3, where the method changes, and wherever −log2 P is of order 1
EDGES = [(1 - 2 * c / (d - 1), d) for d in (10, 33, 1000, 10**6, 10**9) for c in (0.5, 2.9, 3.1, 4.0)]


def exact_log2_cap(alpha, dim):
    """log2 P at 50 digits: the beta function itself, or for large d the integral it stands for."""
    with mp.workdps(50):
        x, a = mp.mpf(alpha), mp.mpf(dim - 1) / 2
        if dim <= 200:
            return mp.log(mp.betainc(a, mp.mpf(1) / 2, 0, x, regularized=True) / 2, 2)
        # P = Γ(a+½)/(Γ(a)√π) ∫ (1−w²)^{a−1} dw from √(1−α) to 1, scaled by the value at its lower end
        low = mp.sqrt(1 - x)
        width = min(1 / mp.sqrt(a), x / (2 * low * (a - 1)))
        nodes = [low] + [low + width * mp.mpf(2) ** j for j in range(-2, 10)]
        nodes = [w for w in nodes if w < 1] + ([mp.mpf(1)] if nodes[-1] >= 1 else [])
        integral = mp.quad(lambda w: mp.exp((a - 1) * (mp.log1p(-w * w) - mp.log(x))), nodes)
        factor = mp.loggamma(a + mp.mpf(1) / 2) - mp.loggamma(a) - mp.log(mp.pi) / 2
        return ((a - 1) * mp.log(x) + mp.log(integral) + factor) / mp.log(2)


@pytest.mark.parametrize("dim", DIMS)
def test_cap_probability_against_50_digits(dim):
    for alpha in ALPHAS + [x for x, d in EDGES if d == dim]:
        exact = exact_log2_cap(alpha, dim)
        assert abs((mp.mpf(bounds.log2_cap_probability(alpha, dim)) - exact) / exact) < 1e-12, alpha


def test_cap_probability_at_the_change_of_method():
    for alpha, dim in EDGES:
        exact = exact_log2_cap(alpha, dim)
        assert abs((mp.mpf(bounds.log2_cap_probability(alpha, dim)) - exact) / exact) < 1e-12, (alpha, dim)


@pytest.mark.parametrize(("dim", "bits"), [(10, 17.8377), (100, 169.0051), (1000, 1665.5355), (10**9, 1660964061.98)])
def test_cap_probability_known_values(dim, bits):
    assert -bounds.log2_cap_probability(0.1, dim) == pytest.approx(bits, abs=0.005 if dim > 1e6 else 5e-5)


def test_cap_probability_closed_forms_and_order():
    for alpha in (1e-6, 0.3, 0.999):  # d = 3: caps have area proportional to their height
        cap = alpha / (2 * (1 + math.sqrt(1 - alpha)))
        assert bounds.log2_cap_probability(alpha, 3) == pytest.approx(math.log2(cap), rel=1e-14)
    near_one = [bounds.log2_cap_probability(1 - 10.0**-e, 50) for e in range(2, 10)]
    assert near_one == sorted(near_one)
    assert near_one[-1] < -1.0
    asymptotic = 0.5 * 999 * math.log2(1 / 0.1) + 0.5 * math.log2(2 * math.pi * 1000 * 0.9)
    assert abs(bounds.average_case_bits(0.1, 1000) - asymptotic) < 2 / 1000


@pytest.mark.parametrize("n", [49, 50, 51, 1000, 10**6, 2**32])
def test_log2_binomial(n):
    for k in {0, 1, 2, 3, 15, 16, 17, n // 1000, n // 10, n // 2, n - 2, n}:
        with mp.workdps(50):
            exact = (mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)) / mp.log(2)
        assert bounds.log2_binomial(n, k) == pytest.approx(float(exact), rel=1e-14, abs=1e-14)


def test_order_of_the_bounds():
    for alpha in (0.01, 0.1, 0.5, 0.9):
        for dim in (2, 3, 10, 100, 1000, 10**6, 10**9):
            lower = bounds.average_case_bits(alpha, dim)
            assert bounds.average_case_bits(alpha, dim, strict=False) < lower
            assert bounds.uncertainty_bits(alpha, dim) < lower + 0.5 * math.log2(1 / alpha)
            gap = bounds.existence_bits(alpha, dim) - lower
            assert 0 < gap < math.log2(dim) + math.log2(math.log(dim + 1)) + 4
            # The paper's small e cannot be Euler's number: a code with fewer bits exists.
            assert bounds.covering_bits(alpha, dim, e=math.e) > bounds.existence_bits(alpha, dim)
            assert lower < bounds.covering_bits(alpha, dim) < bounds.existence_bits(alpha, dim)


def test_existence_is_above_the_best_code_of_the_circle():
    for alpha in (0.001, 0.1, 0.5, 0.9):
        arcs = math.ceil(math.pi / math.asin(math.sqrt(alpha)))
        assert bounds.average_case_bits(alpha, 2) <= math.log2(arcs) <= bounds.existence_bits(alpha, 2)


def test_existence_from_the_areas_of_caps_in_three_dimensions():
    angle = math.asin(math.sqrt(0.3))
    mesh = angle / (3 * math.log(4))
    log_net = -math.log(0.5 * (1 - math.cos(mesh / 2)))  # a cap of radius φ has the share (1 − cos φ)/2
    centres = 1 + log_net / (0.5 * (1 - math.cos(angle - mesh)))
    assert bounds.existence_bits(0.3, 3) == pytest.approx(math.log2(centres), rel=1e-12)


def test_average_case_of_contractive_is_below_the_best_test_channel():
    """The sphere's rate–distortion function, from its von Mises–Fisher channel, is never below the bound."""
    t, weight = np.polynomial.legendre.leggauss(400)
    for dim in (3, 5, 20):
        for kappa in (0.1, 1.0, 5.0, 40.0):
            base = (1 - t * t) ** ((dim - 3) / 2) * weight
            tilted = base * np.exp(kappa * (t - 1))
            mean = (tilted @ t) / tilted.sum()
            rate = (kappa * (mean - 1) - math.log(tilted.sum() / base.sum())) / math.log(2)
            assert bounds.average_case_bits(1 - mean * mean, dim, strict=False) <= rate + 1e-9


def test_worst_case_known_values():
    assert bounds.uncertainty_bits(0.1, 1000) / 1000 == pytest.approx(1.66, abs=0.005)
    assert bounds.sparse_dithering_rate(0.1) == pytest.approx(3.35, abs=0.005)
    assert bounds.worst_zero_share(0.1) == pytest.approx(0.17, abs=0.005)
    assert bounds.covering_bits(0.1, 2**16, e=0.0) == pytest.approx(bounds.average_case_bits(0.1, 2**16) + 16 + 2)
    with_slip = bounds.sparse_dithering_rate(0.1 / 4)  # √ν for 2√ν, the poster's slip
    assert with_slip == pytest.approx(4.82, abs=0.01)


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 2.0])
def test_sparse_dithering_maximum_over_zero_share(nu):
    taus = np.linspace(0, 1, 20001)
    rates = [bounds.sparse_dithering_rate(nu, zero_share=t) for t in taus]
    assert max(rates) == pytest.approx(bounds.sparse_dithering_rate(nu), abs=1e-6)
    assert max(rates) <= bounds.sparse_dithering_rate(nu)
    assert taus[int(np.argmax(rates))] == pytest.approx(bounds.worst_zero_share(nu), abs=1e-4)


def vectors(dim):
    rng = np.random.default_rng(7)
    step = 2 * math.sqrt(0.1 / dim)
    yield rng.standard_normal(dim)
    yield rng.standard_t(2, dim)
    yield rng.standard_normal(dim) * (rng.random(dim) < 0.1)
    yield np.ones(dim)
    unit = np.full(dim, 0.501 * step)  # just above the threshold, with 17 % zeros and the rest of the norm
    unit[: dim // 6] = 0.0
    unit[-dim // 2 :] = 0.0
    unit[-dim // 2 :] = math.sqrt((1 - (unit @ unit)) / (dim // 2))
    yield unit


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.9])
def test_sparse_dithering_code_keeps_its_bound(nu):
    dim = 3000
    h = math.sqrt(nu / dim)
    for x in vectors(dim):
        u = x / np.linalg.norm(x)
        k = np.rint(np.abs(u) / (2 * h))
        assert ((np.abs(u) - 2 * h * k) ** 2).sum() <= nu
        zeros = int((k == 0).sum())
        code = bounds.sparse_dithering_code_bits(dim, zeros, int(k.sum()))
        own = bounds.sparse_dithering_rate(nu, zero_share=zeros / dim)
        assert code <= 31 + math.log2(dim) + own * dim
        assert code <= bounds.sparse_dithering_bits(nu, dim)


def test_stochastic_and_shared_rounding():
    rng, dim, nu = np.random.default_rng(3), 3000, 0.25
    h = math.sqrt(nu / dim)
    for x in vectors(dim):
        u = x / np.linalg.norm(x)
        private, shared, code = [], [], []
        for _ in range(60):
            k = np.floor(np.abs(u) / (2 * h) + rng.random(dim))
            private.append(((2 * h * k - np.abs(u)) ** 2).sum())
            code.append(bounds.sparse_dithering_code_bits(dim, int((k == 0).sum()), int(k.sum())))
            dither = rng.random(dim) - 0.5
            shared.append(((2 * h * (np.rint(u / (2 * h) + dither) - dither) - u) ** 2).sum())
        assert np.mean(private) <= nu * 1.02
        assert np.mean(shared) == pytest.approx(nu / 3, rel=0.02)
        assert np.mean(code) <= bounds.sparse_dithering_bits(nu, dim, "stochastic") + 1


@pytest.mark.parametrize("omega", [0.05, 0.25, 1.0])
def test_universal_code_keeps_its_rate_for_every_vector(omega):
    rng, dim = np.random.default_rng(5), 3000
    v, delta = 1 + omega, math.sqrt(12 * omega)
    grid = np.arange(-400, 401)
    for x in vectors(dim):
        z = x * math.sqrt(dim) / np.linalg.norm(x)
        bits, errors = [], []
        for _ in range(8):
            u = rng.random(dim) - 0.5
            y = (np.rint(z / delta + u) - u) * delta
            mass = np.exp(-(((grid[:, None] - u[None, :300]) * delta) ** 2) / (2 * v)).sum(0)
            # one sample of the normaliser serves all coordinates: it depends on U alone
            bits.append((y @ y / (2 * v) / dim + np.log(mass).mean()) / math.log(2))
            errors.append(((y - z) ** 2).mean())
        assert np.mean(errors) == pytest.approx(omega, rel=0.03)
        assert np.mean(bits) <= bounds.universal_dithering_rate(omega) + 0.02


def test_savings_and_rates():
    stochastic = bounds.sparse_dithering_rate(0.25, "stochastic")
    assert stochastic == pytest.approx(2.585, abs=0.001)
    assert bounds.saving(0.25, stochastic) == pytest.approx(9.9, abs=0.05)
    assert pytest.approx(0.2546, abs=5e-5) == bounds.LATTICE_LOSS
    assert bounds.universal_dithering_rate(0.25) == pytest.approx(1.416, abs=0.001)
    assert bounds.universal_dithering_rate(1 / 9) == pytest.approx(1.916, abs=0.001)  # α = 0.1
    assert bounds.scaled_contraction(1 / 9) == pytest.approx(0.1)
    assert bounds.universal_dithering_bits(0.25, 10**5) == pytest.approx(33 + 116096.4 + 25461.4, abs=1)
    assert bounds.gaussian_rate(0.1) == pytest.approx(1.661, abs=0.001)
    assert bounds.gaussian_rate(2.0) == 0.0
    assert bounds.iteration_factor(0.75) == pytest.approx(4.0)
    assert bounds.iteration_factor(0.75, unbiased=True) == 1.75
    assert bounds.scaled_contraction(0.0) == 0.0


@pytest.mark.parametrize("p", [1.0, 0.9, 0.5, 0.3, 0.11, 0.01, 0.0004])
def test_rice_code_against_the_direct_sum(p):
    t = np.arange(1, max(3, round(60 / p)))
    law = p * (1 - p) ** (t - 1.0)
    log2_p = math.log2(p)
    parameter = bounds.rice_parameter(log2_p)
    lengths = [law @ ((t - 1) // 2**q + 1 + q) for q in range(16)]
    assert bounds.rice_bits(log2_p) == pytest.approx(lengths[parameter], rel=1e-9)
    best = bounds.best_rice_parameter(log2_p)
    assert lengths[best] == pytest.approx(min(lengths), rel=1e-9)


def test_rice_code_costs_less_than_promised():
    excess = [bounds.rice_bits(-x) - x for x in np.linspace(0.001, 300.0, 5003)]
    assert max(excess) <= 1 / (1 - 1 / math.e) + 1e-12
    assert max(excess) > 1.58
    assert bounds.rice_bits(-1660964062.0) - 1660964062.0 == pytest.approx(1.582, abs=0.001)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: bounds.log2_cap_probability(0.0, 10), "alpha"),
        (lambda: bounds.log2_cap_probability(1.0, 10), "alpha"),
        (lambda: bounds.log2_cap_probability(math.nan, 10), "alpha"),
        (lambda: bounds.log2_cap_probability(0.1, 1), "dim"),
        (lambda: bounds.log2_cap_probability(0.1, 2.5), "dim"),
        (lambda: bounds.log2_binomial(5, 6), "k is 6"),
        (lambda: bounds.uncertainty_bits(0.1, 0), "dim"),
        (lambda: bounds.average_case_bits(2.0, 5, strict=False), "alpha"),
        (lambda: bounds.sparse_dithering_rate(-0.1), "nu"),
        (lambda: bounds.sparse_dithering_rate(0.1, "up"), "rounding"),
        (lambda: bounds.sparse_dithering_rate(0.1, "stochastic", 0.5), "rounding"),
        (lambda: bounds.sparse_dithering_rate(0.1, zero_share=1.5), "zero_share"),
        (lambda: bounds.sparse_dithering_code_bits(4, 5, 0), "zeros"),
        (lambda: bounds.sparse_dithering_code_bits(4, 1, 2), "level_sum"),
        (lambda: bounds.saving(0.1, 0.0), "rate"),
        (lambda: bounds.gaussian_rate(0.0), "distortion"),
        (lambda: bounds.universal_dithering_rate(0.0), "omega"),
        (lambda: bounds.iteration_factor(1.0), "error"),
        (lambda: bounds.iteration_factor(-0.1, unbiased=True), "error"),
        (lambda: bounds.rice_parameter(0.5), "log2_probability"),
        (lambda: bounds.rice_bits(0.5, 3), "log2_probability"),
        (lambda: bounds.rice_bits(-3.0, -1), "parameter"),
    ],
)
def test_errors_name_the_parameter(call, named):
    with pytest.raises(ParameterError, match=named):
        call()


def test_examples_of_the_modules():
    for module in (gradwire.theory, bounds):
        result = doctest.testmod(module)
        assert result.failed == 0
        assert result.attempted > 0


def test_examples_of_the_theory_page():
    page = Path(__file__).parents[2] / "docs" / "theory.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 10


def test_theory_loads_numpy_only():
    script = "import sys, gradwire.theory; sys.exit('scipy' in sys.modules or 'torch' in sys.modules)"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", script], check=True, env=env)
