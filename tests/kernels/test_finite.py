"""The first entry that is not finite, wherever a vector begins in memory."""

import numpy as np
import pytest

from gradwire import _core


@pytest.mark.parametrize("offset", range(17))
def test_each_entry_counts(level, offset):
    whole = np.full(400, 3.4028235e38, np.float32)
    whole[:offset] = np.nan  # what lies before and behind does not
    for n in (0, 1, 15, 16, 63, 64, 65, 80, 127, 128, 129, 191, 320):
        x = whole[offset : offset + n]
        whole[offset + n :] = -np.inf
        assert _core.find_nonfinite(x) == -1
        for i in range(n):
            x[i] = np.inf if i % 2 else np.nan
            assert _core.find_nonfinite(x) == i
            x[i] = 0.0
        whole[offset + n :] = 0.0


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_the_first_of_a_long_vector(level, offset):
    x = np.zeros(20_000, np.float32)[offset:]
    for last, first in ((19_990, 19_989), (12_345, 4096), (4095, 17)):
        x[[first, last]] = np.nan
        assert _core.find_nonfinite(x) == first
        x[:] = 1.0
