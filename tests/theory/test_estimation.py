"""The estimation theory of the sparse Bernoulli model agrees with enumeration and with simulation."""

import doctest
import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from gradwire.errors import ParameterError
from gradwire.theory import estimation as est

HALVES = [0.5] * 40 + [0.0] * 360  # d = 400, s = 20


def simulate_rtop(theta, n, m, trials, rng):
    """Squared errors of the rTop-k scheme, one a trial, from messages drawn as its definition says."""
    theta = np.asarray(theta)
    x = rng.random((trials, n, theta.size)) < theta
    support = x.sum(2, keepdims=True)
    order = np.argsort(np.where(x, rng.random(x.shape), 2.0), axis=2)  # the support first, in random order
    rank = np.argsort(order, axis=2)
    sent = x & (rank < m)
    scale = support / np.maximum(1, np.minimum(m, support))
    return (((scale * sent).mean(1) - theta) ** 2).sum(1)


@pytest.mark.parametrize(("m", "published"), [(1, 8.42), (2, 3.97), (5, 1.46), (10, 0.65)])
def test_rtop_risk_against_simulation_and_known_values(m, published):
    exact = est.rtop_risk(HALVES, n=50, m=m)
    # coordinates with θ = 0 are never sent: 40 of them tell the same as 400
    errors = simulate_rtop(HALVES[:40], 50, m, trials=800, rng=np.random.default_rng(m))
    assert errors.mean() == pytest.approx(exact, abs=4 * errors.std() / math.sqrt(errors.size))
    assert exact == pytest.approx(published, rel=0.10)  # published: one short simulation
    assert est.rtop_risk(HALVES[:40], n=50, m=m) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("m", "published"), [(1, 9.35), (2, 8.79), (5, 7.14), (10, 4.45)])
def test_fixed_order_risk(m, published):
    theta = np.array([0.9, 0.0, 0.3, 0.5, 0.2, 0.7])
    exact = est.fixed_order_risk(theta, n=7, m=min(m, 3))
    x = np.random.default_rng(m).random((40000, 7, 6)) < theta
    sent = x & (np.cumsum(x, 2) <= min(m, 3))
    errors = ((sent.mean(1) - theta) ** 2).sum(1)
    assert errors.mean() == pytest.approx(exact, abs=4 * errors.std() / 200)
    assert est.fixed_order_risk(HALVES, n=50, m=m) == pytest.approx(published, rel=0.02)


def test_random_and_centralised_risk():
    theta, rng = np.array([0.9, 0.1, 0.3, 0.0]), np.random.default_rng(0)
    x = rng.random((40000, 5, 4)) < theta
    picked = np.argsort(rng.random(x.shape), axis=2) < 2
    errors = (((x & picked).mean(1) * 2.0 - theta) ** 2).sum(1)
    assert errors.mean() == pytest.approx(est.random_risk(theta, 5, 2), abs=4 * errors.std() / 200)
    assert est.random_risk(theta, 5, 4) == pytest.approx(est.centralised_risk(theta, 5))
    assert est.random_risk(HALVES, n=50, m=1) == pytest.approx(159.8)


def test_rtop_risk_is_within_its_bounds():
    rng = np.random.default_rng(2)
    for _ in range(50):
        theta = rng.random(rng.integers(1, 60)) ** rng.integers(1, 5)
        n, m = int(rng.integers(1, 20)), int(rng.integers(1, 12))
        risk = est.rtop_risk(theta, n, m)
        assert est.centralised_risk(theta, n) - 1e-12 <= risk
        assert risk <= est.risk_upper_bound(theta.sum(), n, m) + 1e-12
    assert est.rtop_risk(theta, 3, 1000) == pytest.approx(est.centralised_risk(theta, 3))


