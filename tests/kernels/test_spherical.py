"""Spherical's kernels: native against the reference on every instruction set, and the law of the points."""

import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwire
from gradwire import _core
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import reference
from gradwire.kernels.reference.spherical import pair_points
from gradwire.theory import log2_cap_probability

SEED = 20_240_607

FAMILIES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda g, n: g.standard_normal(n),
    "heavy tail": lambda g, n: g.standard_t(1.2, n),
    "sparse": lambda g, n: np.where(g.random(n) < 0.06, g.standard_normal(n), 0.0),
    "constant": lambda g, n: np.full(n, -0.3),
    "all scales": lambda g, n: np.exp2(np.arange(n) % 270 - 145),
    "huge and tiny": lambda g, n: np.where(g.random(n) < 0.5, 3.4e38, 1e-42),
    "denormal": lambda g, n: 1e-44 * g.integers(-3, 4, n),
}
SHAPES = ((1, 1), (2, 2), (5, 2), (14, 1), (97, 16), (600, 600), (1000, 63), (1600, 100), (3001, 500), (4100, 700))


@pytest.fixture(autouse=True)
def threads_as_before():
    before = gradwire.get_threads()
    yield
    gradwire.set_threads(before)


def joined(backend, x, found):
    return b"".join(backend.encode_spherical(x, found))


def values_of(backend, found, seed, n):
    values = np.full(n, np.nan, np.float32)
    backend.spherical_values(found, seed, values)
    return values


def same(found, other):
    return np.array_equal(found.index, other.index) and np.array_equal(found.gain, other.gain)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("alpha", [0.15, 0.5, 0.9])
def test_is_the_reference(level, family, alpha):
    for n, m in SHAPES:
        if n > m and log2_cap_probability(alpha, -(-n // m)) < -14:
            continue
        x = FAMILIES[family](np.random.default_rng(n), n).astype(np.float32)
        found = reference.spherical_search(x, m, alpha, SEED + n, 4096)
        for threads in (1, 3):
            gradwire.set_threads(threads)
            got = _core.spherical_search(x, m, alpha, SEED + n, 4096)
            assert same(got, found), (n, m, threads)
        if not found.gain.any():
            continue
        data = joined(reference, x, found)
        assert joined(_core, x, got) == data, (n, m)
        native, used = _core.decode_spherical(data, n, m)
        assert used == len(data)
        assert same(native, found)
        numpy, _ = reference.decode_spherical(data, n, m)
        values = values_of(_core, native, SEED + n, n)
        expected = values_of(reference, numpy, SEED + n, n)
        assert np.array_equal(values.view(np.uint32), expected.view(np.uint32)), (n, m)
        sums = [np.linspace(-1, 1, n, dtype=np.float32) for _ in range(2)]
        _core.add_spherical(native, SEED + n, sums[0], 0.3)
        reference.add_spherical(numpy, SEED + n, sums[1], 0.3)
        assert np.array_equal(sums[0], sums[1])


def test_longest_blocks(level):
    x = np.random.default_rng(0).standard_normal(1021).astype(np.float32)
    found = reference.spherical_search(x, 4, 0.97, SEED, 1024)
    assert (found.gain > 0).all()
    assert same(_core.spherical_search(x, 4, 0.97, SEED, 1024), found)


def test_many_blocks_make_several_chunks(level):
    """More blocks than a call takes, more searched ones than lanes of a tile, of two lengths, some sent as they are."""
    m = 60_001
    n = 3 * m - 5
    x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    x[50_000:51_000] *= np.float32(1e-40)
    x[90_000:91_000] = 0
    gradwire.set_threads(1)
    found = _core.spherical_search(x, m, 0.4, SEED, 1024)
    data = joined(_core, x, found)
    results = []
    for threads in (1, 2):
        gradwire.set_threads(threads)
        again = _core.spherical_search(x, m, 0.4, SEED, 1024)
        assert same(again, found)
        assert joined(_core, x, again) == data
        back, _ = _core.decode_spherical(data, n, m)
        assert same(back, found)
        results.append(np.linspace(-1, 1, n, dtype=np.float32))
        _core.add_spherical(back, SEED, results[-1], -2.0)
    expected = np.linspace(-1, 1, n, dtype=np.float32)
    searched = reference.SphericalBlocks(found.index, np.maximum(found.gain, 0), n)
    values = values_of(reference, searched, SEED, n)
    values[50_000:51_000] = np.where(values[50_000:51_000] == 0, x[50_000:51_000], values[50_000:51_000])
    reference.add_dense(expected, values, -2.0)
    assert np.array_equal(results[0], expected)
    assert np.array_equal(results[1], expected)
    part = slice(40_000, 40_050)
    assert np.array_equal(reference.spherical_search(x, m, 0.4, SEED, 1024).index[part], found.index[part])


@pytest.mark.parametrize(("d", "alpha"), [(1, 0.25), (2, 0.25), (4, 0.05), (4, 0.5), (8, 0.25)])
def test_found_blocks_take_little_memory(d, alpha):
    """Less than three tenths of the vector, even for blocks of one entry; 12 bytes a block would be 0.75 for four."""
    m = 40_000
    x = np.random.default_rng(6).standard_normal(d * m).astype(np.float32)
    found = _core.spherical_search(x, m, alpha, SEED, 4096)
    assert sys.getsizeof(found) < 0.3 * x.nbytes


Gains = st.one_of(
    st.just(0.0),
    st.just(-1.0),
    st.integers(1 << 23, (255 << 23) - 1).map(lambda b: float(np.uint32(b).view(np.float32))),
    st.integers(1, 254).map(lambda e: 2.0 ** (e - 127)),
    st.integers(4 * 120, 4 * 125).map(lambda q: float(np.uint32(q << 21).view(np.float32))),
)
Points = st.one_of(st.integers(0, 2000), st.integers(0, 2**40 - 1), st.integers(0, 39).map(lambda e: 1 << e))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(Gains, Points), min_size=1, max_size=40), st.integers(0, 5), st.booleans())
def test_codes_come_back(blocks, longer, many):
    """Any gains and points, gaps and blocks sent as they are; ``many`` makes a section of norms worth its while."""
    blocks = blocks * (300 if many else 1)
    gain = np.array([g for g, _ in blocks], np.float32)
    index = np.where(gain > 0, np.array([j for _, j in blocks], np.uint64), 0).astype(np.uint64)
    if not gain.any():
        gain[0] = -1.0
    m = len(gain)
    n = 2 * m + min(longer, m - 1)
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    found = _core.SphericalBlocks(index, gain, n)
    assert np.array_equal(found.index, index)
    assert np.array_equal(found.gain, gain)
    data = joined(_core, x, found)
    if m <= 300:
        assert joined(reference, x, reference.SphericalBlocks(index, gain, n)) == data
    for backend in (reference, _core) if m <= 300 else (_core,):
        back, used = backend.decode_spherical(data + b"\1\2", n, m)
        assert used == len(data)
        assert same(back, found)
        values = values_of(backend, back, SEED, n)
        bounds = reference.spherical_code.block_bounds(n, m)
        for b in range(m):
            entries = slice(bounds[b], bounds[b + 1])
            if gain[b] <= 0:
                assert np.array_equal(values[entries], x[entries] if gain[b] == -1 else 0 * x[entries])


