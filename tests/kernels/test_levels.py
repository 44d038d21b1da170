"""Levels, their sums and plain floats: native on every instruction set against the reference, and hostile bytes."""

import gc

import numpy as np
import pytest

from gradwire import _core
from gradwire.errors import MessageError
from gradwire.kernels import reference

SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 4095, 4096, 4097, 8191, 12_345, 70_001)
LARGEST = float(np.finfo(np.float32).max)


def normal(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def spiked(n, seed=0):
    """Plain levels in most pieces; in some pieces one or many that are not."""
    x = normal(n, seed)
    x[::5003] *= 100
    x[n // 2 : n // 2 + 3000] *= 1e4
    return x


def any_floats(n, seed=0):
    x = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    return np.where(np.isfinite(x), x, np.float32(0))


def halves(n):
    """Ties between two levels, signed zeros, and levels about the last plain ones, ±16."""
    return (np.arange(n, dtype=np.float32) % 71 - 35) / 2 * np.where(np.arange(n) % 2, -1, 1).astype(np.float32)


VECTORS = {
    "normal": normal,
    "spiked": spiked,
    "any": any_floats,
    "halves": halves,
    "zeros": lambda n: np.zeros(n, np.float32),
    "negative zeros": lambda n: np.full(n, -0.0, np.float32),
    "denormals": lambda n: any_floats(n) * np.float32(2.0**-149) * np.float32(2.0**-60),
    "saturating": lambda n: np.where(np.arange(n) % 3, 1, -1).astype(np.float32) * np.float32(3e38),
}


def same(a, b):
    assert np.array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("n", SIZES)
def test_sums(level, name, n):
    x = VECTORS[name](n)
    largest, squares = _core.extent(x)
    assert (largest, squares) == reference.extent(x)
    assert _core.sum_squares(x) == squares == reference.sum_squares(x)
    assert _core.sum_abs(x) == reference.sum_abs(x)
    assert _core.max_abs(x) == largest == reference.max_abs(x)
    for inverse in (1.0, 0.3, 3e5, 1e30):
        assert _core.level_sums(x, inverse) == reference.level_sums(x, inverse)


def test_sums_of_several_blocks(level):
    for n in (2**20, 2**20 + 1, 2**21 + 4099):
        for x in (normal(n), spiked(n)):
            assert _core.extent(x) == reference.extent(x)
            assert _core.level_sums(x, 1.5) == reference.level_sums(x, 1.5)
            assert _core.encode_summed_levels(x, 1.5)[1:] == reference.level_sums(x, 1.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_extent_tells_what_is_not_finite(level, bad):
    for n in (1, 16, 33, 100):
        for at in {0, n // 2, n - 1}:
            x = normal(n)
            x[at] = bad
            assert not np.isfinite(_core.extent(x)[0])


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("rounding", [0, 1, 2])
@pytest.mark.parametrize("n", SIZES)
def test_levels_are_the_reference(level, name, rounding, n):
    x = VECTORS[name](n)
    for inverse in (1.0, 5.0, 1e30):
        zigzag = reference.quantise(x, inverse, rounding, 7, 3)
        same(_core.quantise(x, inverse, rounding, 7, 3), zigzag)
        if n == 0:
            continue
        pieces, nonzero = _core.encode_levels(x, inverse, rounding, 7, 3)
        assert b"".join(pieces) == _core.encode_integers(zigzag)
        assert nonzero == np.count_nonzero(zigzag)
        if rounding == 0:
            pieces, *sums = _core.encode_summed_levels(x, inverse)
            assert b"".join(pieces) == _core.encode_integers(zigzag)
            assert tuple(sums) == reference.level_sums(x, inverse)


@pytest.mark.parametrize("name", ["normal", "spiked", "halves", "zeros", "saturating", "any"])
@pytest.mark.parametrize("scale", [(0.5, 1.0, 1.0), (1e-3, 2.0**-140, -3.0), (1e30, 2.0**100, 0.25), (1e-45, 1.0, 1.0)])
@pytest.mark.parametrize("shared", [False, True])
def test_adding_is_the_reference(level, name, scale, shared):
    for n in SIZES[1:]:
        data = reference.encode_levels(VECTORS[name](n), 2.0, 0, 0, 0)[0][0]
        mine, theirs = normal(n, 1), normal(n, 1)
        _core.add_levels(np.frombuffer(data, np.uint8), mine, *scale, shared, 11, 2)
        reference.add_levels(data, theirs, *scale, shared, 11, 2)
        same(mine, theirs)


def test_adding_keeps_the_sign_of_zero(level):
    """−0 plus a weighted level of 0 follows binary32's rules, as multiplication and addition one by one do."""
    data = reference.encode_levels(halves(300), 1.0, 0, 0, 0)[0][0]
    for weight in (1.0, -1.0):
        mine, theirs = np.full(300, -0.0, np.float32), np.full(300, -0.0, np.float32)
        _core.add_levels(np.frombuffer(data, np.uint8), mine, 1.0, 1.0, weight, False, 0, 0)
        reference.add_levels(data, theirs, 1.0, 1.0, weight, False, 0, 0)
        same(mine, theirs)


@pytest.mark.parametrize("name", ["normal", "spiked", "halves"])
def test_hostile_levels_leave_out_untouched(level, name):
    n = 9000
    data = np.frombuffer(b"".join(_core.encode_levels(VECTORS[name](n), 2.0, 0, 0, 0)[0]), np.uint8)
    rng = np.random.default_rng(5)
    out = normal(n, 2)
    before = out.copy()
    refused = 0
    for cut in rng.integers(0, len(data), 40):
        with pytest.raises(MessageError):
            _core.add_levels(data[:cut].copy(), out, 1.0, 1.0, 1.0, False, 0, 0)
        same(out, before)
    for bit in rng.integers(0, 8 * len(data), 300):
        bad = data.copy()
        bad[bit // 8] ^= 1 << bit % 8
        try:
            _core.add_levels(bad, out, 1.0, 1.0, 1.0, False, 0, 0)
        except MessageError:
            refused += 1
            same(out, before)
        assert np.isfinite(out).all()
        out[:] = before
    assert refused > 50  # a flip among extra bits gives other levels, all else is noticed
    with pytest.raises(MessageError, match="too many"):
        _core.add_levels(np.append(data, np.uint8(0)), out, 1.0, 1.0, 1.0, False, 0, 0)
    same(out, before)


def test_a_level_beyond_32_bits_is_refused(level):
    """Alone, beside plain ones, and in another piece than they are."""
    for n, at in ((1, 0), (5000, 4999), (9000, 17)):
        zigzag = np.ones(n, np.uint32)
        zigzag[at] = 2**32 - 1
        data = np.frombuffer(_core.encode_integers(zigzag), np.uint8)
        out = np.zeros(n, np.float32)
        with pytest.raises(MessageError, match="beyond the range"):
            _core.add_levels(data, out, 1.0, 1.0, 1.0, False, 0, 0)
        assert not out.any()


def test_pieces_outlive_what_made_them(level):
    """They lie in memory that is used again: as long as a piece is held, its bytes stay."""
    x = normal(3 * 2**20 + 5)
    pieces = _core.encode_levels(x, 1.5, 0, 0, 0)[0]
    data = b"".join(pieces)
    for seed in range(3):
        _core.encode_levels(normal(len(x), seed + 9), 2.5, 1, seed, 0)
        gc.collect()
    assert b"".join(pieces) == data
    assert len(pieces) == 4
    with pytest.raises(TypeError):
        pieces[0][0] = 1


@pytest.mark.parametrize("format", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_adding_floats_at_any_address(level, format, offset):
    width = 4 if format == 0 else 2
    for n in (0, 1, 7, 8, 17, 1000, 8193):
        number = np.random.default_rng(n).integers(0, 256, width * n, dtype=np.uint8)
        number[width - 1 :: width] &= 0xBB  # no exponent is all ones
        held = np.zeros(width * n + offset, np.uint8)
        held[offset:] = number
        for exponent in (0, -126, 112):
            mine, theirs = normal(n, 1), normal(n, 1)
            _core.add_floats(held[offset:], mine, format, exponent, 0.75)
            reference.add_floats(number.tobytes(), theirs, format, exponent, 0.75)
            same(mine, theirs)


@pytest.mark.parametrize(("format", "bits"), [(0, 0x7F800000), (1, 0x7C00), (2, 0x7F80)])
def test_adding_floats_that_are_not_finite(level, format, bits):
    kind = np.uint32 if format == 0 else np.uint16
    for n in (1, 17, 20_000):
        for at in {0, n // 2, n - 1}:
            for pattern in (bits, bits | 1, bits | bits >> 1):
                numbers = np.zeros(n, kind)
                numbers[at] = pattern
                out = np.ones(n, np.float32)
                with pytest.raises(MessageError, match="NaN or infinity"):
                    _core.add_floats(numbers.view(np.uint8), out, format, 0, 1.0)
                assert (out == 1).all()


def test_every_half_there_is(level):
    h = np.arange(2**16, dtype=np.uint16)
    for format, full in ((1, 0x7C00), (2, 0x7F80)):
        finite = h[(h & full) != full]
        mine, theirs = np.zeros(len(finite), np.float32), np.zeros(len(finite), np.float32)
        _core.add_floats(finite.view(np.uint8), mine, format, 3, 1.0)
        reference.add_floats(finite.tobytes(), theirs, format, 3, 1.0)
        same(mine, theirs)


def test_halves_of_long_vectors_outlive_the_next(level):
    x = normal(2**18 + 3)
    for encode in (lambda y: _core.encode_bfloat16(y), lambda y: _core.encode_float16(y, 1)):
        first = encode(x)
        kept = first.copy()
        encode(-x)
        same(first, kept)
