"""Sections made and added without the levels between: native, on every instruction set, is the reference."""

import numpy as np
import pytest

from gradwire import _core
from gradwire.errors import MessageError
from gradwire.kernels import reference

SIZES = (1, 15, 4096, 4097, 9001, 70_001)


def vector(n):
    """Of plain levels mostly, with some that are not, zeros of both signs, and denormals."""
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    x[::997] *= 200
    x[1::101] = 0.0
    x[2::101] = -0.0
    x[3::503] = 1e-42
    return x


def joined(pieces):
    return b"".join(bytes(piece) for piece in pieces)


def both_add(name, data, n, *rest):
    """What native and reference make of the same sum."""
    sums = [np.full(n, 0.25, np.float32) for _ in range(2)]
    for module, total in zip((_core, reference), sums, strict=True):
        getattr(module, name)(data, total, *rest)
    assert sums[0].tobytes() == sums[1].tobytes()
    return sums[0]


@pytest.mark.parametrize("n", SIZES)
def test_buckets(level, n):
    x = vector(n)
    for bucket in {1, 7, 1000, n}:
        steps = np.random.default_rng(bucket).uniform(0.1, 0.6, -(-n // bucket)).astype(np.float32)
        got, nonzero = _core.encode_divided_levels(x, steps, bucket, 5, 0)
        expected, expected_nonzero = reference.encode_divided_levels(x, steps, bucket, 5, 0)
        assert joined(got) == joined(expected)
        assert nonzero == expected_nonzero
        both_add("add_bucket_levels", joined(got), n, steps, bucket, 2.0, -0.3)
    huge = np.full(-(-n // 7), 3e38, np.float32)
    assert np.isfinite(
        both_add("add_bucket_levels", reference.encode_integers(np.full(n, 60, np.uint32)), n, huge, 7, 1.0, 1.0)
    ).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("divisor", "lowest"), [(1.0, -149), (300.0, -15), (1e3, 0), (0.7, -126)])
def test_powers(level, n, divisor, lowest):
    x = vector(n)
    magnitude = float(np.abs(x).max())
    largest = _core.largest_power(x, divisor, lowest, 3, 1, magnitude)
    assert largest == reference.largest_power(x, divisor, lowest, 3, 1, magnitude)
    got, nonzero = _core.encode_powers(x, divisor, lowest, largest, 3, 1)
    expected, expected_nonzero = reference.encode_powers(x, divisor, lowest, largest, 3, 1)
    assert joined(got) == joined(expected)
    assert nonzero == expected_nonzero
    zigzag, _ = reference.decode_integers(joined(got), n)
    table = np.random.default_rng(0).standard_normal(int(zigzag.max()) + 1).astype(np.float32)
    both_add("add_table_levels", joined(got), n, table, 0.7)
    if len(table) > 1:
        for module in (_core, reference):
            total = np.ones(n, np.float32)
            with pytest.raises(MessageError, match="level"):
                module.add_table_levels(joined(got), total, table[:-1], 0.7)
            assert (total == 1).all()


@pytest.mark.parametrize("n", SIZES)
def test_signs(level, n):
    x = vector(n)
    (got, total), (expected, expected_total) = _core.pack_signs(x), reference.pack_signs(x)
    assert got.tobytes() == expected.tobytes()
    assert total == expected_total
    both_add("add_signs", got.tobytes(), n, 0.3, -0.7)
    if n % 8:
        wrong = bytearray(got.tobytes())
        wrong[-1] |= 0x80
        for module in (_core, reference):
            with pytest.raises(MessageError, match="padding"):
                module.add_signs(bytes(wrong), np.zeros(n, np.float32), 0.3, 1.0)


@pytest.mark.parametrize("n", SIZES)
def test_dithered(level, n):
    x = vector(n)
    counts = _core.count_dithered(x, 2.0, 9)
    assert (counts == reference.count_dithered(x, 2.0, 9)).all()
    for bits in (0, 2, 4):
        united = counts.reshape(1 << bits, -1, 141).sum(1) + np.uint64(1)  # every token, the escape included
        tables = reference.normalise_tables(united)
        got = _core.encode_dithered(x, 2.0, 9, tables)
        assert got == reference.encode_dithered(x, 2.0, 9, tables)
        both_add("add_dithered", got, n, tables, 9, 0.5, 4.0, -0.3)
        total = np.ones(n, np.float32)
        for wrong in (got[:-1], got + b"\0"):
            with pytest.raises(MessageError):
                _core.add_dithered(wrong, total, tables, 9, 0.5, 4.0, -0.3)
        assert (total == 1).all()


@pytest.mark.parametrize("log2n", [1, 5, 12])
@pytest.mark.parametrize("levels", [2, 3, 16, 256, 257, 4096])
def test_coefficients(level, log2n, levels):
    g, chunks, order = np.random.default_rng(log2n), 5, 1 << log2n
    p = g.uniform(-1, 1, (chunks, order)).astype(np.float32)
    p[2] = 0
    magnitudes = np.abs(p).max(1)
    for before in (2**20, 0):
        got = joined(_core.encode_coefficients(p.reshape(-1), magnitudes, log2n, levels, 4, before))
        assert got == joined(reference.encode_coefficients(p.reshape(-1), magnitudes, log2n, levels, 4, before))
    length = max(1, order // 2)
    n = chunks * length - (length > 1)
    positions = np.stack([np.sort(g.permutation(order)[:length]) for _ in range(2)]).astype(np.uint32)
    signs = g.choice([-1, 1], (2, length)).astype(np.float32)
    rest = (np.array([0, 1, 1, 0, 1], np.uint32), positions, signs, magnitudes, 0.5, -3.0)
    both_add("add_frames", got, n, levels, log2n, *rest)
    for module in (_core, reference):
        with pytest.raises(MessageError):
            module.add_frames(got + b"\0", np.zeros(n, np.float32), levels, log2n, *rest)
        with pytest.raises(MessageError, match="level"):
            module.add_frames(
                reference.encode_integers(np.full(chunks * order, levels, np.uint32)),
                np.zeros(n, np.float32),
                levels,
                log2n,
                *rest,
            )
