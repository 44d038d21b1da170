"""Bytes that nobody encoded: random payloads, spliced messages, and claims that would cost memory or time."""

import resource
import time

import numpy as np
import pytest

import gradwire
from examples import EXAMPLES
from gradwire.codecs import BY_CODE
from gradwire.errors import MessageError
from gradwire.wire import Writer, seal_frame


def survive(message: bytes, n: int) -> bool:
    """Whether the message was taken; a MessageError is as good, anything else fails the test."""
    out = np.full(n, 0.25, np.float32)
    try:
        gradwire.add(message, out)
    except MessageError:
        assert np.all(out == 0.25)
        return False
    assert np.isfinite(gradwire.decode(message, n)).all()
    return True


def sealed(code: int, n: int, payload: bytes) -> bytes:
    w = Writer()
    w.raw(payload)
    return seal_frame(code, n, w)


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_random_payloads(code):
    g = np.random.default_rng(code)
    for size in (0, 1, 2, 5, 9, 14, 30, 100):
        for _ in range(300):
            survive(sealed(code, 20, g.integers(0, 256, size, np.uint8).tobytes()), 20)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_spliced_and_mutated_messages(spec):
    """Heads of one message with tails of another, and messages with several bytes changed, under valid checksums."""
    g = np.random.default_rng(1)
    n = 2000
    vectors = (g.standard_normal(n), g.standard_t(1.5, n), np.where(g.random(n) < 0.02, 1.0, 0.0))
    bodies = [gradwire.encode(spec, x.astype(np.float32), s)[6:-4] for s, x in enumerate(vectors)]
    code = gradwire.from_spec(spec).code
    for _ in range(150):
        first, second = (bodies[i] for i in g.integers(0, 3, 2))
        survive(sealed(code, n, first[: g.integers(len(first))] + second[g.integers(len(second)) :]), n)
        body = bytearray(first)
        for at in g.integers(0, len(body), 3):
            body[at] = g.integers(256)
        survive(sealed(code, n, bytes(body)), n)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_another_codec_s_payload(spec):
    x = np.linspace(-1, 1, 50).astype(np.float32)
    body = gradwire.encode(spec, x, 0)[5:-4]
    for code in BY_CODE:
        survive(sealed(code, 50, body), 50)


def test_a_small_message_costs_no_memory_and_no_time():
    """Claims of 2^32 − 1 entries in every varint's place: the receiver's n bounds what is allocated."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    claim = b"\xff\xff\xff\xff\x0f"
    for code in BY_CODE:
        for size in range(12):
            for tail in (b"", bytes(40), b"\xff" * 40):
                survive(sealed(code, 100, bytes(size) + claim + tail), 100)
                survive(sealed(code, 100, claim * 3 + bytes(size) + tail), 100)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert time.monotonic() - start < 60


def test_nesting_ends():
    """A values section inside a values section inside …: refused at the first codec that may not stand there."""
    payload = b""
    for _ in range(10_000):
        payload = b"\x01\x00\x01" + bytes([2]) + payload
    with pytest.raises(MessageError):
        gradwire.decode(sealed(2, 1, payload), 1)
