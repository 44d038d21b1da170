"""Native top against the reference and against its definition, on every instruction set."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradwire import _core
from gradwire.errors import ParameterError
from gradwire.kernels import reference

BEST = _core.simd()
LEVELS = ("portable", "avx2", "avx512")
Make = Callable[[np.random.Generator, int], np.ndarray]

FAMILIES: dict[str, Make] = {
    "normal": lambda g, n: g.standard_normal(n),
    "ascending": lambda g, n: np.arange(n),
    "descending": lambda g, n: -np.arange(n)[::-1],
    "constant": lambda g, n: np.full(n, -2.5),
    "zeros": lambda g, n: np.where(g.random(n) < 0.5, 0.0, -0.0),
    "few values": lambda g, n: np.round(g.standard_normal(n)),
    "sparse": lambda g, n: np.where(g.random(n) < 0.005, g.standard_normal(n), 0.0),
    "denormal": lambda g, n: g.standard_normal(n) * 1e-42,
    "heavy tail": lambda g, n: np.exp(np.clip(9 * g.standard_normal(n), -80, 80)),
    "blocks of one scale": lambda g, n: (
        g.standard_normal(n) * np.exp(3 * g.standard_normal(n // 500 + 1))[np.arange(n) // 500]
    ),
    "any bits": lambda g, n: g.integers(0, 2**32, n, dtype=np.uint32).view(np.float32),
}


def vector(family: str, n: int, seed: int) -> np.ndarray:
    return FAMILIES[family](np.random.default_rng(seed), n).astype(np.float32)


@pytest.mark.parametrize("family", FAMILIES)
def test_is_the_reference(level, family):
    rng = np.random.default_rng(1)
    for trial in range(60):
        n = int(2 ** rng.uniform(0, 17))
        x = vector(family, n, trial)
        for share in (rng.uniform(0, 0.01), rng.uniform(0, 0.1), rng.uniform(0, 1)):
            r = round(share * n)
            np.testing.assert_array_equal(_core.top(x, r), reference.top(x, r), err_msg=f"{n=} {r=}")


@pytest.mark.parametrize("family", FAMILIES)
def test_long(level, family):
    """Long enough for the largest sample, and for candidates that outgrow their room."""
    x = vector(family, 3_000_001, 3)
    order = np.argsort(-(x.view(np.uint32) & 0x7FFFFFFF).astype(np.int64), kind="stable")
    for r in (1, 30, 3_000, 30_000, 187_500, 187_501, 600_000, 1_500_000, 2_999_999):
        np.testing.assert_array_equal(_core.top(x, r), np.sort(order[:r]), err_msg=f"{r=}")


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 1e-45, -np.inf, np.nan]), max_size=80), st.data())
@settings(max_examples=300, deadline=None)
def test_is_its_definition(values, data):
    x = np.array(values, np.float32)
    r = data.draw(st.integers(0, len(x)))
    key = x.view(np.uint32) & 0x7FFFFFFF
    wanted = sorted(sorted(range(len(x)), key=lambda i: (-int(key[i]), i))[:r])
    for simd in LEVELS:
        _core.set_simd(simd)
        assert _core.top(x, r).tolist() == wanted
    _core.set_simd(BEST)
    assert reference.top(x, r).tolist() == wanted


@given(st.integers(0, 2**32 - 1), st.integers(1, 60_000), st.floats(0, 1))
@example(seed=0, n=2048, share=1 / 16)
@example(seed=0, n=2047, share=1 / 16)
@settings(max_examples=60, deadline=None)
def test_levels_agree(seed, n, share):
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    x[:: 1 + seed % 5] = 0.5
    r = round(share * n)
    answers = []
    for simd in LEVELS:
        _core.set_simd(simd)
        answers.append(_core.top(x, r).tobytes())
    _core.set_simd(BEST)
    assert set(answers) == {reference.top(x, r).tobytes()}


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint32)


def same(got: tuple, wanted: tuple) -> None:
    """Indices, the bits of values, and which entry is not finite."""
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(bits(one), bits(other))
        else:
            assert one == other


@pytest.mark.parametrize("family", FAMILIES)
def test_entries_are_the_reference(level, family):
    rng = np.random.default_rng(4)
    for trial in range(30):
        n = int(2 ** rng.uniform(0, 15))
        x = vector(family, n, trial)
        for r in {1, 1 + n // 100, 1 + n // 3, n}:
            same(_core.top_entries(x, r), reference.top_entries(x, r))
        threshold = float(np.abs(rng.choice(x))) or 1e-45
        if np.isfinite(threshold):
            got, wanted = _core.reaching_entries(x, threshold), reference.reaching_entries(x, threshold)
            assert got[2] == wanted[2]
            if wanted[2] < 0:
                same(got, wanted)


@pytest.mark.parametrize("place", ["elsewhere", "in x", "in the residual"])
def test_taking_from_a_sum_is_the_reference(level, place):
    rng = np.random.default_rng(6)
    for n in (1, 17, 2047, 3000, 70_000):
        for family in ("normal", "few values", "sparse", "constant", "blocks of one scale"):
            x, residual = vector(family, n, 1), vector(family, n, 2) * np.float32(0.5)
            for r in {1, 1 + n // 200, 1 + n // 10, n}:
                wanted = np.empty_like(x)
                expected = reference.take_top(x, residual, wanted, r)
                a, b = x.copy(), residual.copy()
                total = {"elsewhere": rng.standard_normal(n).astype(np.float32), "in x": a, "in the residual": b}[place]
                same(_core.take_top(a, b, total, r), expected)
                np.testing.assert_array_equal(bits(total), bits(wanted))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_is_taken_from_a_sum_that_is_not_finite(level, bad):
    x, residual, total = np.ones(5000, np.float32), np.full(5000, 0.25, np.float32), np.zeros(5000, np.float32)
    x[[7, 4321]] = bad
    for module in (_core, reference):
        for r in (3, 2500, 5000):
            assert module.take_top(x, residual, total, r)[2] == 7
            np.testing.assert_array_equal(bits(total), bits(x + residual))


def test_thresholds_that_few_and_that_all_reach(level):
    """The arrays for what reaches it grow several times."""
    x = vector("normal", 1_000_000, 5)
    for threshold in (1e-45, 0.1, 1.0, 4.0, 100.0):
        same(_core.reaching_entries(x, threshold), reference.reaching_entries(x, threshold))


def test_sums_whose_places_do_not_fit_are_refused():
    memory = np.ones(2000, np.float32)
    x, residual = memory[:1000], np.ones(1000, np.float32)
    for a, b, total in ((x, residual, memory[1:1001]), (residual, x, memory[999:1999]), (x, residual[1:], x)):
        for take in (lambda a, b, t: _core.take_top(a, b, t, 3), lambda a, b, t: _core.take_subset(a, b, t, 1, 0, 3)):
            with pytest.raises(ValueError, match="total"):
                take(a, b, total)
    assert (memory == 1).all()
    _core.take_top(x, residual, memory[1000:], 3)  # next to it is not over it


def test_unaligned(level):
    x = np.random.default_rng(2).standard_normal(20_000).astype(np.float32)
    for offset in range(1, 17):
        np.testing.assert_array_equal(_core.top(x[offset:], 300), reference.top(x[offset:].copy(), 300))


def test_bounds():
    x = np.ones(3, np.float32)
    assert _core.top(x, 0).shape == (0,)
    assert _core.top(x[:0], 0).dtype == np.uint32
    for function in (_core.top, reference.top, _core.top_entries, reference.top_entries):
        with pytest.raises(ParameterError, match=r"at most len\(x\)"):
            function(x, 4)


def test_threads_do_not_share_scratch():
    """The interpreter lock is released, and working space stays with its thread."""
    x = [np.random.default_rng(s).standard_normal(200_000).astype(np.float32) for s in range(4)]
    wanted = [reference.top(v, 2_000) for v in x]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(_core.top(x[i], 2_000), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
