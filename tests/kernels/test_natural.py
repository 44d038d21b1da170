"""Rounding to powers of two, thresholds and bucket sums: native against the reference, and against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from gradwire import _core
from gradwire.kernels import reference


def any_floats(n, seed=0):
    x = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    return np.where(np.isfinite(x), x, np.float32(0))


@pytest.mark.parametrize("lowest", [-149, -126, -63, -7, 0])
def test_native_is_the_reference(level, lowest):
    corners = np.array([0, -0.0, 1e-45, -1e-45, 3e-45, 1.17549435e-38, -1.1754942e-38, 3.4028235e38, -3.4e38, 1, -1.5])
    for x in (any_floats(10_000), np.tile(corners, 50).astype(np.float32), np.zeros(0, np.float32)):
        assert np.array_equal(_core.round_natural(x, lowest, 5, 2), reference.round_natural(x, lowest, 5, 2))


def test_rounding_is_the_definition():
    """Exactly: with m the mantissa, up if m + (word >> 9) ≥ 2^23; denormals have theirs below their leading one."""
    x = np.concatenate([any_floats(3000, 1), np.ldexp(any_floats(3000, 2) % 1, -126).astype(np.float32)])
    words = _core.philox_words(9, 0, 0, len(x))
    for value, word, code in zip(x.tolist(), words.tolist(), _core.round_natural(x, -149, 9, 0).tolist(), strict=True):
        if value == 0:
            assert code == 0
            continue
        magnitude, exponent = abs(Fraction(value)), 127
        while Fraction(2) ** exponent > magnitude:
            exponent -= 1
        m = (magnitude / Fraction(2) ** exponent - 1) * 2**23
        assert m.denominator == 1
        assert code == 2 * (exponent + 150 + (m + (word >> 9) >= 2**23)) + (value < 0)


def test_below_the_lowest_it_is_that_or_nothing():
    x = np.full(40_000, 0.75 * 2.0**-5, np.float32)
    codes = _core.round_natural(-x, -5, 1, 0)
    assert set(codes.tolist()) == {0, 2 * 145 + 1}
    share = np.count_nonzero(codes) / len(x)
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / len(x)) ** 0.5


@pytest.mark.parametrize("bucket", [1, 7, 16, 100, 5000])
def test_bucket_squares(level, bucket):
    x = any_floats(1000, 3) % 1000
    expected = [(b.astype(np.float64) ** 2).sum() for b in np.split(x, range(bucket, 1000, bucket))]
    got = _core.bucket_squares(x, bucket)
    assert np.array_equal(got, reference.bucket_squares(x, bucket))
    assert np.allclose(got, expected, rtol=1e-12)
    assert len(got) == -(-1000 // bucket)


@pytest.mark.parametrize("threshold", [1e-45, 1.0, 1e30, 3.4028235e38, float("inf")])
def test_reaching(level, threshold):
    for n in (0, 1, 63, 5000):
        x = any_floats(n, 4)
        x[: n // 2] = np.float32(threshold) if threshold < 1e39 else 0
        expected = np.flatnonzero(np.abs(x) >= np.float32(threshold))
        for backend in (_core, reference):
            indices, values, _ = backend.reaching_entries(x, threshold)
            assert np.array_equal(indices, expected)
            assert np.array_equal(values.view(np.uint32), x[expected].view(np.uint32))