def test_k_bit_upper_bound_and_its_conditions():
    d, s, n = 400, 20, 50
    bits_of_index = 9
    for bits in range(2 * bits_of_index, (s + 2) * bits_of_index):
        m = bits // bits_of_index - 1
        bound = est.k_bit_risk_upper_bound(s, d, n, bits)
        assert bound == pytest.approx(12 * s**2 * 9 / (n * bits))
        assert est.risk_upper_bound(s, n, m) <= 0.75 * bound + 1e-12  # 9 would do for 12
        assert est.risk_lower_bound(s, d, n, bits) < est.rtop_risk(HALVES, n, m)
    for bad in (2 * bits_of_index - 1, (s + 2) * bits_of_index):
        with pytest.raises(ParameterError, match="bits"):
            est.k_bit_risk_upper_bound(s, d, n, bad)
    with pytest.raises(ParameterError, match="s is"):
        est.k_bit_risk_upper_bound(0.5, d, n, 100)
    assert est.k_bit_risk_upper_bound(2, 255, 1, 24) == pytest.approx(12 * 4 * 8 / 24)  # ⌈log2 256⌉ = 8


def test_lower_bound_value_and_slope():
    s, d = 20, 400
    log_ratio = math.log(39)
    value = 400 * log_ratio / (4 * math.log(2) * 50 * 90 + 16 * math.pi**2 * 400 * log_ratio)
    assert est.risk_lower_bound(s, d, 50, 90) == pytest.approx(value)
    # built from its parts: van Trees with the information of n messages and the prior's
    information = 50 * est.fisher_trace_bound(90, 2 * (d / s) ** 2 / log_ratio)
    assert value == pytest.approx(d**2 / (information + d * (2 * math.pi / (s / (2 * d))) ** 2))
    assert est.score_variance_proxy(s / (2 * d)) <= 2 * (d / s) ** 2 / log_ratio
    many = est.risk_lower_bound(1000, 10**5, 10**9, 2000)
    assert many / est.risk_lower_bound(1000, 10**5, 2 * 10**9, 2000) == pytest.approx(2, rel=0.01)
    with pytest.raises(ParameterError, match="s is"):
        est.risk_lower_bound(0.31 * d, d, 50, 90)


@pytest.mark.parametrize("theta", [1e-6, 0.01, 0.2, 0.4999, 0.5 - 1e-10, 0.5, 0.7, 0.999])
def test_kearns_saul_is_valid_and_best(theta):
    proxy = est.bernoulli_variance_proxy(theta)
    tilts = np.concatenate([-np.geomspace(1e-2, 60, 300), np.geomspace(1e-2, 60, 300)])
    log_mgf = np.logaddexp(np.log(theta) + tilts, np.log1p(-theta)) - tilts * theta
    assert (log_mgf <= tilts**2 * proxy / 2 + 1e-12).all()
    tilt = 2 * math.log((1 - theta) / theta) or 1e-3  # where the bound is met
    value = np.logaddexp(math.log(theta) + tilt, math.log1p(-theta)) - tilt * theta
    assert value == pytest.approx(tilt**2 * proxy / 2, rel=1e-5, abs=1e-9)


def test_score_proxy_falls_up_to_one_half():
    proxies = [est.score_variance_proxy(t) for t in np.linspace(1e-4, 0.5, 500)]
    assert all(a > b for a, b in itertools.pairwise(proxies))
    ratio = 1e4
    approximate = ratio**2 / (2 * math.log(ratio))
    assert est.score_variance_proxy(1 / ratio) == pytest.approx(approximate, rel=0.01)
    with pytest.raises(ParameterError, match="theta"):
        est.score_variance_proxy(0.0)


def fisher_trace(theta, message):
    """Trace of the Fisher information of message(x), by enumeration of all x in {0, 1}^d."""
    mass, gradient = {}, {}
    for bits in itertools.product((0, 1), repeat=len(theta)):
        x = np.array(bits)
        p = np.prod(np.where(x, theta, 1 - theta))
        key = message(x)
        mass[key] = mass.get(key, 0.0) + p
        gradient[key] = gradient.get(key, 0.0) + p * (x - theta) / (theta * (1 - theta))
    return sum(float(g @ g) / mass[key] for key, g in gradient.items())