@settings(max_examples=400, deadline=None)
@given(st.binary(min_size=0, max_size=60), st.integers(1, 12))
def test_any_bytes_are_refused_or_read_alike(data, m):
    n = 5 * m - 2 if m > 1 else 3
    results = []
    for backend in (reference, _core):
        try:
            found, used = backend.decode_spherical(data, n, m)
        except MessageError:
            results.append(None)
            continue
        values = values_of(backend, found, SEED, n)
        assert np.isfinite(values).all()
        results.append((found.index.tolist(), found.gain.tolist(), values.view(np.uint32).tolist(), used))
    assert results[0] == results[1]


def test_what_makes_no_blocks_is_refused():
    x = np.ones(600, np.float32)
    for m in (0, 2, 601):
        with pytest.raises(ParameterError):
            reference.spherical_search(x, m, 0.5, 0, 256)
        with pytest.raises(ValueError, match="blocks"):
            _core.spherical_search(x, m, 0.5, 0, 256)
    number, one = np.zeros(1, np.uint64), np.ones(1, np.float32)
    for gain in (np.inf, np.nan, -2.0, 1e-40):
        with pytest.raises(ValueError, match="gain"):
            _core.SphericalBlocks(number, np.array([gain], np.float32), 5)
    with pytest.raises(ValueError, match="length"):
        _core.SphericalBlocks(np.zeros(2, np.uint64), one, 5)
    with pytest.raises(ValueError, match="point"):
        _core.SphericalBlocks(np.full(1, 2**40, np.uint64), one, 5)
    with pytest.raises(ValueError, match="blocks"):
        _core.SphericalBlocks(number, one, 257)


