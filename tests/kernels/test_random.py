"""Generator, subsets and checksum: native against the reference, published vectors, and the distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire import _core
from gradwire.errors import ParameterError
from gradwire.kernels import reference
from gradwire.kernels.reference.random import philox

BEST = _core.simd()
LEVELS = ("portable", "avx2", "avx512")
u64 = st.integers(0, 2**64 - 1)


def on_every_level(call):
    """The one answer of all levels, as an array."""
    answers = []
    for simd in LEVELS:
        _core.set_simd(simd)
        answers.append(call())
    _core.set_simd(BEST)
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    return answers[0]


# Published with Random123 by the authors of Philox: counter, key, answer.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    def parse(text: str) -> list[int]:
        return [int(word, 16) for word in text.split()]

    k0, k1 = parse(key)
    assert philox(np.array([parse(counter)], np.uint32), (k0, k1))[0].tolist() == parse(answer)


def test_known_answer_through_the_words(level):
    """The first vector by its word numbers: block 0 of seed 0, stream 0."""
    assert [f"{w:08x}" for w in _core.philox_words(0, 0, 0, 4)] == KNOWN[0][2].split()


@given(u64, u64, u64, st.integers(0, 700))
@settings(max_examples=150, deadline=None)
def test_words_are_the_reference(seed, stream, start, count):
    start = min(start, 2**64 - count)
    got = on_every_level(lambda: _core.philox_words(seed, stream, start, count))
    np.testing.assert_array_equal(got, reference.philox_words(seed, stream, start, count))
    uniform = on_every_level(lambda: _core.uniform(seed, stream, start, count))
    np.testing.assert_array_equal(uniform, reference.uniform(seed, stream, start, count))
    np.testing.assert_array_equal(uniform, (got >> 8) / 2**24)


@pytest.mark.parametrize("start", [2**34 - 333, 2**63 - 5, 2**64 - 1000])
def test_words_where_the_counter_carries(level, start):
    got = _core.philox_words(5, 6, start, 1000)
    np.testing.assert_array_equal(got, reference.philox_words(5, 6, start, 1000))
    for i in (0, 1, 500, 999):  # and one at a time
        assert _core.philox_words(5, 6, start + i, 1)[0] == got[i]


@pytest.mark.parametrize("module", [_core, reference], ids=["native", "reference"])
def test_words_end_at_2_to_64(module):
    assert len(module.philox_words(1, 2, 2**64 - 3, 3)) == 3
    assert len(module.philox_words(1, 2, 2**64 - 1, 0)) == 0
    for function in (module.philox_words, module.uniform):
        with pytest.raises(ParameterError, match=r"2\^64"):
            function(1, 2, 2**64 - 3, 4)


@given(u64, u64, st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_child_seed(seed, stream, j):
    wanted = reference.child_seed(seed, stream, j)
    assert _core.child_seed(seed, stream, j) == wanted
    counter = np.array([[j, 0xFFFFFFFF, stream & 0xFFFFFFFF, stream >> 32]], np.uint32)
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))[0]
    assert wanted == int(words[0]) + 2**32 * int(words[1])


def subset_by_definition(seed: int, stream: int, n: int, k: int) -> list[int]:
    """Word after word, as wire format section 3.1 tells it."""
    wanted = k if 2 * k <= n else n - k
    drawn: set[int] = set()
    t = 0
    while len(drawn) < wanted:
        product = int(reference.philox_words(seed, stream, t, 1)[0]) * n
        t += 1
        if product % 2**32 >= 2**32 % n:
            drawn.add(product >> 32)
    return sorted(drawn) if 2 * k <= n else sorted(set(range(n)) - drawn)


@given(u64, u64, st.integers(0, 90), st.data())
@settings(max_examples=60, deadline=None)
def test_subset_is_its_definition(seed, stream, n, data):
    k = data.draw(st.integers(0, n))
    wanted = subset_by_definition(seed, stream, n, k)
    assert on_every_level(lambda: _core.subset(seed, stream, n, k)).tolist() == wanted
    assert reference.subset(seed, stream, n, k).tolist() == wanted


@given(u64, st.integers(1, 2**17), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_subset_is_the_reference(seed, n, share):
    k = round(share * n)
    got = on_every_level(lambda: _core.subset(seed, 9, n, k))
    assert got.dtype == np.uint32
    assert len(got) == k
    np.testing.assert_array_equal(got, reference.subset(seed, 9, n, k))


@given(u64, st.integers(1, 30_000), st.floats(0, 1), st.sampled_from(["elsewhere", "in x", "in the residual"]))
@settings(max_examples=60, deadline=None)
def test_entries_of_a_subset_are_the_reference(seed, n, share, place):
    k = round(share * n)
    x, residual = np.random.default_rng(seed % 1000).standard_normal((2, n)).astype(np.float32)
    x[::7] = residual[::7] = -0.0
    values, bad = reference.subset_values(x, seed, 9, k)
    assert bad == -1
    np.testing.assert_array_equal(on_every_level(lambda: _core.subset_values(x, seed, 9, k)[0]), values)
    wanted = np.empty_like(x)
    indices, values, _ = reference.take_subset(x, residual, wanted, seed, 9, k)

    def taken() -> np.ndarray:
        a, b = x.copy(), residual.copy()
        total = {"elsewhere": np.full_like(x, 9), "in x": a, "in the residual": b}[place]
        got = _core.take_subset(a, b, total, seed, 9, k)
        assert got[2] == -1
        return np.concatenate([got[0], got[1].view(np.uint32), total.view(np.uint32)])

    expected = np.concatenate([indices, values.view(np.uint32), wanted.view(np.uint32)])
    np.testing.assert_array_equal(on_every_level(taken), expected)


@given(u64, st.integers(1, 30_000), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_entries_are_thinned_by_a_subset_of_them(seed, n, share):
    k = round(share * n)
    g = np.random.default_rng(seed % 1000)
    indices, values = g.integers(0, 2**32, n, dtype=np.uint32), g.standard_normal(n).astype(np.float32)
    which = reference.subset(seed, 9, n, k)
    thinned = on_every_level(
        lambda: np.stack([v.view(np.uint32) for v in _core.thin_entries(indices, values, seed, 9, k)])
    )
    np.testing.assert_array_equal(thinned, [indices[which], values[which].view(np.uint32)])
    for got, wanted in zip(reference.thin_entries(indices, values, seed, 9, k), thinned, strict=True):
        np.testing.assert_array_equal(got.view(np.uint32), wanted)
    with pytest.raises(ValueError, match="length"):
        _core.thin_entries(indices, values[1:], seed, 9, 0)

    places = np.sort(g.permutation(2 * n)[:n]).astype(np.uint32)

    def thinned_in(module) -> np.ndarray:
        total = np.zeros(2 * n, np.float32)
        kept = module.thin_taken(total, places, values, seed, 9, k)
        return np.concatenate([v.view(np.uint32) for v in (*kept, total)])

    left = np.zeros(2 * n, np.float32)
    left[places] = values
    left[places[which]] = 0
    wanted = np.concatenate([v.view(np.uint32) for v in (places[which], values[which], left)])
    np.testing.assert_array_equal(on_every_level(lambda: thinned_in(_core)), wanted)
    np.testing.assert_array_equal(thinned_in(reference), wanted)
    with pytest.raises(IndexError):
        _core.thin_taken(np.zeros(int(places[-1]), np.float32), places, values, seed, 9, 0)


@pytest.mark.parametrize("module", [_core, reference], ids=["native", "reference"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_of_a_subset_tell_what_is_not_finite(module, bad):
    for at in (0, 5000, 9999):
        x, total = np.ones(10_000, np.float32), np.zeros(10_000, np.float32)
        x[at:] = bad
        assert module.subset_values(x, 1, 0, 20)[1] == at
        assert module.take_subset(x, np.ones_like(x), total, 1, 0, 20)[2] == at
        assert not np.isfinite(total[at])


def test_subset_where_half_of_the_words_are_refused(level):
    """n just above 2^31 refuses nearly half of all words."""
    n, k = 2**31 + 1, 50
    got = _core.subset(3, 4, n, k)
    words = reference.philox_words(3, 4, 0, 400).astype(np.uint64) * np.uint64(n)
    candidates = (words >> np.uint64(32))[words & np.uint64(0xFFFFFFFF) >= 2**32 % n]
    assert len(candidates) < 300
    _, first = np.unique(candidates, return_index=True)
    assert got.tolist() == sorted(candidates[np.sort(first)][:k].tolist())


def test_subset_is_uniform():
    """Inclusion counts and pairs of neighbours over 20 000 seeds: chi-square, false alarm below 1e-6, fixed seeds."""
    n, k, trials = 20, 7, 20_000
    inside = np.zeros((trials, n))
    for seed in range(trials):
        inside[seed, _core.subset(seed, 0, n, k)] = 1
    share = k / n
    z = (inside.sum(0) - trials * share) / np.sqrt(trials * share * (1 - share))
    # The counts sum to a constant: n − 1 degrees of freedom after scaling by (n − 1)/n.
    assert (z**2).sum() * (n - 1) / n < 75  # 1e-7 quantile of chi-square with 19 degrees
    pair = k * (k - 1) / (n * (n - 1))
    pairs = (inside[:, 1:] * inside[:, :-1]).sum(0)
    assert np.abs(pairs - trials * pair).max() < 5.5 * np.sqrt(trials * pair * (1 - pair))


@pytest.mark.parametrize("module", [_core, reference], ids=["native", "reference"])
def test_subset_bounds(module):
    assert module.subset(0, 0, 0, 0).shape == (0,)
    assert module.subset(0, 0, 5, 5).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ParameterError, match="k must be at most n"):
        module.subset(0, 0, 5, 6)
    with pytest.raises(ParameterError):
        module.subset_values(np.ones(5, np.float32), 0, 0, 6)
    with pytest.raises(ParameterError, match=r"below 2\^32"):
        module.subset(0, 0, 2**32, 1)


def test_crc_check_value(level):
    assert _core.crc32c(b"123456789") == reference.crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 767, 768, 769, 1543, 12_287, 12_288, 12_289, 30_011])
def test_crc_is_the_reference(level, size):
    data = np.random.default_rng(size).bytes(size + 1)
    for part in (data[:-1], data[1:]):
        assert _core.crc32c(part) == reference.crc32c(part)


@given(st.binary(min_size=1, max_size=2000), st.data())
@settings(max_examples=60, deadline=None)
def test_crc_sees_every_burst_of_32_bits(message, data):
    """What the polynomial guarantees: no burst of up to 32 bits goes unseen."""
    at = data.draw(st.integers(0, len(message) * 8 - 1))
    burst = data.draw(st.integers(1, 2 ** min(32, len(message) * 8 - at) - 1))
    changed = int.from_bytes(message, "little") ^ (burst << at)
    assert _core.crc32c(changed.to_bytes(len(message), "little")) != _core.crc32c(message)


def test_crc_takes_every_kind_of_bytes():
    data = b"gradwire" * 100
    wanted = _core.crc32c(data)
    kinds = (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), memoryview(data)[0:])
    for module in (_core, reference):
        assert [module.crc32c(kind) for kind in kinds] == [wanted] * len(kinds)
    with pytest.raises((BufferError, ValueError)):
        _core.crc32c(memoryview(data)[::2])
    with pytest.raises(TypeError):
        _core.crc32c("text")
