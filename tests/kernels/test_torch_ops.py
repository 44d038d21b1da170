"""Torch operations against native code, bit for bit, where the laws on codecs do not go: shapes, chunks, extremes."""

import math

import numpy as np
import pytest
import torch

from gradwire import _core as native
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import reference, torch_ops
from gradwire.kernels.torch_ops import crossing, levels, random, sums, values

CPU = torch.device("cpu")


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def tensor(x):
    return torch.from_numpy(x.copy())


class TestRandom:
    @pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63, 2**64 - 1])
    @pytest.mark.parametrize("stream", [0, 2**32, 2**64 - 1])
    @pytest.mark.parametrize("start", [0, 3, 2**34 - 6, 2**34 - 1, 2**60 + 2])
    def test_words(self, seed, stream, start):
        for count in (1, 2, 5, 64):
            words = random.philox_words(seed, stream, start, count, CPU)
            assert same(words.numpy().astype(np.uint32), native.philox_words(seed, stream, start, count))
            assert same(random.uniform(seed, stream, start, count, CPU), native.uniform(seed, stream, start, count))

    def test_products_of_words_keep_all_64_bits(self):
        """What the generator rests on: a product that passes 2^63 wraps, and its halves can still be told."""
        words = [0, 1, 2**16, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1, 0x9E3779B9]
        words += np.random.default_rng(0).integers(0, 2**32, 1000).tolist()
        for multiplier in (random.M0, random.M1):
            product = multiplier * torch.tensor(words)
            assert (product < 0).any()
            assert (product & random.LOW).tolist() == [multiplier * w & 0xFFFFFFFF for w in words]
            assert (product >> 32 & random.LOW).tolist() == [multiplier * w >> 32 for w in words]


def vectors(n, g):
    """Vectors that are hard to sum: ties, binades crossed late, all at once, or at every term."""
    at = np.arange(n)
    return {
        "gauss": g.standard_normal(n),
        "cauchy": g.standard_cauchy(n),
        "constant": np.full(n, 0.1),
        "ones": np.ones(n),
        "zeros": np.zeros(n),
        "late": np.where(at > n // 2, g.standard_normal(n), 0),
        "every term doubles": np.exp2(at % 250 - 125),
        "denormal": 1e-42 * g.standard_normal(n),
        "huge": 3e38 * np.sign(g.standard_normal(n)),
        "few bits": g.integers(0, 2**12, n) * 2.0 ** -g.integers(0, 14, n),
        # Sums beyond 2^53 of terms that are odd multiples of half their last place: almost every addition is a tie.
        "ties": np.where(at < 16, 2.0**26.5, np.sqrt(g.integers(0, 4, n) / 2)),
        "ties of magnitudes": np.where(at < 16, 2.0**53, g.integers(0, 8, n)),
    }


class TestSums:
    @pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 300, 5000, 20_000])
    def test_order(self, n):
        for name, x in vectors(n, np.random.default_rng(n)).items():
            x = x.astype(np.float32)
            assert torch_ops.sum_squares(tensor(x)) == native.sum_squares(x), name
            assert torch_ops.sum_abs(tensor(x)) == native.sum_abs(x), name

    def test_another_order_would_be_told(self):
        x = vectors(70_000, np.random.default_rng(1))["gauss"].astype(np.float32)
        squares = tensor(x).double() ** 2
        assert float(squares.sum()) != native.sum_squares(x)
        assert float(squares.flip(0).view(-1, 16).cumsum(0)[-1].sum()) != native.sum_squares(x)

    def test_ties_are_there(self):
        """Additions that end half-way are met, after an even and after an odd sum."""
        x = vectors(70_000, np.random.default_rng(2))["ties of magnitudes"]
        lane = x[5::16]
        s = np.add.accumulate(lane)
        odd_terms = lane[1:] % 2 == 1
        assert odd_terms.sum() > 1000
        assert {0, 2} <= set((s[:-1][odd_terms] % 4).tolist())

    @pytest.mark.parametrize(("n", "group"), [(2**20 + 5, 2**21), (2**20 + 33, 2**15)])
    def test_several_blocks(self, n, group, monkeypatch):
        monkeypatch.setattr(sums, "TOGETHER", group)
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        assert torch_ops.sum_squares(tensor(x)) == native.sum_squares(x)

    @pytest.mark.parametrize(("n", "bucket"), [(1, 1), (100, 16), (100, 17), (5000, 512), (9001, 4500), (70, 70)])
    def test_buckets(self, n, bucket):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        assert same(torch_ops.bucket_squares(tensor(x), bucket), native.bucket_squares(x, bucket))

    def test_buckets_longer_than_a_block(self):
        x = np.random.default_rng(3).standard_normal(2**20 + 77).astype(np.float32)
        bucket = 2**20 + 33
        assert same(torch_ops.bucket_squares(tensor(x), bucket), native.bucket_squares(x, bucket))

    @pytest.mark.parametrize("inverse", [0.7, 3e4, 4e6])
    def test_of_levels(self, inverse):
        """Up to levels whose squares pass 2^53 in all, where their order counts."""
        x = np.random.default_rng(4).standard_normal(30_000).astype(np.float32)
        expected = native.level_sums(x, np.float32(inverse))
        assert torch_ops.level_sums(tensor(x), float(np.float32(inverse))) == expected
        assert (expected[1] > 2**53) == (inverse > 1e6)

    def test_extent(self):
        x = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
        assert torch_ops.extent(tensor(x)) == native.extent(x)
        for bad in (np.inf, -np.inf, np.nan):
            x[7] = bad
            assert not math.isfinite(torch_ops.extent(tensor(x))[0])


