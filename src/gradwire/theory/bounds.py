"""Limits of compression and the lengths that codes guarantee, all in bits (logarithms are base 2).

A compressor C works on vectors of d entries; its classes are U(ω) (unbiased, E‖C(x) − x‖² ≤ ω‖x‖²),
B(α) (E‖C(x) − x‖² ≤ α‖x‖²) and C(α) (the same without the expectation). Bounds count the direction
x/‖x‖ only, not the norm, unless they say so. docs/theory.md derives every line. Every function raises
ParameterError, naming the parameter and what to give, for arguments outside the ranges it states.
Source: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for Distributed and Federated
Learning*, arXiv 2010.03246, here "the paper".
"""

import math
import operator
from typing import Final, Literal

from gradwire.errors import ParameterError

__all__ = [
    "LATTICE_LOSS", "average_case_bits", "best_rice_parameter", "covering_bits", "existence_bits",
    "gaussian_rate", "iteration_factor", "log2_binomial", "log2_cap_probability", "rice_bits",
    "rice_parameter", "saving", "scaled_contraction", "sparse_dithering_bits", "sparse_dithering_code_bits",
    "sparse_dithering_rate", "uncertainty_bits", "universal_dithering_bits", "universal_dithering_rate",
    "worst_zero_share",
]  # fmt: skip

Rounding = Literal["nearest", "stochastic"]

