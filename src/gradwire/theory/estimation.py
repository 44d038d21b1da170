"""The sparse Bernoulli model behind rTop-k: how well n workers can estimate θ with short messages.

Model: worker i sees X_i in {0, 1}^d with independent entries X_ij ~ Bern(θ_j), Σ_j θ_j ≤ s, and sends a
message; the centre estimates θ; the risk is E‖θ̂ − θ‖². N_i = Σ_j X_ij is the support size.
docs/theory.md derives every line. Every function raises ParameterError, naming the parameter and what to
give, for arguments outside the ranges it states.
Source: Barnes, Inan, Isik, Özgür, *rTop-k: A Statistical Estimation Approach to Distributed SGD*,
arXiv 2005.10761, IEEE J. Sel. Areas Inf. Theory 1(3), 2020, here "the paper": model, rate and tools; the
constants are derived for this library.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradwire.errors import ParameterError

__all__ = [
    "bernoulli_variance_proxy", "best_common_r", "centralised_risk", "fisher_trace_bound",
    "fisher_trace_bound_orlicz", "fixed_order_risk", "k_bit_risk_upper_bound", "random_risk",
    "risk_lower_bound", "risk_upper_bound", "rtop_risk", "score_variance_proxy", "support_moments",
    "support_pmf",
]  # fmt: skip

# Up to here np.convolve, all of whose terms are positive, is both faster and exact to the last digits.
_DIRECT_SIZE = 2048


def _at_least(name: str, value: float, least: float) -> float:
    value = float(value)
    if not least <= value < math.inf:
        raise ParameterError(f"{name} is {value!r}: give a finite number of at least {least:g}")
    return value


def _above_zero(name: str, value: float) -> float:
    value = float(value)
    if not 0.0 < value < math.inf:
        raise ParameterError(f"{name} is {value!r}: give a finite number above 0")
    return value


def _probabilities(theta: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(theta, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ParameterError(f"theta has shape {values.shape}: give a vector of at least one probability")
    bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if bad.size:
        raise ParameterError(f"theta[{bad[0]}] is {values[bad[0]]!r}: give probabilities from 0 to 1")
    return values


def risk_upper_bound(s: float, n: int, m: int) -> float:
    """Greatest risk of the rTop-k scheme with m indices a message: (s² + s)/(n·m) + s/n.

    Args: s: Σθ_j at most, s ≥ 0. n: workers, n ≥ 1. m: indices a message, m ≥ 1.
    Source: derived from the paper's scheme; `rtop_risk` is the exact value for one θ.

    >>> risk_upper_bound(s=20, n=50, m=10)
    1.24
    """
    s, n_, m_ = _at_least("s", s, 0.0), _at_least("n", n, 1.0), _at_least("m", m, 1.0)
    return (s * s + s) / (n_ * m_) + s / n_


def k_bit_risk_upper_bound(s: float, dim: int, n: int, bits: int) -> float:
    """Greatest risk of the rTop-k scheme with messages of k bits: 12·s²·⌈log2(d + 1)⌉/(n·k).

    Definition: L = ⌈log2(d + 1)⌉ bits name an index or N_i, so m = ⌊k/L⌋ − 1 indices fit; valid for s ≥ 1,
    k ≥ 2L and m ≤ s. (Beyond m = s the term s/n of `risk_upper_bound` rules: more bits help no longer.)
    Args: s ≥ 1. dim: d ≥ 1. n: workers, n ≥ 1. bits: k.
    Source: order s²·log d/(n·k) of the paper; the constant is derived.

    >>> round(k_bit_risk_upper_bound(s=20, dim=400, n=50, bits=90), 2)
    9.6
    """
    s, n_, dim_ = _at_least("s", s, 1.0), _at_least("n", n, 1.0), int(_at_least("dim", dim, 1.0))
    index_bits = dim_.bit_length()  # ⌈log2(d + 1)⌉
    if bits < 2 * index_bits:
        raise ParameterError(f"bits is {bits}: an index takes {index_bits}, give at least {2 * index_bits}")
    m = bits // index_bits - 1
    if m > s:
        raise ParameterError(f"bits is {bits}: {m} indices fit, more than s = {s:g}: use risk_upper_bound")
    return 12.0 * s * s * index_bits / (n_ * bits)


def bernoulli_variance_proxy(theta: float) -> float:
    """Least σ² for which X − θ, X ~ Bern(θ), is sub-Gaussian: (1 − 2θ)/(2·ln((1−θ)/θ)); ¼ at θ = ½.

    Definition: E exp(λ(X − θ)) ≤ exp(λ²σ²/2) for all λ.
    Args: theta: θ in [0, 1]; 0 at both ends.
    Source: Kearns and Saul, *Large Deviation Methods for Approximate Probabilistic Inference*, UAI 1998.

    >>> bernoulli_variance_proxy(0.5), round(bernoulli_variance_proxy(0.01), 4)
    (0.25, 0.1066)
    """
    theta = float(_probabilities([theta])[0])
    if theta in (0.0, 1.0):
        return 0.0
    # atanh keeps its digits near θ = ½, the logarithm near the ends
    tilt = 1.0 - 2.0 * theta
    if abs(tilt) < 1e-8:
        return 0.25
    half_log = math.atanh(tilt) if abs(tilt) < 0.5 else 0.5 * math.log((1.0 - theta) / theta)
    return tilt / (4.0 * half_log)


def score_variance_proxy(theta: float) -> float:
    """Sub-Gaussian σ² of the score (X − θ)/(θ(1−θ)) of one coordinate: Kearns–Saul's over θ²(1−θ)².

    It falls as θ rises to ½, so a box of θ has its greatest σ² at its lowest corner; near
    (d/s)²/(2·ln(d/s)) at θ = s/d.
    Args: theta: θ in (0, 1).
    Source: Kearns and Saul 1998; monotony shown in docs/theory.md.

    >>> score_variance_proxy(0.5)
    4.0
    """
    proxy = bernoulli_variance_proxy(theta)
    if proxy == 0.0:
        raise ParameterError(f"theta is {theta!r}: give a probability strictly between 0 and 1")
    return proxy / (theta * (1.0 - theta)) ** 2


def fisher_trace_bound(bits: float, variance_proxy: float) -> float:
    """Greatest trace of the Fisher information in a k-bit message, sub-Gaussian score: 2·σ²·k·ln 2.

    Args: bits: k ≥ 0. variance_proxy: σ² > 0 of every projection of the score on a unit vector; for
        independent coordinates the greatest of theirs.
    Source: the tool of the paper, after Barnes, Han, Özgür, JMLR 21(236), 2020; constant derived here.

    >>> round(fisher_trace_bound(1, 1.0), 4)
    1.3863
    """
    return 2.0 * _above_zero("variance_proxy", variance_proxy) * _at_least("bits", bits, 0.0) * math.log(2.0)


def fisher_trace_bound_orlicz(bits: float, norm: float, p: float) -> float:
    """Greatest trace of the Fisher information in a k-bit message, score in ψ_p: K²·((k + 1)·ln 2)^{2/p}.

    Definition: K bounds the Orlicz norm: E exp(|⟨u, S⟩/K|^p) ≤ 2 for every unit u.
    Args: bits: k ≥ 0. norm: K > 0. p ≥ 2.
    Source: as `fisher_trace_bound`.

    >>> round(fisher_trace_bound_orlicz(7, 1.0, 2.0), 4)
    5.5452
    """
    nats = (_at_least("bits", bits, 0.0) + 1.0) * math.log(2.0)
    return float(_above_zero("norm", norm) ** 2 * nats ** (2.0 / _at_least("p", p, 2.0)))


def risk_lower_bound(s: float, dim: int, n: int, bits: int) -> float:
    """Least worst-case risk of any estimator from n messages of k bits: s²L/(4·ln 2·n·k + 16π²·d·L).

    Definition: L = ln(2d/s − 1), s ≤ 0.3·d. Van Trees' inequality with a cos² prior on [s/(2d), s/d]^d; it
    holds for independent and for sequential messages.
    Args: s > 0. dim: d ≥ 1. n: workers, n ≥ 1. bits: k ≥ 1.
    Source: order s²·log d/(n·k) of the paper; the constants are derived in docs/theory.md.

    >>> round(risk_lower_bound(s=1000, dim=100_000, n=10_000, bits=2000), 5)
    0.03807
    """
    s, dim_ = _above_zero("s", s), _at_least("dim", dim, 1.0)
    n_, k = _at_least("n", n, 1.0), _at_least("bits", bits, 1.0)
    if s > 0.3 * dim_:
        raise ParameterError(f"s is {s:g} of dim = {dim_:g}: the bound needs s of at most 0.3·dim")
    log_ratio = math.log(2.0 * dim_ / s - 1.0)
    prior = 16.0 * math.pi**2 * dim_ * log_ratio
    return s * s * log_ratio / (4.0 * math.log(2.0) * n_ * k + prior)


def support_moments(theta: ArrayLike) -> tuple[float, float]:
    """E N and E N² of the support size, a Poisson-binomial variable: Σθ and Σθ + (Σθ)² − Σθ², at most s² + s.

    Args: theta: probabilities, shape (d,).

    >>> support_moments([0.5, 0.5])
    (1.0, 1.5)
    """
    values = _probabilities(theta)
    mean = float(values.sum())
    return mean, mean + mean * mean - float(values @ values)


def _convolve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    if min(a.size, b.size) <= _DIRECT_SIZE:
        return np.convolve(a, b)
    size = a.size + b.size - 1
    points = 1 << (size - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, points) * np.fft.rfft(b, points), points)[:size]
    return np.asarray(np.maximum(product, 0.0), dtype=np.float64)


def support_pmf(theta: ArrayLike) -> NDArray[np.float64]:
    """P(N = j) for j = 0..d of the support size N, a sum of independent Bern(θ_j): the Poisson-binomial law.

    A tree of convolutions, by FFT where large: relative error near 1e-15 for d ≤ 4096, absolute error beyond.
    Args: theta: probabilities, shape (d,).
    Returns: float64, shape (d + 1,).

    >>> support_pmf([0.5, 0.5])
    array([0.25, 0.5 , 0.25])
    """
    values = _probabilities(theta)
    laws = [np.array([1.0 - p, p]) for p in values[values > 0.0]] or [np.ones(1)]
    while len(laws) > 1:
        odd = laws[-1:] if len(laws) % 2 else []
        laws = [_convolve(a, b) for a, b in zip(laws[0::2], laws[1::2], strict=False)] + odd
    pmf = np.zeros(values.size + 1)
    pmf[: laws[0].size] = laws[0]
    return pmf


def rtop_risk(theta: ArrayLike, n: int, m: int) -> float:
    """Exact risk of the rTop-k scheme: (E max(N²/m, N) − Σθ_j²)/n.

    Definition: worker i sends m_i = min(m, N_i) indices drawn from its support, and N_i;
    θ̂_j = (1/n)·Σ_i (N_i/m_i)·1{j sent by i}, unbiased.
    Args: theta: probabilities, shape (d,). n: workers, n ≥ 1. m: indices a message, m ≥ 1.
    Source: the paper's scheme; the exact risk is derived in docs/theory.md.

    >>> [round(rtop_risk([0.5] * 40, n=50, m=m), 2) for m in (1, 2, 5, 10)]
    [8.0, 3.9, 1.44, 0.62]
    """
    values, n_, m_ = _probabilities(theta), _at_least("n", n, 1.0), _at_least("m", m, 1.0)
    size = np.arange(values.size + 1, dtype=np.float64)
    second = support_pmf(values) @ np.maximum(size * size / m_, size)
    return float(second - values @ values) / n_


def fixed_order_risk(theta: ArrayLike, n: int, m: int) -> float:
    """Exact risk of fixed-order top-m: all workers send the first m of their support in the same order.

    Definition: θ̂_j = (1/n)·Σ_i 1{j sent by i} has mean p_j = θ_j·P(fewer than m hits before j); the risk is
    Σ(θ_j − p_j)² + Σp_j(1 − p_j)/n. What all workers drop, averaging cannot bring back.
    Args: theta: probabilities in that order, shape (d,). n ≥ 1. m ≥ 1.

    >>> [round(fixed_order_risk([0.5] * 40, n=50, m=m), 2) for m in (1, 2, 5, 10)]
    [9.35, 8.77, 7.13, 4.49]
    """
    values, n_ = _probabilities(theta), _at_least("n", n, 1.0)
    before = np.zeros(int(_at_least("m", m, 1.0)))  # law of the hits so far, below m
    before[0] = 1.0
    sent = np.empty_like(values)
    for j, p in enumerate(values):
        sent[j] = p * before.sum()
        before[1:] = before[1:] * (1.0 - p) + before[:-1] * p
        before[0] *= 1.0 - p
    return float(((values - sent) ** 2).sum() + (sent * (1.0 - sent)).sum() / n_)


def random_risk(theta: ArrayLike, n: int, m: int) -> float:
    """Exact risk of random-m: each worker sends X on m random coordinates, scaled by d/m: (d/m·Σθ − Σθ²)/n.

    Args: theta: probabilities, shape (d,). n ≥ 1. m from 1 to d.

    >>> round(random_risk([0.5] * 40 + [0.0] * 360, n=50, m=1), 1)
    159.8
    """
    values, n_, m_ = _probabilities(theta), _at_least("n", n, 1.0), _at_least("m", m, 1.0)
    if m_ > values.size:
        raise ParameterError(f"m is {m} of {values.size} coordinates: give at most their number")
    return float(values.size / m_ * values.sum() - values @ values) / n_


def centralised_risk(theta: ArrayLike, n: int) -> float:
    """Risk of the mean of all X_i, sent whole: Σθ_j(1 − θ_j)/n; no scheme that is unbiased goes below it.

    Args: theta: probabilities, shape (d,). n ≥ 1.

    >>> centralised_risk([0.5] * 40, n=50)
    0.2
    """
    values = _probabilities(theta)
    return float(values @ (1.0 - values)) / _at_least("n", n, 1.0)


def best_common_r(n: int, k: int, exponent: float) -> float:
    """Best r of rTop-k for a gradient common to n workers with entries j^{−a}: (n+1)·k·(1−2a)/(2−2a).

    For the mean of the messages scaled by r/k, independent draws, no error feedback, and r small against d.
    Args: n: workers, n ≥ 1. k: sent entries, k ≥ 1. exponent: a in [0, ½); from ½ on the formula has no
        meaning and top-k (r = k) is as good.
    Returns: r as a real number, at least k: round it, and cap it at d.
    Source: derived in docs/theory.md.

    >>> best_common_r(n=5, k=10, exponent=0.0), best_common_r(n=5, k=10, exponent=0.25)
    (30.0, 20.0)
    """
    n_, k_, a = _at_least("n", n, 1.0), _at_least("k", k, 1.0), _at_least("exponent", exponent, 0.0)
    if a >= 0.5:
        raise ParameterError(f"exponent is {a!r}: the formula needs less than 0.5; from there on take r = k")
    return max(k_, (n_ + 1.0) * k_ * (1.0 - 2.0 * a) / (2.0 - 2.0 * a))
