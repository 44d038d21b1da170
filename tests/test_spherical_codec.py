"""What the theory says of Spherical Compression: error always, bits and draws in the mean."""

import math

import numpy as np
import pytest

import gradwire
from gradwire import Spherical
from gradwire.codecs.spherical import about_draws, automatic_block
from gradwire.errors import MessageError, ParameterError
from gradwire.theory import log2_cap_probability
from gradwire.wire.writer import varint_length
from laws import reseal

SETTINGS = [(0.5, 16), (0.25, 8), (0.1, 6)]


def details(codec, x, seed):
    return gradwire.inspect(gradwire.encode(codec, x, seed)).details


@pytest.mark.parametrize(("alpha", "block"), SETTINGS)
@pytest.mark.parametrize(
    ("family", "m", "seeds"), [("normal", 6000, 40), ("constant", 48, 1200), ("one entry", 2, 1800)]
)
def test_bits_and_draws_are_those_of_the_theorem(alpha, block, family, m, seeds):
    """Means over seeds; what the blocks of one message have in common shows in the spread over them.

    Blocks with the same single entry share their pair: of those a message has only two.
    """
    x = np.random.default_rng(0).standard_normal((m, block)).astype(np.float32)
    if family == "constant":
        x[:] = 0.25
    if family == "one entry":
        x[:] = 0.0
        x[:, block // 2] = -3.0
    seen = [details(Spherical(alpha, block), x.ravel(), s) for s in range(seeds)]
    bits = np.array([d["index_bits"] / m for d in seen])
    draws = np.array([d["mean_draws"] for d in seen])
    log_p = log2_cap_probability(alpha, block)
    assert all(d["searched"] == m for d in seen)
    bits_error, draws_error = bits.std() / math.sqrt(seeds), draws.std() / math.sqrt(seeds)
    assert bits.mean() + bits_error <= -log_p + 1.6
    assert abs(draws.mean() - (2**-log_p - 0.5)) <= 4.5 * draws_error
    assert draws_error < 0.05 * 2**-log_p, "the check above would let a wrong number through"


def test_draws_of_one_block_are_geometric():
    """T of one block over seeds: chi-square against P(pair) = 2P, and a fair coin within the pair."""
    alpha, block, runs = 0.3, 5, 6000
    x = np.random.default_rng(1).standard_normal(block).astype(np.float32)
    t = np.array([details(Spherical(alpha, block), x, s)["mean_draws"] for s in range(runs)]) - 1
    p = 2 * 2 ** log2_cap_probability(alpha, block)
    tail = (1 - p) ** np.floor(t / 2)  # P(K > k); with a jitter inside the step it is uniform
    jitter = np.random.default_rng(2).random(runs)
    counts = np.bincount((16 * tail * (1 - p * jitter)).astype(int), minlength=16)
    chi = ((counts - runs / 16) ** 2 / (runs / 16)).sum()
    assert chi < 15 + 5 * math.sqrt(30)
    assert abs((t % 2).mean() - 0.5) < 5 * 0.5 / math.sqrt(runs)


def adversaries(n):
    g = np.random.default_rng(3)
    normal = g.standard_normal(n)
    yield "normal", normal
    yield "heavy", g.standard_t(1.1, n)
    yield "heaviest", np.exp(12 * normal)
    yield "sparse", np.where(g.random(n) < 0.1, normal, 0)
    yield "constant", np.full(n, -1.0)
    yield "alternating", np.where(np.arange(n) % 2, 1.0, -1.0)
    yield "two scales", np.where(g.random(n) < 0.2, 1e6 * normal, normal)
    yield "huge", np.sign(normal) * 3.4e38
    yield "huge and tiny", np.where(normal > 0, 3.4e38, 1e-42)
    yield "denormal", 1e-45 * np.round(3 * normal)
    yield "near denormal", 1e-38 * normal
    yield "at the limit of denormals", 2.0**-112 * np.exp2(np.arange(n) % 9 - 6) * np.sign(normal)
    yield "ramp", np.exp2(np.arange(n) % 250 - 125)
    yield "last", np.where(np.arange(n) == n - 1, 1e-3, 0)


@pytest.mark.parametrize(
    ("alpha", "block"), [*SETTINGS, (0.9, 40), (0.999, 256), (0.98, 250), (0.02, 3), (0.001, 2), (2**-12, 2), (0.3, 1)]
)
def test_error_is_within_alpha_on_every_block(alpha, block):
    for n in (block, 1, 3 * block + 1, 40 * block - 1):
        for name, x in adversaries(n):
            x = x.astype(np.float32)
            y = gradwire.decode(gradwire.encode(Spherical(alpha, block), x, n), n)
            m = -(-n // block)
            starts = np.arange(m) * (n // m) + np.minimum(np.arange(m), n % m)
            x64 = x.astype(np.float64)
            error = np.add.reduceat((y - x64) ** 2, starts)
            energy = np.add.reduceat(x64**2, starts)
            assert (error <= alpha * energy).all(), (name, n, (error / energy).max())
            assert not y[np.repeat(energy == 0, np.diff([*starts, n]))].any(), name


def test_blocks_of_zeros_cost_next_to_nothing():
    x = np.zeros(96_000, np.float32)
    x[:960] = np.random.default_rng(4).standard_normal(960)
    seen = gradwire.inspect(gradwire.encode(Spherical(0.5, 16), x, 0))
    assert seen.details["zeros"] == 5940
    assert 8 * seen.bytes < 60 * 18 + 800
    assert len(gradwire.encode(Spherical(0.5, 16), np.zeros(100, np.float32), 0)) == 10


def test_equal_blocks_find_different_points():
    x = np.tile(np.array([1, 2, 3, 4, 5, 6], np.float32), 64)
    y = gradwire.decode(gradwire.encode(Spherical(0.1, 6), x, 0), len(x)).reshape(64, 6)
    assert len(np.unique(y, axis=0)) > 24
    assert np.abs(y.mean(0) - x[:6]).max() < 0.6 * math.sqrt(0.1) * np.linalg.norm(x[:6])


def test_short_messages_are_short():
    """One block of 14 at α = 0.15: 22.5 bits of index, norm, seed and head in 10 bytes of payload or fewer."""
    x = np.random.default_rng(5).standard_normal(14).astype(np.float32)
    sizes = [gradwire.inspect(gradwire.encode(Spherical(0.15, 14), x, s)).payload_bytes for s in range(10)]
    assert np.mean(sizes) <= 10


def test_blocks_differ_by_one_entry_at_most():
    x = np.random.default_rng(6).standard_normal(14).astype(np.float32)
    seen = details(Spherical(0.5, 10), x, 0)
    assert (seen["block"], seen["blocks"]) == (10, 2)
    assert seen["mean_draws"] < 20 * about_draws(0.5, 7)


def test_details_add_up():
    x = np.random.default_rng(7).standard_normal(10_000).astype(np.float32)
    x[:50] = 0
    x[50:60] *= np.float32(1e-40)
    for n in (60, 10_000):
        seen = gradwire.inspect(gradwire.encode(Spherical(0.3, 10), x[:n], 0))
        d = seen.details
        assert d["searched"] + d["zeros"] + d["raw"] == d["blocks"] == n // 10
        assert (d["zeros"], d["raw"]) == (5, 1)
        assert d["index_bits"] + d["other_bits"] == 8 * (seen.payload_bytes - 1 - varint_length(d["seed"]))
        assert d["seed"] < (2**14 if n == 60 else 2**28)


def test_error_does_not_depend_on_the_scale():
    """Scaled by a power of two, the same points are found and the error is the same to the last bit."""
    x = np.random.default_rng(8).standard_normal(600).astype(np.float32)
    first = gradwire.decode(gradwire.encode(Spherical(0.1, 6), x, 0), 600)
    for e in (-90, -1, 100, 120):
        scale = np.float32(2.0**e)
        y = gradwire.decode(gradwire.encode(Spherical(0.1, 6), x * scale, 0), 600)
        assert np.array_equal(y, first * scale)


def test_the_budget_names_a_block_that_fits():
    x = np.ones(1000, np.float32)
    with pytest.raises(ParameterError, match=r"take block = \d+") as caught:
        gradwire.encode(Spherical(0.1, 30), x, 0)
    block = int(str(caught.value).rsplit(" ", 1)[1])
    Spherical(0.1, block).check(1000)
    with pytest.raises(ParameterError):
        Spherical(0.1, block + 1).check(1000)
    with pytest.raises(ParameterError, match="split the vector"):
        gradwire.encode(Spherical(0.1, 6, budget=1000), x, 0)
    with pytest.raises(ParameterError):
        Spherical(0.1, 30).guarantee(1000)
    assert gradwire.decode(gradwire.encode(Spherical(0.1, 30), x[:0], 0), 0).size == 0


@pytest.mark.parametrize(
    "fields", [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": 1e-5}, {"alpha": "0.1"}, {"alpha": True}, {"alpha": math.nan}]
    + [{"alpha": 0.1, "block": b} for b in (-1, 257, 2.0, True)]
    + [{"alpha": 0.1, "budget": b} for b in (0, 1.5, 2**64)],
)  # fmt: skip
def test_parameters_out_of_range(fields):
    with pytest.raises(ParameterError, match=list(fields)[-1]):
        Spherical(**fields)


def test_the_automatic_block():
    assert [automatic_block(a) for a in (0.001, 0.1, 0.25, 0.5, 0.999)] == [2, 6, 9, 17, 256]
    for alpha in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9):
        d = automatic_block(alpha)
        assert 2 ** -log2_cap_probability(alpha, d) < 1.7 * 2048
        assert 2 ** -log2_cap_probability(alpha, d + 1) > 0.8 * 2048


def test_the_estimate_of_draws_is_near():
    for alpha in (2**-12, 0.01, 0.1, 0.3, 0.5, 0.75, 0.9, 0.99, 0.999):
        for d in (2, 3, 4, 8, 16, 64, 256):
            if about_draws(alpha, d) < 2**39:
                assert 0.5 < about_draws(alpha, d) * 2 ** log2_cap_probability(alpha, d) < 1.2, (alpha, d)


def test_a_block_length_beyond_256_is_refused():
    body = b"gw\x01\x0e\x0a" + b"\x81\x02" + bytes(8)
    with pytest.raises(MessageError, match="257"):
        gradwire.decode(reseal(body), 10)


def test_claims_cost_neither_time_nor_memory():
    """A short message for 10^6 entries: refused at once."""
    for head in (0x00, 0x1F, 0x20, 0x40, 0x60, 0xE0):
        for rest in (bytes(3), b"\xff" * 40, b"\x01" * 40):
            body = b"gw\x01\x0e\xc0\x84\x3d" + bytes([1, 5, head, 127]) + rest
            with pytest.raises(MessageError):
                gradwire.decode(reseal(body), 1_000_000)