LATTICE_LOSS: Final = 0.5 * math.log2(2 * math.pi * math.e / 12)
"""½·log2(2πe/12) = 0.2546 bits: what a scalar grid loses against the best grid of unlimited dimension."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _between(name: str, value: float, most: float = math.inf) -> float:
    value = float(value)
    if not 0.0 < value < most:
        raise ParameterError(f"{name} is {value!r}: give a number strictly between 0 and {most:g}")
    return value


def _count(name: str, value: int, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} is {value!r}: give an integer") from None
    if number < least:
        raise ParameterError(f"{name} is {number}: give an integer of at least {least}")
    return number


def _log_gamma_step(a: float) -> float:
    """ln Γ(a + ½) − ln Γ(a), without the cancellation of two huge logarithms."""
    if a < 20.0:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    i = 1.0 / (a * a)
    tail = 1 / 8 - i * (1 / 192 - i * (1 / 640 - i * (17 / 14336 - i * (31 / 18432))))
    return 0.5 * math.log(a) - tail / a


def _complement_series(a: float, y: float) -> float:
    """2F1(a + ½, 1; 3/2; y): positive terms, so no cancellation; few of them while a·y is small."""
    term, total, n = 1.0, 1.0, 0
    while term > 1e-17 * total:
        term *= y * (a + 0.5 + n) / (1.5 + n)
        total += term
        n += 1
    return total


def _beta_fraction(a: float, x: float, y: float) -> float:
    """Continued fraction r of I_x(a, ½) = x^a y^½ r / B(a, ½), y = 1 − x, for (a + ½)·y > ½.

    The form of DiDonato and Morris (ACM TOMS 18(3), 1992): it takes y itself, where the usual form loses the
    digits of 1 − (a+½)x/(a+1) for large a and x near 1.
    """
    c = 0.5 + (a + 0.5) * y
    before, r = 0.0, (1.0 + 1.0 / a) / c
    now = last = r  # all scaled so that the newest denominator is 1
    for n in range(1, 500):
        w, s, t = n * (0.5 - n) * x, a + 2 * n - 1, n / a
        q = 1.0 + (n - 1) / a
        alpha = q * (q + 0.5 / a) * (a / s) ** 2 * w * x
        beta = n + w / s + (1.0 + t) / (1.0 + 1.0 / a + 2.0 * t) * (c + n * (1.0 + y))
        before, now, scale = now, alpha * before + beta * now, alpha * last + beta
        before, now, last = before / scale, now / scale, 1.0 / scale
        if abs(now - r) <= 2e-16 * now:
            break
        r = now
    return now


def log2_cap_probability(alpha: float, dim: int) -> float:
    """log2 of the probability P(α, d) that a random direction falls in a cap of half-chord √α.

    Definition: P(α, d) = ½·I_α((d−1)/2, ½), I the regularised incomplete beta function: the share of the
    unit sphere of R^d within √α of the best centre, √(1−α) from the origin.
    Args: alpha: α in (0, 1), the squared error on unit vectors. dim: d ≥ 2.
    Returns: log2 P, at most −1; relative error below 1e-13 (d to 1e9, α in (1e-9, 1 − 1e-9)).
    Source: the paper, average-case analysis and Spherical Compression.

    >>> [round(-log2_cap_probability(0.1, d), 4) for d in (10, 100, 1000)]
    [17.8377, 169.0051, 1665.5355]
    """
    alpha, dim = _between("alpha", alpha, 1.0), _count("dim", dim, 2)
    if dim == 2:
        return math.log2(math.atan2(math.sqrt(alpha), math.sqrt(1.0 - alpha)) / math.pi)
    a, y = 0.5 * (dim - 1), 1.0 - alpha  # y is exact for α ≥ ½, where it matters
    lead = a * math.log(alpha) + 0.5 * math.log(y) + _log_gamma_step(a) - 0.5 * math.log(math.pi)
    # The fraction needs ever more terms as a·y falls, the complement ever more digits as it nears 1;
    # at a·y = 3 both are short and exact.
    if y < 0.5 and a * y < 3.0:
        complement = 2.0 * math.exp(lead) * _complement_series(a, y)
        return math.log1p(-complement) / math.log(2.0) - 1.0
    return (lead + math.log(_beta_fraction(a, alpha, y))) / math.log(2.0) - 1.0


def _stirling_rest(x: float) -> float:
    """ln x! − (x + ½) ln x + x − ½ ln 2π for x ≥ 1."""
    if x < 16.0:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - _HALF_LOG_2PI
    i = 1.0 / (x * x)
    return (1 / 12 - i * (1 / 360 - i * (1 / 1260 - i * (1 / 1680 - i / 1188)))) / x


def log2_binomial(n: int, k: int) -> float:
    """log2 of the binomial coefficient C(n, k): the bits that name a k-subset of n positions.

    Definition: n·H2(k/n) + ½·log2(n / (2πk(n−k))) + Stirling's rests, so that nothing cancels for n to 2^32
    and far beyond, where differences of lgamma lose all their digits.
    Args: n, k: integers, 0 ≤ k ≤ n.

    >>> log2_binomial(2**32, 1), round(log2_binomial(100, 50), 6)
    (32.0, 96.348717)
    """
    n, k = _count("n", n, 0), _count("k", k, 0)
    if k > n:
        raise ParameterError(f"k is {k} of n = {n}: give k between 0 and n")
    k = min(k, n - k)
    if n < 50 or k <= 1:
        return math.log2(math.comb(n, k))
    entropy = -k * math.log(k / n) - (n - k) * math.log1p(-k / n)
    peak = 0.5 * math.log(n / (k * (n - k))) - _HALF_LOG_2PI
    rest = _stirling_rest(n) - _stirling_rest(k) - _stirling_rest(n - k)
    return (entropy + peak + rest) / math.log(2.0)


def uncertainty_bits(alpha: float, dim: int) -> float:
    """Least bits of the longest message of any compressor in B(α): the uncertainty principle.

    Definition: α·4^{b/d} ≥ 1, so b ≥ (d/2)·log2(1/α). Proved, and also a bound on the mean length.
    Args: alpha: α in (0, 1). dim: d ≥ 1.
    Source: the paper, worst-case analysis (uncertainty principle).

    >>> round(uncertainty_bits(0.1, 100) / 100, 2)
    1.66
    """
    return 0.5 * _count("dim", dim, 1) * -math.log2(_between("alpha", alpha, 1.0))


def covering_bits(alpha: float, dim: int, e: float = 0.0) -> float:
    """Estimate of the least worst-case bits of C(α): −log2 P + log2 d + ½·log2 log2 d + e.

    Not safe: it rests on a covering density of the sphere that is believed, not proved. Proved bounds are
    `average_case_bits` below and `existence_bits` above. The paper's e is a small term whose size it leaves open,
    here 0; it is not Euler's number, with which the estimate would exceed the proved upper bound (α ≥ 0.01, d to 1e9).
    Args: alpha: α in (0, 1). dim: d ≥ 2. e: the last term.
    Source: the paper, worst-case analysis (lower bound by covering).

    >>> round(covering_bits(0.1, 1000) + log2_cap_probability(0.1, 1000), 2)
    11.62
    """
    bits = -log2_cap_probability(alpha, dim)
    return bits + math.log2(dim) + 0.5 * math.log2(math.log2(dim)) + e


def existence_bits(alpha: float, dim: int) -> float:
    """Bits for which a fixed-length compressor in C(α) exists; nobody can compute it for large d.

    Definition: log2(1 + ln M / P(sin²(φ − η), d)), sin φ = √α, M = 1/P(sin²(η/2), d), η = φ/(d·ln(d + 1)):
    random caps smaller by η cover an η-net. The paper's −log2 P + log2 d + log2 log2 d + O(1), made explicit.
    Args: alpha: α in (0, 1). dim: d ≥ 2.
    Source: the paper, worst-case analysis (existence); the explicit constant is derived in docs/theory.md.

    >>> round(existence_bits(0.1, 1000) + log2_cap_probability(0.1, 1000), 1)
    13.6
    """
    alpha, dim = _between("alpha", alpha, 1.0), _count("dim", dim, 2)
    angle = math.asin(math.sqrt(alpha))
    mesh = angle / (dim * math.log(dim + 1.0))
    log_net = -log2_cap_probability(math.sin(0.5 * mesh) ** 2, dim) * math.log(2.0)
    bits = math.log2(log_net) - log2_cap_probability(math.sin(angle - mesh) ** 2, dim)
    return bits + (math.log2(1.0 + math.exp2(-bits)) if bits < 64 else 0.0)


def average_case_bits(alpha: float, dim: int, strict: bool = True) -> float:
    """Least mean bits, for the worst direction, of a compressor in C(α), or in B(α).

    Definition: strict (C(α)): −log2 P(α, d); else (B(α)): ((d−1)/2)·log2(1/α). Proved; Spherical Compression
    meets the first within 1.582 bits.
    Args: alpha: α in (0, 1). dim: d ≥ 2. strict: the error bound holds with certainty.
    Source: the paper, average-case lower bound; the B(α) form is derived in docs/theory.md.

    >>> round(average_case_bits(0.1, 100), 3), round(average_case_bits(0.1, 100, strict=False), 3)
    (169.005, 164.435)
    """
    if strict:
        return -log2_cap_probability(alpha, dim)
    return 0.5 * (_count("dim", dim, 2) - 1) * -math.log2(_between("alpha", alpha, 1.0))


def worst_zero_share(nu: float) -> float:
    """The share τ of zero levels where `sparse_dithering_rate` is largest: 1/(1 + 2^{3/2 + 1/(4√ν)}), ν > 0.

    >>> round(worst_zero_share(0.1), 3)
    0.17
    """
    return 1.0 / (1.0 + math.exp2(1.5 + 0.25 / math.sqrt(_between("nu", nu))))


def sparse_dithering_rate(nu: float, rounding: Rounding = "nearest", zero_share: float | None = None) -> float:
    """Bits a coordinate that the paper's code of Sparse Dithering guarantees.

    Definition: nearest, for every message: H2(τ) + (3/2)(1−τ) + (1−τ/2)/(2√ν), τ the share of zero levels, or
    its maximum over τ; stochastic, in the mean: log2 3 + 1/(2√ν), where ω = ν.
    Args: nu: ν > 0, α of the nearest form, ω of the stochastic. rounding: "nearest" or "stochastic".
        zero_share: τ in [0, 1] or None for the worst; nearest only.
    Source: the paper, deterministic and randomised Sparse Dithering (the poster has √ν for 2√ν: a slip).

    >>> round(sparse_dithering_rate(0.1), 2), round(sparse_dithering_rate(0.25, "stochastic"), 3)
    (3.35, 2.585)
    """
    nu = _between("nu", nu)
    if rounding == "stochastic" and zero_share is None:
        return math.log2(3.0) + 0.5 / math.sqrt(nu)
    if rounding != "nearest":
        raise ParameterError(f'rounding is {rounding!r}: give "nearest", or "stochastic" without zero_share')
    tau = worst_zero_share(nu) if zero_share is None else float(zero_share)
    if not 0.0 <= tau <= 1.0:
        raise ParameterError(f"zero_share is {tau!r}: give a number from 0 to 1")
    entropy = -math.fsum(p * math.log2(p) for p in (tau, 1.0 - tau) if p > 0.0)
    return entropy + 1.5 * (1.0 - tau) + (1.0 - 0.5 * tau) / (2.0 * math.sqrt(nu))


def sparse_dithering_bits(nu: float, dim: int, rounding: Rounding = "nearest") -> float:
    """Bits of a Sparse Dithering message, norm included: 30 + log2 d + `sparse_dithering_rate`·d.

    Args: as `sparse_dithering_rate`; dim: d ≥ 1.
    Source: the paper, deterministic (every message) and randomised (mean) Sparse Dithering.

    >>> round(sparse_dithering_bits(0.1, 1000))
    3389
    """
    return 30.0 + math.log2(_count("dim", dim, 1)) + sparse_dithering_rate(nu, rounding) * dim


def sparse_dithering_code_bits(dim: int, zeros: int, level_sum: int) -> float:
    """Bits of the paper's code for one quantised vector: the yard-stick of every entropy coder.

    Definition: 31 + log2 d + log2 C(d, n0) + (d − n0) + Σ k_i: positive float32 gain, count and positions of
    the zeros, signs, unary levels. Fractional: a real message rounds up.
    Args: dim: d ≥ 1. zeros: n0, the levels k_i = 0. level_sum: Σ k_i, at least d − n0.
    Source: the paper, coding of Sparse Dithering.

    >>> sparse_dithering_code_bits(dim=4, zeros=0, level_sum=4)
    41.0
    """
    dim, zeros = _count("dim", dim, 1), _count("zeros", zeros, 0)
    if zeros > dim:
        raise ParameterError(f"zeros is {zeros} of dim = {dim}: give at most dim")
    level_sum = _count("level_sum", level_sum, dim - zeros)
    return 31.0 + math.log2(dim) + log2_binomial(dim, zeros) + (dim - zeros) + level_sum


def saving(omega: float, rate: float) -> float:
    """How many times fewer bits a whole run of unbiased compressed descent sends than with float32.

    Definition: 32 / ((1 + ω)·rate): messages 32/rate shorter, the run 1 + ω times longer.
    Args: omega: ω ≥ 0. rate: bits a coordinate, above 0.
    Source: the paper's 9.9 times, at ω = ¼ of randomised Sparse Dithering.

    >>> round(saving(0.25, sparse_dithering_rate(0.25, "stochastic")), 1)
    9.9
    """
    return 32.0 / (iteration_factor(omega, unbiased=True) * _between("rate", rate))


def gaussian_rate(distortion: float) -> float:
    """Rate–distortion function of the N(0, 1) source: ½·log2(1/D) bits a coordinate, D > 0; 0 from D = 1.

    Source: Shannon; Cover and Thomas, *Elements of Information Theory*, theorem 10.3.2.

    >>> round(gaussian_rate(0.1), 3)
    1.661
    """
    return max(0.0, -0.5 * math.log2(_between("distortion", distortion)))


def universal_dithering_rate(omega: float) -> float:
    """Mean bits a coordinate of the universal dithered code, ω > 0, any x: ½·log2(1 + 1/ω) + 0.2546.

    Source: derived in docs/theory.md; the method is subtractive dither (Ziv 1985; Zamir and Feder 1992).

    >>> round(universal_dithering_rate(0.25), 3), round(saving(1.0, universal_dithering_rate(1.0)), 1)
    (1.416, 21.2)
    """
    return 0.5 * math.log2(1.0 + 1.0 / _between("omega", omega)) + LATTICE_LOSS


def universal_dithering_bits(omega: float, dim: int) -> float:
    """Mean bits of a universal dithered message, float32 norm included: 33 + `universal_dithering_rate`·d.

    Args: as `universal_dithering_rate`; dim: d ≥ 1.

    >>> round(universal_dithering_bits(0.25, 1000))
    1449
    """
    return 33.0 + universal_dithering_rate(omega) * _count("dim", dim, 1)


def scaled_contraction(omega: float) -> float:
    """α of C/(1 + ω) when C is in U(ω), ω ≥ 0: ω/(1 + ω).

    Source: the paper, classes of compressors (scaling lemma).

    >>> scaled_contraction(1.0)
    0.5
    """
    return 1.0 - 1.0 / iteration_factor(omega, unbiased=True)


def iteration_factor(error: float, unbiased: bool = False) -> float:
    """How many times more iterations compressed gradient descent needs than gradient descent.

    Definition: 1/(1 − α) for B(α), α in [0, 1); 1 + ω for U(ω), ω ≥ 0 (the paper's 1 + α: ω = α).
    Source: the paper, compressed gradient descent.

    >>> iteration_factor(0.5), iteration_factor(0.5, unbiased=True)
    (2.0, 1.5)
    """
    error = float(error)
    if unbiased and 0.0 <= error < math.inf:
        return 1.0 + error
    if not unbiased and 0.0 <= error < 1.0:
        return 1.0 / (1.0 - error)
    raise ParameterError(f"error is {error!r}: give a finite ω ≥ 0 if unbiased, else α in [0, 1)")


def rice_parameter(log2_probability: float) -> int:
    """Golomb–Rice parameter of Spherical Compression for a geometric index: p = ⌊log2(1/P)⌋.

    Args: log2_probability: log2 P ≤ 0, P the chance that a draw succeeds.
    Source: the paper, Spherical Compression. `best_rice_parameter` is at times one less.

    >>> rice_parameter(log2_cap_probability(0.1, 10))
    17
    """
    if not -math.inf < log2_probability <= 0.0:
        raise ParameterError(f"log2_probability is {log2_probability!r}: give a finite number of at most 0")
    return math.floor(-log2_probability)


def best_rice_parameter(log2_probability: float) -> int:
    """Golomb–Rice parameter of least expected length: the least p with (1−P)^{2^p} ≤ (√5 − 1)/2.

    Source: A. Kiely, *Selecting the Golomb Parameter in Rice Coding*, JPL IPN Progress Report 42-159, 2004.

    >>> best_rice_parameter(-1.0), rice_bits(-1.0, 0), round(rice_bits(-1.0), 3)
    (0, 2.0, 2.333)
    """
    least = -math.log(0.5 * (math.sqrt(5.0) - 1.0))
    p = max(0, rice_parameter(log2_probability) - 1)
    while _log_survival(log2_probability, p) < least:
        p += 1
    return p


def _log_survival(log2_probability: float, p: int) -> float:
    """−ln (1−P)^{2^p}, also where P is far below the least float64."""
    if log2_probability == 0.0 or p + log2_probability > 60.0:
        return math.inf
    if log2_probability < -60.0:  # −ln(1 − P) is P to the last digit
        return math.exp2(p + log2_probability)
    return -math.exp2(p) * math.log1p(-math.exp2(log2_probability))


def rice_bits(log2_probability: float, parameter: int | None = None) -> float:
    """Expected Golomb–Rice bits of a geometric index T ≥ 1: p + 1/(1 − (1−P)^{2^p}).

    With `rice_parameter`, the default, at most −log2 P + 1/(1 − 1/e) = −log2 P + 1.582.
    Args: log2_probability: log2 P ≤ 0. parameter: p ≥ 0.
    Source: derived in docs/theory.md; the paper promises less than −log2 P + 3.

    >>> round(rice_bits(log2_cap_probability(0.1, 6)) + log2_cap_probability(0.1, 6), 2)
    1.49
    """
    p = rice_parameter(log2_probability)  # checks the probability
    p = p if parameter is None else _count("parameter", parameter, 0)
    return p - 1.0 / math.expm1(-_log_survival(log2_probability, p))
