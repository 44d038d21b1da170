"""What the tests of this folder share."""

import pytest

from gradwire import _core

BEST = _core.simd()


@pytest.fixture(params=("portable", "avx2", "avx512"))
def level(request):
    """The kernels on one instruction set after the other."""
    _core.set_simd(request.param)
    if _core.simd() != request.param:
        pytest.skip("not on this processor")
    yield request.param
    _core.set_simd(BEST)