def test_fisher_information_of_short_messages():
    rng = np.random.default_rng(1)
    theta = np.array([0.05, 0.1, 0.2, 0.3])
    proxy = max(est.score_variance_proxy(t) for t in theta)
    fractions = []
    for bits in (1, 2, 3):
        for _ in range(100):
            table = rng.integers(0, 2**bits, 16)
            if bits == 1:
                table = (np.arange(16) >> rng.integers(4)) & 1 & table
            trace = fisher_trace(theta, lambda x, table=table: int(table[x @ [1, 2, 4, 8]]))
            fractions.append(trace / est.fisher_trace_bound(bits, proxy))
    assert max(fractions) <= 1
    whole = fisher_trace(theta, lambda x: tuple(x))
    assert whole == pytest.approx((1 / (theta * (1 - theta))).sum())
    assert whole <= est.fisher_trace_bound(4, proxy)
    half = np.array([0.5])
    # one fair bit: information 4, bound 8 ln 2: the constant is not idle
    assert fisher_trace(half, lambda x: int(x[0])) > 0.7 * est.fisher_trace_bound(1, 4.0)


@pytest.mark.parametrize("p", [2.0, 3.0, 6.0])
@pytest.mark.parametrize("theta", [0.02, 0.3, 0.5])
def test_fisher_information_with_orlicz_score(theta, p):
    scores, masses = np.array([1 / theta, -1 / (1 - theta)]), np.array([theta, 1 - theta])
    norm = optimize.brentq(lambda k: masses @ np.exp(np.minimum((abs(scores) / k) ** p, 500)) - 2, 0.2, 1 / theta * 5)
    assert fisher_trace(np.array([theta]), lambda x: int(x[0])) <= est.fisher_trace_bound_orlicz(1, norm, p)
    assert est.fisher_trace_bound_orlicz(1, norm, p) <= est.fisher_trace_bound_orlicz(2, norm, p)


def test_orlicz_bound_needs_p_of_at_least_two():
    assert est.fisher_trace_bound_orlicz(3, 2.0, 4.0) == pytest.approx(4 * math.sqrt(4 * math.log(2)))
    with pytest.raises(ParameterError, match="p is"):
        est.fisher_trace_bound_orlicz(3, 2.0, 1.9)


def test_support_law():
    np.testing.assert_allclose(est.support_pmf([0.3] * 57), stats.binom.pmf(range(58), 57, 0.3), rtol=1e-11)
    theta = np.array([0.2, 0.0, 0.9, 1.0])
    np.testing.assert_allclose(est.support_pmf(theta), [0, 0.08, 0.74, 0.18, 0], atol=1e-15)
    np.testing.assert_array_equal(est.support_pmf([0.0, 0.0]), [1, 0, 0])
    rng = np.random.default_rng(4)
    theta = rng.random(9001) ** 3  # long enough for the FFT
    law, size = est.support_pmf(theta), np.arange(9002)
    mean, second = est.support_moments(theta)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert law @ size == pytest.approx(mean, rel=1e-10)
    assert law @ (size * size) == pytest.approx(second, rel=1e-10)
    assert second <= mean**2 + mean
    for bad in ([], [[0.5]], [0.5, 1.1], [math.nan]):
        with pytest.raises(ParameterError, match="theta"):
            est.support_pmf(bad)


@pytest.mark.parametrize(("n", "exponent"), [(5, 0.0), (5, 0.25), (20, 0.1), (10, 0.35)])
def test_best_r_for_a_common_gradient(n, exponent):
    k, d = 200, 40000
    r = np.arange(k, d + 1)
    energy = np.cumsum(np.arange(1.0, d + 1) ** (-2 * exponent))
    error = energy[-1] - energy[k - 1 :] + energy[k - 1 :] * (r / k - 1) / n
    best = int(r[np.argmin(error)])
    # the formula replaces a sum by its integral: the flat minimum forgives that
    assert est.best_common_r(n, k, exponent) == pytest.approx(best, rel=0.05 if exponent < 0.3 else 0.12)
    assert error[round(est.best_common_r(n, k, exponent)) - k] <= 1.001 * error.min()


def test_best_r_bounds():
    assert est.best_common_r(1, 10, 0.3) == 10.0  # never below k
    with pytest.raises(ParameterError, match="exponent"):
        est.best_common_r(5, 10, 0.5)


def test_examples_of_the_module():
    result = doctest.testmod(est)
    assert result.failed == 0
    assert result.attempted > 10