class TestSelection:
    @pytest.mark.parametrize("n", [1, 2, 33, 1000])
    def test_top_with_ties(self, n):
        g = np.random.default_rng(n)
        for x in (
            g.standard_normal(n),
            g.integers(-3, 4, n),
            np.zeros(n) * g.choice([-1, 1], n),
            g.choice([0.0, -0.0, 1e-45, np.inf, -np.inf, np.nan, 1.0], n),
        ):
            x = x.astype(np.float32)
            for r in {0, 1, n // 3, n // 2, n - 1, n}:
                got = torch_ops.top(tensor(x), r)
                assert same(torch_ops.to_host(got), native.top(x, r)), r

    def test_more_than_there_are(self):
        with pytest.raises(ParameterError, match="at most"):
            torch_ops.top(torch.ones(3), 4)

    @pytest.mark.parametrize("threshold", [2.0**-149, 0.5, 1.0, math.inf])
    def test_reaching(self, threshold):
        x = np.array([0.5, -1.0, 0.0, -0.0, 1e-45, 2.0, -0.49999997], np.float32)
        assert same(
            torch_ops.to_host(torch_ops.reaching(tensor(x), threshold)), native.reaching_entries(x, threshold)[0]
        )


class TestCrossing:
    @pytest.mark.parametrize("width", crossing.WIDTHS[1:])
    def test_packed_numbers_come_back(self, width):
        for m in (1, 3, 4, 7, 8, 9, 64, 1001):
            numbers = torch.from_numpy(np.random.default_rng(m).integers(0, 2**width, m))
            data = crossing.pack(numbers, width)
            assert data.dtype == torch.uint8
            assert len(data) == -(-m * width // 8)
            assert crossing.unpack(data, m, width).tolist() == numbers.tolist()

    @pytest.mark.parametrize(
        "v",
        [
            [],
            [0],
            [2**32 - 1],
            [0] * 999 + [2**32 - 1],
            [1, 2, 3] * 500 + [2**31],
            list(range(2**16 - 50, 2**16 + 50)),
        ],
        ids=["none", "zero", "largest", "sparse", "outlier", "wide"],
    )
    def test_numbers_cross_both_ways(self, v):
        v = np.array(v, np.uint32)
        assert crossing.numbers_up(v, CPU).tolist() == v.tolist()
        assert same(crossing.numbers_down(torch.from_numpy(v.view(np.int32))), v)

    def test_chunks(self, monkeypatch):
        monkeypatch.setattr(crossing, "CHUNK", 64)
        v = np.random.default_rng(0).geometric(0.3, 1000).astype(np.uint32)
        assert crossing.numbers_up(v, CPU).tolist() == v.tolist()
        assert same(crossing.numbers_down(torch.from_numpy(v.view(np.int32))), v)
        bits = v > 2
        assert crossing.bits_down(torch.from_numpy(bits)) == np.packbits(bits, bitorder="little").tobytes()

    def test_indices_cross_as_gaps(self):
        indices = np.array([3, 4, 900, 2**31 + 5, 2**32 - 2], np.uint32)
        there = crossing.indices_up(indices, CPU)
        assert there.tolist() == indices.tolist()
        assert same(crossing.to_host(there), indices)

    @pytest.mark.parametrize("p", [0.001, 0.02, 0.3, 0.9])
    def test_no_width_takes_fewer_bytes(self, p):
        v = torch.from_numpy(np.random.default_rng(1).geometric(p, 5000) - 1)
        sizes = {w: len(v) * w // 8 + 8 * int((v >= 2**w).sum()) for w in crossing.WIDTHS}
        assert sizes[crossing.fewest_bits(v)] == min(sizes.values())


class TestLevels:
    @pytest.mark.parametrize("rounding", [0, 1, 2])
    def test_chunks_go_on_in_the_generator(self, rounding, monkeypatch):
        monkeypatch.setattr(levels, "CHUNK", 2**20)
        x = np.random.default_rng(rounding).standard_normal(2**20 + 1001).astype(np.float32)
        expected = native.quantise(x, 1.5, rounding, 9, 4)
        assert same(levels.quantise(tensor(x), 1.5, rounding, 9, 4), expected)
        sections, nonzero = levels.encode_levels(tensor(x), 1.5, rounding, 9, 4)
        assert b"".join(sections) == native.encode_integers(expected)
        assert nonzero == np.count_nonzero(expected)

    @pytest.mark.parametrize("inverse", [1.0, 1e30, 2.0**-140])
    def test_extremes(self, inverse):
        x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 3e38, -3e38, 1e-45, 0.0, -0.0], np.float32)
        for rounding in (0, 1, 2):
            expected = native.quantise(x, inverse, rounding, 1, 0)
            assert same(levels.quantise(tensor(x), float(np.float32(inverse)), rounding, 1, 0), expected)

    @pytest.mark.parametrize("lowest", [-149, -63, -11, 0])
    def test_natural(self, lowest):
        g = np.random.default_rng(-lowest)
        bits = g.integers(0, 2**32, 20_000, dtype=np.uint32)
        x = np.where(bits & 0x7F800000 == 0x7F800000, bits & 0x807FFFFF, bits).view(np.float32)  # all finite patterns
        for v in (x, g.standard_normal(999).astype(np.float32), np.zeros(5, np.float32)):
            codes = reference.round_natural(v, lowest, 5, 0)
            zigzag, top = torch_ops.natural_levels(tensor(v), lowest, 5, 0)
            exponents = codes.astype(np.int64) >> 1
            signed = np.where(codes == 0, 0, np.where(codes & 1, -1, 1) * (exponents.max() + 1 - exponents))
            assert same(zigzag, np.where(signed >= 0, 2 * signed, -2 * signed - 1).astype(np.uint32))
            assert top == (int(exponents.max()) - 150 if codes.any() else 0)

    @pytest.mark.parametrize(("n", "bucket"), [(1, 1), (7, 7), (40, 16), (1000, 999)])
    def test_divided(self, n, bucket):
        g = np.random.default_rng(n)
        x, d = g.standard_normal(n).astype(np.float32), g.random(-(-n // bucket)).astype(np.float32) + np.float32(0.1)
        assert same(torch_ops.divided(tensor(x), d, bucket), x / np.repeat(d, bucket)[:n])


class TestFloats:
    def patterns(self):
        bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
        return bits[bits & 0x7F800000 != 0x7F800000].view(np.float32)

    @pytest.mark.parametrize("exponent", [-126, -20, 0, 1, 112])
    def test_float16(self, exponent):
        x = self.patterns()
        assert same(torch_ops.encode_float16(tensor(x), exponent), native.encode_float16(x, exponent))

    def test_float16_of_usual_sizes(self):
        x = np.random.default_rng(1).standard_normal(10_000).astype(np.float32) * np.float32(3e4)
        x[:3] = 65504, 65519.996, 65520
        assert same(torch_ops.encode_float16(tensor(x), 0), native.encode_float16(x, 0))

    def test_bfloat16(self):
        x = np.concatenate([self.patterns(), np.array([3.4028235e38, -3.4028235e38, 3.39e38], np.float32)])
        assert same(torch_ops.encode_bfloat16(tensor(x)), native.encode_bfloat16(x))

    @pytest.mark.parametrize(("format", "exponent"), [(0, 0), (1, -126), (1, 0), (1, 112), (2, 0)])
    def test_added(self, format, exponent):
        g = np.random.default_rng(format)
        if format == 0:
            data = self.patterns()
        else:
            halves = g.integers(0, 2**16, 20_000).astype(np.uint16)
            special = 0x7C00 if format == 1 else 0x7F80
            data = halves[halves & special != special]
        out = g.standard_normal(len(data)).astype(np.float32)
        other = tensor(out)
        native.add_floats(data.tobytes(), out, format, exponent, 0.3)
        torch_ops.add_floats(data.tobytes(), other, format, exponent, 0.3)
        assert same(other, out)

    @pytest.mark.parametrize(("format", "bad"), [(0, "0000807f"), (1, "007c"), (2, "80ff"), (2, "c17f")])
    def test_non_finite_is_refused_before_anything_changes(self, format, bad):
        out = torch.ones(3)
        data = bytes.fromhex(bad) + bytes((4 if format == 0 else 2) * 2)
        with pytest.raises(MessageError, match="NaN or infinity"):
            torch_ops.add_floats(data, out, format, 0, 1.0)
        assert out.tolist() == [1, 1, 1]


class TestAdding:
    def test_levels(self, monkeypatch):
        monkeypatch.setattr(values, "CHUNK", 4096)
        g = np.random.default_rng(6)
        v = (g.geometric(0.2, 10_000) - 1).astype(np.uint32)
        v[5] = 2**32 - 2
        data = native.encode_integers(v)
        for shared in (False, True):
            for step, power in ((0.7, 1.0), (1e-3, 2.0**100), (3e38, 2.0**-149)):
                out = g.standard_normal(len(v)).astype(np.float32)
                other = tensor(out)
                native.add_levels(data, out, np.float32(step), power, 0.3, shared, 3, 0)
                torch_ops.add_levels(data, other, float(np.float32(step)), power, float(np.float32(0.3)), shared, 3, 0)
                assert same(other, out), (shared, step)

    def test_what_native_refuses_is_refused(self):
        out = torch.ones(3)
        for data in (native.encode_integers(np.array([1, 2, 3], np.uint32)) + b"\0", b""):
            with pytest.raises(MessageError):
                torch_ops.add_levels(data, out, 1.0, 1.0, 1.0, False, 0, 0)
        beyond = native.encode_integers(np.array([1, 2**32 - 1, 3], np.uint32))
        with pytest.raises(MessageError, match="32 bits"):
            torch_ops.add_levels(beyond, out, 1.0, 1.0, 1.0, False, 0, 0)
        assert out.tolist() == [1, 1, 1]

    def test_sparse_touches_only_what_is_named(self):
        out = torch.full((9,), -0.0)
        torch_ops.add_sparse(out, np.array([2, 7], np.uint32), np.array([0.0, 1.5], np.float32), 2.0)
        assert np.signbit(out.numpy()).tolist() == [i not in (2, 7) for i in range(9)]
        assert out[7] == 3.0


class TestHadamard:
    @pytest.mark.parametrize("log2n", [0, 1, 5, 12])
    def test_transform(self, log2n):
        x = np.random.default_rng(log2n).standard_normal(3 << log2n).astype(np.float32)
        assert same(torch_ops.hadamard(tensor(x), log2n), native.hadamard(x, log2n))

    def test_represent(self):
        g = np.random.default_rng(8)
        rows, c, log2n = 7, 20, 5
        y = g.standard_t(1.5, (rows, c)).astype(np.float32)
        y[2] = 0
        positions = np.sort(g.choice(32, c, replace=False)).astype(np.uint32)
        signs = g.choice([-1.0, 1.0], c).astype(np.float32)
        goals = (np.float32(1.2) * np.linalg.norm(y, axis=1)).astype(np.float32)
        expected = native.represent(y.reshape(-1), positions, signs, log2n, goals, 24)
        p, most = torch_ops.represent(tensor(y.reshape(-1)), positions, signs, log2n, goals, 24)
        assert same(p, expected[0])
        assert same(most, expected[1])
