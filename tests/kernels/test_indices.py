"""The indices section: native at every SIMD level against the reference, near log2 C(n, k), and no other bytes."""

import math

import numpy as np
import pytest

from gradwire import _core
from gradwire.errors import InputError, MessageError
from gradwire.kernels import reference

BEST = _core.simd()
LEVELS = ["portable", "avx2", "avx512"][: ["portable", "avx2", "avx512"].index(BEST) + 1]


@pytest.fixture(autouse=True)
def best_level_afterwards():
    yield
    _core.set_simd(BEST)


@pytest.fixture(params=["reference", "native"])
def backend(request):
    return {"reference": reference, "native": _core}[request.param]


def subset(n, k, seed=0):
    return np.sort(np.random.default_rng(seed).choice(n, k, replace=False)).astype(np.uint32)


def subset_bytes(n, k):
    """log2 C(n, k) in bytes: what k of n equally likely indices cost at least, on average."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2) / 8


def as_words(indices):
    return np.asarray(indices, np.uint32)


LAST = 2**32 - 1
CASES = {
    "one of one": (1, as_words([0])),
    "first": (1000, as_words([0])),
    "last": (1000, as_words([999])),
    "last of all": (LAST, as_words([LAST - 1])),
    "ends of all": (LAST, as_words([0, LAST - 1])),
    "all of 10": (10, np.arange(10, dtype=np.uint32)),
    "all of 512": (512, np.arange(512, dtype=np.uint32)),
    "all of 70,000": (70000, np.arange(70000, dtype=np.uint32)),
    "a run at the front": (10**6, np.arange(3000, dtype=np.uint32)),
    "a run at the end": (LAST, np.arange(LAST - 3000, LAST, dtype=np.uint32)),
    "clusters": (10**7, as_words(np.unique(np.arange(0, 10**7, 10**6)[:, None] + np.arange(0, 900, 3)))),
    "steps": (10**6, np.arange(7, 10**6, 50, dtype=np.uint32)),
    "few of many": (LAST, subset(LAST - 1, 600)),
    **{f"{k} of 1000": (1000, subset(1000, k)) for k in (1, 2, 7, 8, 9, 511, 512, 513, 999)},
    **{f"{k} of 100,000": (100_000, subset(100_000, k)) for k in (1, 31, 100, 3000, 10_000, 50_000, 99_000)},
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_writes_the_bytes_of_the_reference_and_reads_them(name):
    n, indices = CASES[name]
    section = reference.encode_indices(indices, n)
    for module, level in [(reference, BEST), *((_core, level) for level in LEVELS)]:
        _core.set_simd(level)
        assert module.encode_indices(indices, n) == section, level
        back, used = module.decode_indices(section + b"\xa5", n, len(indices))
        assert back.dtype == np.uint32
        assert used == len(section)
        assert np.array_equal(back, indices)


@pytest.mark.parametrize("share", [1e-4, 2e-4, 5e-4, 1e-3, 3e-3, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
def test_within_two_percent_of_the_information(share):
    n = 10**6
    k = round(share * n)
    sizes = [len(_core.encode_indices(subset(n, k, seed), n)) for seed in range(3)]
    assert np.mean(sizes) <= 1.02 * subset_bytes(n, k) + 64
    assert np.mean(sizes) >= 0.99 * subset_bytes(n, k)  # else the measure is wrong
    if k >= 1000:  # where it counts, the format does better
        assert np.mean(sizes) <= 1.012 * subset_bytes(n, k)


def test_a_short_list_costs_little():
    for n, k, most in [(10, 1, 3), (10, 5, 4), (100, 10, 8), (1000, 10, 13), (10**6, 1, 5), (10**6, 10, 25)]:
        for seed in range(20):
            assert len(_core.encode_indices(subset(n, k, seed), n)) <= most


def test_many_blocks():
    n = 5 * 2**20
    for k in (2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20):
        indices = subset(n, k)
        sections = []
        for level in LEVELS:
            _core.set_simd(level)
            sections.append(_core.encode_indices(indices, n))
            back, used = _core.decode_indices(sections[-1], n, k)
            assert used == len(sections[-1])
            assert np.array_equal(back, indices)
        assert all(section == sections[0] for section in sections)
        assert len(sections[0]) <= 1.004 * subset_bytes(n, k)


def test_what_is_no_list_of_indices_is_refused(backend):
    for indices, n in [([], 5), ([1, 1], 5), ([2, 1], 5), ([5], 5), ([0, 1, 2**32 - 1], 2**32 - 1), ([0], 0)]:
        with pytest.raises(InputError, match="ascending"):
            backend.encode_indices(as_words(indices), n)
    long = np.arange(4000, dtype=np.uint32)
    for at in (1, 1023, 1024, 3998):
        wrong = long.copy()
        wrong[at] += 1
        with pytest.raises(InputError):
            backend.encode_indices(wrong, 10000)


FORBIDDEN = {
    # n, k, bytes
    "bit 6": (16, 3, "420b0d"),
    "bit 7": (16, 3, "820b0d"),
    "padding of the low bits": (16, 3, "024b0d"),
    "padding of the quotients": (16, 3, "020b1d"),
    "an index of n": (11, 3, "020b0d"),
    "a quotient that wraps": (16, 3, "1f" + "00" * 12 + "18"),
    "no index": (16, 0, "020b0d"),
    "more than there are": (2, 3, "000007"),
    "no end of zeros": (16, 3, "00" + "00" * 30),
    "entropy-coded, an index of n": (15, 3, "220b0702"),
}


def test_the_forbidden_ones_are_near_valid_ones(backend):
    assert backend.decode_indices(bytes.fromhex("020b0d"), 16, 3)[0].tolist() == [3, 10, 11]
    # Mode 1 is open to any encoder: quotients 0, 1, 0 in unary are 0 110 0.
    assert backend.decode_indices(bytes.fromhex("220b0706"), 16, 3)[0].tolist() == [3, 10, 11]
    assert backend.decode_indices(bytes.fromhex("220b0702"), 16, 3)[0].tolist() == [3, 14, 15]
    assert backend.decode_indices(bytes.fromhex("1f" + "00" * 12 + "07"), 16, 3)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_format_forbids_raises(backend, name):
    n, k, text = FORBIDDEN[name]
    with pytest.raises(MessageError):
        backend.decode_indices(bytes.fromhex(text), n, k)


def test_gaps_whose_sum_wraps_are_refused(backend):
    """Quotient 1 with b = 31, three times: 3·2^31 + 3 is 2^31 + 3 in 32 bits."""
    data = bytes.fromhex("1f" + "00" * 12 + "2a")
    for n in (2**31, 2**32 - 1):
        with pytest.raises(MessageError, match="not below n"):
            backend.decode_indices(data, n, 3)


def test_gaps_whose_sum_wraps_64_bits_are_refused(backend):
    """Four gaps of 2^31·2^31."""
    section = bytes.fromhex("3f" + "00" * 16) + _core.encode_integers(as_words([2**31] * 4))
    with pytest.raises(MessageError, match="not below n"):
        backend.decode_indices(section, 1000, 4)


def test_every_truncation_raises(backend):
    for n, k in [(10, 1), (10, 10), (1000, 30), (3000, 600), (600, 600)]:
        section = _core.encode_indices(subset(n, k), n)
        for size in range(len(section)):
            with pytest.raises(MessageError):
                backend.decode_indices(section[:size], n, k)


@pytest.mark.parametrize(("n", "k"), [(20, 4), (1000, 60), (2000, 600), (60000, 700)])
def test_a_bit_flip_raises_or_gives_indices_and_all_backends_agree_which(n, k):
    section = _core.encode_indices(subset(n, k), n)
    bits = np.random.default_rng(0).permutation(8 * len(section))[:500]
    raised = 0
    for bit in bits.tolist():
        damaged = bytearray(section)
        damaged[bit // 8] ^= 1 << bit % 8
        results = []
        for module, level in [(reference, BEST), *((_core, level) for level in LEVELS)]:
            _core.set_simd(level)
            try:
                back, used = module.decode_indices(bytes(damaged) + b"\0", n, k)
            except MessageError:
                results.append(None)
            else:
                assert back.shape == (k,)
                assert (np.diff(back.astype(np.int64)) > 0).all()
                assert back[-1] < n
                results.append((back.tobytes(), used))
        assert all(result == results[0] for result in results)
        raised += results[0] is None
    assert raised > 0
