"""Messages as they are sealed: bytes joined, floats rounded on the way."""

import numpy as np
import pytest

import gradwire
from gradwire import _core
from gradwire.kernels import Rounded, reference


def patterns(n):
    """Finite floats of every magnitude, and those where binary16 rounds to its largest number."""
    bits = np.random.default_rng(0).integers(0, 2**32, n + n // 50 + 100, dtype=np.uint32)
    x = bits[bits & 0x7F800000 != 0x7F800000].view(np.float32)[:n]
    edges = np.array(
        [0, -0.0, 65504, -65519.996, 65520, 2.0**-24, 2.0**-25, -(2.0**-14), 3.4028235e38, 1e-45], np.float32
    )
    x[: min(n, len(edges))] = edges[:n]
    return x


def halves(x, exponent):
    return reference.encode_bfloat16(x) if exponent is None else reference.encode_float16(x, exponent)


@pytest.mark.parametrize("exponent", [None, -126, -20, 0, 1, 112])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 31, 33, 20_000])
def test_floats_are_rounded_as_the_reference_rounds_them(level, n, exponent):
    x = patterns(n)
    expected = halves(x, exponent)
    got = _core.encode_bfloat16(x) if exponent is None else _core.encode_float16(x, exponent)
    assert got.tobytes() == expected.tobytes()
    parts = [b"gw", Rounded(x, exponent), b"", x[:3].tobytes()]
    body = b"gw" + expected.tobytes() + x[:3].tobytes()
    assert _core.seal(parts) == body + _core.crc32c(body).to_bytes(4, "little")
    if n < 100:
        assert _core.seal(parts) == reference.seal(parts)


@pytest.mark.parametrize("exponent", [None, 3])
def test_long_floats_on_threads(level, exponent):
    x = patterns(1_300_001)  # pieces of several parts, at odd addresses
    body = b"odd" + halves(x, exponent).tobytes()
    expected = body + _core.crc32c(body).to_bytes(4, "little")
    before = gradwire.get_threads()
    try:
        for count in (1, 2, 3):
            gradwire.set_threads(count)
            assert _core.seal([b"odd", Rounded(x, exponent)]) == expected
    finally:
        gradwire.set_threads(before)


@pytest.mark.parametrize("part", [(np.zeros(3, np.float32), 200), (np.zeros(3), None), (np.zeros(3, np.float32),)])
def test_what_cannot_be_rounded_is_refused(part):
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        _core.seal([part])