def test_blocks_of_another_vector_are_refused():
    x = np.ones(6, np.float32)
    found = _core.SphericalBlocks(np.zeros(1, np.uint64), np.ones(1, np.float32), 5)
    with pytest.raises(ValueError, match="length"):
        _core.encode_spherical(x, found)
    with pytest.raises(ValueError, match="length"):
        _core.add_spherical(found, 0, x, 1.0)
    raw = _core.SphericalBlocks(np.zeros(2, np.uint64), np.array([1, -1], np.float32), 6)
    with pytest.raises(ValueError, match="message"):
        _core.add_spherical(raw, 0, x, 1.0)
    assert (x == 1).all()


# The law of the points. Five standard deviations: a true law fails one check in two million.

PAIRS = 400_000


@pytest.fixture(scope="module", params=[1, 2, 3, 6, 7, 16])
def points(request):
    made = pair_points(SEED, np.arange(PAIRS, dtype=np.uint64), request.param).astype(np.float64) / 16
    # Odd points are the negatives: the law of all points is that of the pairs with a random sign.
    made *= np.where(np.random.default_rng(3).random(PAIRS) < 0.5, -1.0, 1.0)[:, None]
    return made


def test_points_lie_on_the_sphere(points):
    assert np.abs((points**2).sum(1) - 1).max() < 1e-6


def test_pairs_alone_have_no_preferred_side(points):
    """Every orthant equally often (the first eight coordinates), the random signs taken off again."""
    d = min(points.shape[1], 8)
    made = pair_points(SEED + 1, np.arange(PAIRS, dtype=np.uint64), points.shape[1])
    counts = np.bincount((made[:, :d] > 0) @ (1 << np.arange(d)), minlength=2**d)
    expected = PAIRS / 2**d
    chi = ((counts - expected) ** 2 / expected).sum()
    assert chi < 2**d - 1 + 5 * math.sqrt(2 * (2**d - 1)) + 10


def test_moments(points):
    n, d = points.shape
    assert np.abs(points.mean(0)).max() < 5 / math.sqrt(n * d)
    second = points.T @ points / n
    deviation = math.sqrt(1 / (d * (d + 2)) / n) if d > 1 else 1e-6
    assert np.abs(second - np.eye(d) / d).max() < 5 * math.sqrt(2) * deviation


def axes(d: int) -> list[np.ndarray]:
    g = np.random.default_rng(4)
    sparse = np.eye(d)[[0, d // 2, d - 1]]
    diagonal = np.ones((1, d)) / math.sqrt(d)
    random = g.standard_normal((4, d))
    return [*sparse, *diagonal, *(random / np.linalg.norm(random, axis=1, keepdims=True))]


def test_caps_are_hit_as_often_as_theory_says(points):
    """Around the axes of coordinates, which the construction might favour, a diagonal and random centres."""
    n, d = points.shape
    if d == 1:
        return
    for alpha in (0.02, 0.1, 0.25, 0.5, 0.75, 0.95):
        p = 2 ** log2_cap_probability(alpha, d)
        if n * p < 100:
            continue
        for axis in axes(d):
            hits = int((points @ axis >= math.sqrt(1 - alpha)).sum())
            assert abs(hits - n * p) < 5 * math.sqrt(n * p * (1 - p)), (alpha, axis)


def test_angles_of_every_two_coordinates_are_uniform(points):
    n, d = points.shape
    for i, j in [(0, 1), (1, 2), (0, d - 1), (d // 2, d - 1)]:
        if not 0 <= i < j < d:
            continue
        turn = np.arctan2(points[:, j], points[:, i]) / (2 * math.pi) + 0.5
        counts = np.bincount(np.minimum((turn * 256).astype(int), 255), minlength=256)
        chi = ((counts - n / 256) ** 2 / (n / 256)).sum()
        assert abs(chi - 255) < 5 * math.sqrt(2 * 255), (i, j)


def test_neighbouring_points_are_independent(points):
    n, d = points.shape
    for lag in (1, 2, 16):
        product = (points[lag:] * points[:-lag]).sum(1)
        assert abs(product.mean()) < 5 / math.sqrt(n * d), lag
        if d > 1:
            assert abs((product**2).mean() - 1 / d) < 5 * math.sqrt(2) / (d * math.sqrt(n)), lag


def test_a_cap_is_not_what_a_cube_has():
    """The check of caps would catch it: points of a cube put on the sphere."""
    cube = np.random.default_rng(5).uniform(-1, 1, (PAIRS, 6))
    cube /= np.linalg.norm(cube, axis=1, keepdims=True)
    p = 2 ** log2_cap_probability(0.1, 6)
    hits = int((cube @ np.eye(6)[0] >= math.sqrt(0.9)).sum())
    assert abs(hits - PAIRS * p) > 5 * math.sqrt(PAIRS * p)
