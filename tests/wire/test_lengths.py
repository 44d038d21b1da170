"""The bounds on sections, against sections of many kinds of content, hard ones for the coder among them."""

import numpy as np
import pytest

from gradwire import kernels
from gradwire.wire import Writer, seal_frame
from gradwire.wire.lengths import indices_bytes, integers_bytes, levels_bytes

RARE = 1.49 / 4096  # a token of this share gets one slot of 4096: the most that rounding frequencies can cost


def contents(g, m, most):
    yield g.integers(0, most + 1, m)
    yield np.minimum(g.geometric(min(1, 3 / (3 + most)), m) - 1, most)
    yield g.choice(most + 1, m, p=g.dirichlet(np.full(most + 1, 0.1)))
    yield np.where(g.random(m) < RARE, most, 0)
    p = np.full(min(most, 1000) + 1, RARE)
    p[0] += 1 - p.sum()
    yield g.choice(len(p), m, p=p)
    yield np.full(m, most)


def test_integers_and_indices_are_within_their_bounds():
    g = np.random.default_rng(0)
    tightest = np.inf
    for _ in range(300):
        m, most = int(np.exp(g.uniform(0, 11))), int(np.exp(g.uniform(0, 8)))
        for v in contents(g, m, most):
            v = v.astype(np.uint32)
            size = len(kernels.encode_integers(v))
            for bound in (integers_bytes(m, most), integers_bytes(m, most, int(v.sum()))):
                assert size <= bound, (m, most)
                tightest = min(tightest, bound / size)
        k = int(g.integers(1, m + 1))
        indices = np.sort(g.permutation(m)[:k]).astype(np.uint32)
        size = len(kernels.encode_indices(indices, m))
        # Of at most twice as many as well: the bound is over all counts.
        assert size <= min(indices_bytes(m, k), indices_bytes(m, min(m, 2 * k)), indices_bytes(m, m)), (m, k)
    assert tightest < 1.05


@pytest.mark.parametrize("most", [0, 1, 2, 31, 32, 33, 200, 2**20, 2**32 - 1])
def test_bounds_never_fall_with_length(most):
    sizes = [integers_bytes(m, most) for m in [*range(300), *range(2**20 - 3, 2**20 + 4), 10**7]]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0


def test_levels_of_both_forms_are_within_their_bound():
    g = np.random.default_rng(1)
    for m in (1, 10, 63, 64, 1000, 4097, 50_000):
        for share in (0, 0.001, 0.01, 0.02, 0.3, 1):
            for most in (1, 5, 278):
                levels = g.integers(-most, most + 1, m) * (g.random(m) < share)
                writer = Writer()
                writer.levels(np.where(levels > 0, 2 * levels, -2 * levels - (levels < 0)).astype(np.uint32))
                size = len(seal_frame(1, 0, writer)) - 9
                assert size <= levels_bytes(m, most), (m, share, most)
                assert size <= levels_bytes(m, most, int(np.abs(levels).sum())), (m, share, most)
