"""The integers section: native at every SIMD level against the reference, near the entropy, and no other bytes."""

import numpy as np
import pytest

from gradwire import _core
from gradwire.errors import MessageError
from gradwire.kernels import reference
from gradwire.wire import Reader

BEST = _core.simd()
LEVELS = ["portable", "avx2", "avx512"][: ["portable", "avx2", "avx512"].index(BEST) + 1]
BLOCK = 1 << 20


@pytest.fixture(autouse=True)
def best_level_afterwards():
    yield
    _core.set_simd(BEST)


@pytest.fixture(params=["reference", "native"])
def backend(request):
    return {"reference": reference, "native": _core}[request.param]


def zigzag(x):
    s = np.rint(x).astype(np.int64)
    return np.where(s < 0, -2 * s - 1, 2 * s).astype(np.uint32)


def entropy_bytes(v):
    counts = np.unique(v, return_counts=True)[1]
    return float(-(counts * np.log2(counts / len(v))).sum()) / 8


DISTRIBUTIONS = {
    "zeros": lambda g, m: np.zeros(m),
    "one number": lambda g, m: np.full(m, 123456789),
    "coin": lambda g, m: g.integers(0, 2, m),
    "p = 1/8": lambda g, m: g.random(m) < 1 / 8,
    "p = 1/64": lambda g, m: g.random(m) < 1 / 64,
    "p = 1e-4": lambda g, m: g.random(m) < 1e-4,
    "far apart": lambda g, m: g.integers(0, 2, m) * (2**32 - 1),
    "geometric 1/2": lambda g, m: g.geometric(0.5, m) - 1,
    "geometric 0.9": lambda g, m: g.geometric(0.9, m) - 1,
    "geometric 0.05": lambda g, m: g.geometric(0.05, m) - 1,
    "uniform 32": lambda g, m: g.integers(0, 32, m),
    "60,000 levels": lambda g, m: g.integers(0, 60000, m),
    "any": lambda g, m: g.integers(0, 2**32, m),
    "all tokens": lambda g, m: 2 ** g.uniform(0, 32, m),
    "gaussian 0.4": lambda g, m: zigzag(g.normal(0, 0.4, m)),
    "gaussian 0.9": lambda g, m: zigzag(g.normal(0, 0.9, m)),
    "gaussian 4": lambda g, m: zigzag(g.normal(0, 4, m)),
    "gaussian 15": lambda g, m: zigzag(g.normal(0, 15, m)),
    "laplace 0.5": lambda g, m: zigzag(g.laplace(0, 0.5, m)),
    "laplace 3": lambda g, m: zigzag(g.laplace(0, 3, m)),
    "student 0.5": lambda g, m: zigzag(0.5 * g.standard_t(3, m)),
    "student 3": lambda g, m: zigzag(3 * g.standard_t(3, m)),
}


def draw(name, m, seed=0):
    return np.asarray(DISTRIBUTIONS[name](np.random.default_rng(seed), m)).astype(np.uint32)


def check_round_trip(backend, section, v):
    back, used = backend.decode_integers(section + b"\xa5", len(v))
    assert back.dtype == np.uint32
    assert used == len(section)
    assert np.array_equal(back, v)


@pytest.mark.parametrize("m", [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 500, 3001, 40000])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_level_writes_the_bytes_of_the_reference_and_reads_them(name, m):
    v = draw(name, m)
    section = reference.encode_integers(v)
    assert (len(section) == 0) == (m == 0)
    if m <= 3001:
        check_round_trip(reference, section, v)
    for level in LEVELS:
        _core.set_simd(level)
        assert _core.encode_integers(v) == section, level
        check_round_trip(_core, section, v)


@pytest.mark.parametrize("m", [0, 1, 63, 64, 65, 500, 4096, 4097, 30000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.016, 0.1, 0.6])
def test_levels_take_the_form_of_the_reference_at_every_share_of_zeros(share, m):
    rng = np.random.default_rng([m, int(1000 * share)])
    for values in (np.ones(m), rng.geometric(0.5, m), rng.integers(1, 2**32, m)):
        v = np.where(rng.random(m) < share, values, 0).astype(np.uint32)
        section = reference.encode_level_numbers(v)
        for level in LEVELS:
            _core.set_simd(level)
            assert _core.encode_level_numbers(v) == section, level
        reader = Reader(memoryview(section), m)
        assert np.array_equal(reader.levels(m), v)


@pytest.mark.parametrize("m", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 77])
@pytest.mark.parametrize("name", ["gaussian 0.9", "60,000 levels", "zeros", "geometric 1/2"])
def test_block_boundaries(name, m):
    v = draw(name, m)
    sections = []
    for level in LEVELS:
        _core.set_simd(level)
        sections.append(_core.encode_integers(v))
        check_round_trip(_core, sections[-1], v)
    assert all(section == sections[0] for section in sections)
    ends = [_core.encode_integers(v[i : i + BLOCK]) for i in range(0, m, BLOCK)]
    assert b"".join(ends) == sections[0]  # blocks stand alone


def test_the_reference_agrees_across_a_block_boundary():
    v = draw("geometric 0.9", BLOCK + 1)
    section = reference.encode_integers(v)
    assert _core.encode_integers(v) == section
    check_round_trip(reference, section, v)


# Without those under 0.1 bits a number (they are sent sparse), and those that no code of numbers by magnitude can suit.
SMOOTH = [
    name for name in DISTRIBUTIONS if name.split()[0] in ("coin", "p", "geometric", "gaussian", "laplace", "student")
]
SMOOTH = [name for name in SMOOTH if name != "p = 1e-4"]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("m", [100_000, 1_500_000])
def test_within_half_a_percent_of_the_entropy(name, m):
    v = draw(name, m, seed=1)
    entropy = entropy_bytes(v)
    assert 8 * entropy / m >= 0.1
    size = len(_core.encode_integers(v))
    assert size <= 1.005 * entropy + 64
    assert size >= 0.9999 * entropy - 8  # else the measure is wrong


@pytest.mark.parametrize(
    ("name", "bits", "percent"),
    [("any", 32, 0.5), ("uniform 32", 5, 0.5), ("60,000 levels", np.log2(60000), 1)],  # the last token is half empty
)
def test_uniform_numbers_cost_what_they_must(name, bits, percent):
    """Most numbers occur once: the entropy of the distribution is the measure, not that of the sample."""
    m = 200_000
    spent = 8 * len(_core.encode_integers(draw(name, m))) / m
    assert 0.999 * bits <= spent <= (1 + percent / 100) * bits


def test_short_messages_do_not_pay_for_lanes():
    assert len(_core.encode_integers(np.zeros(10, np.uint32))) == 3
    assert len(_core.encode_integers(np.array([0, 1, 2, 0, 0, 1, 3, 0, 0, 0], np.uint32))) <= 5
    kinds = {m: _core.encode_integers(draw("uniform 32", m))[0] for m in (100, 1000, 3000, 60000, 120000)}
    assert kinds == {100: 0, 1000: 3, 3000: 4, 60000: 5, 120000: 6}


# What the format forbids


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pack(fields):
    bits = [(value >> i) & 1 for value, width in fields for i in range(width)]
    return np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()


def frequency_bits(frequencies):
    fields = []
    for f in frequencies:
        fields.append((f.bit_length(), 4))
        if f > 1:
            fields.append((f - (1 << (f.bit_length() - 1)), f.bit_length() - 1))
    return pack(fields)


def block(kind=0, frequencies=(2048, 2048), states=(3 * 2**16,), words=(), extra=(0, b""), top=None, **replaced):
    """A rANS block, field by field."""
    fields = {
        "kind": bytes([kind]),
        "top": bytes([len(frequencies) - 1 if top is None else top]),
        "frequencies": frequency_bits(frequencies),
        "words_count": varint(len(words)),
        "extra_count": varint(extra[0]),
        "states": np.array(states, "<u4").tobytes(),
        "words": np.array(words, "<u2").tobytes(),
        "extra": extra[1],
    }
    return b"".join({**fields, **replaced}.values())


# The state after a token of frequency 2048, start 2048·token; two of them fit before a word has to go out.
def one_step(state, token):
    return ((state // 2048) << 12) + state % 2048 + 2048 * token


COIN_STATE = one_step(one_step(2**16, 1), 0)
ZEROS = one_step(one_step(2**16, 0), 0)
COINS = block(states=(COIN_STATE,))
WIDE = block(frequencies=(0,) * 32 + (4096,), states=(2**16,), extra=(6, bytes([0b101_010])))


def test_the_crafted_blocks_are_valid(backend):
    assert backend.decode_integers(COINS, 2)[0].tolist() == [0, 1]
    assert backend.decode_integers(block(states=(ZEROS,)), 2)[0].tolist() == [0, 0]
    assert backend.decode_integers(WIDE, 2)[0].tolist() == [32 + 2, 32 + 5]


FORBIDDEN = {
    "kind 8": (2, bytes([8]) + COINS[1:]),
    "token 140": (2, block(states=(one_step(2**16, 1),), top=140)),
    "sum below 4096": (2, block(frequencies=(2048, 2047), states=(ZEROS,))),
    "sum above 4096": (2, block(frequencies=(2048, 2049), states=(ZEROS,))),
    "top without a frequency": (2, block(frequencies=(2048, 2048, 0), states=(COIN_STATE,))),
    "frequency of 14 bits": (2, bytes([0, 0]) + pack([(14, 4), (0, 13)]) + bytes(10)),
    "frequencies' padding": (2, COINS[:5] + bytes([COINS[5] | 0x80]) + COINS[6:]),
    "state below 2^16": (1, block(states=(1,), words=(0,))),
    "end in another state": (2, block(states=(COIN_STATE + 1,))),
    "end of an unused lane": (1, block(kind=1, states=(one_step(2**16, 1), 2**16 + 1))),
    "single token, other state": (2, block(frequencies=(4096,), states=(2**16 + 1,))),
    "single token, a word": (2, block(frequencies=(4096,), states=(2**16,), words=(7,))),
    "word left over": (2, block(states=(COIN_STATE,), words=(7,))),
    "word missing": (20, COINS),
    "extra bit left over": (2, block(states=(COIN_STATE,), extra=(1, b"\0"))),
    "extra bits short": (3, WIDE),
    "extra bits long": (1, WIDE),
    "extra bits' padding": (2, WIDE[:-1] + bytes([WIDE[-1] | 0x80])),
    "long varint": (2, block(states=(COIN_STATE,), words_count=b"\x80\0")),
    "varint of 2^32": (2, block(states=(COIN_STATE,), words_count=b"\x80\x80\x80\x80\x10")),
    "varint of six bytes": (2, block(words_count=b"\x80\x80\x80\x80\x80\0")),
    "words beyond the end": (2, block(words_count=varint(2**32 - 1))),
    "extra bits beyond the end": (2, block(extra_count=varint(2**32 - 1))),
    "unary padding": (1, bytes([7, 0b10])),
    "unary without an end": (1, bytes([7, 0xFF])),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_format_forbids_raises(backend, name):
    m, data = FORBIDDEN[name]
    for level in LEVELS:
        _core.set_simd(level)
        with pytest.raises(MessageError):
            backend.decode_integers(data, m)


def test_a_unary_number_may_not_reach_2_to_32():
    """2^32 − 1 is the last: an odd sign and 2^31 − 1 ones."""
    data = np.full(1 + (1 << 28) + 2, 0xFF, np.uint8)
    data[0] = 7
    data[-2:] = (0b01, 0)  # the last one and the zero that ends them; a byte behind
    back, used = _core.decode_integers(data, 1)
    assert back.tolist() == [2**32 - 1]
    assert used == len(data) - 1
    data[1] ^= 0b10  # an even sign: 2^32
    with pytest.raises(MessageError, match="reaches"):
        _core.decode_integers(data, 1)


def test_every_truncation_raises(backend):
    for name in ("coin", "gaussian 0.9", "60,000 levels", "all tokens", "geometric 1/2", "far apart", "zeros"):
        for m in (1, 20, 700):
            section = _core.encode_integers(draw(name, m))
            for size in range(len(section)):
                with pytest.raises(MessageError):
                    backend.decode_integers(section[:size], m)


@pytest.mark.parametrize("name", ["gaussian 0.9", "60,000 levels", "coin", "zeros", "geometric 1/2"])
@pytest.mark.parametrize("m", [3, 60, 900])
def test_a_bit_flip_raises_or_gives_numbers_and_all_backends_agree_which(name, m):
    section = _core.encode_integers(draw(name, m))
    bits = np.random.default_rng(0).permutation(8 * len(section))[:400]
    outcomes = {"raises": 0, "numbers": 0}
    for bit in bits.tolist():
        damaged = bytearray(section)
        damaged[bit // 8] ^= 1 << bit % 8
        results = []
        for module, level in [(reference, BEST), *((_core, level) for level in LEVELS)]:
            _core.set_simd(level)
            try:
                back, used = module.decode_integers(bytes(damaged) + b"\0", m)
            except MessageError:
                results.append(None)
            else:
                assert back.dtype == np.uint32
                assert back.shape == (m,)
                results.append((back.tobytes(), used))
        assert all(result == results[0] for result in results)
        outcomes["raises" if results[0] is None else "numbers"] += 1
    if name != "geometric 1/2":
        assert outcomes["raises"] > 0


def test_takes_any_buffer_and_copies_none_of_it(backend):
    v = draw("gaussian 0.9", 100)
    section = _core.encode_integers(v)
    for data in (section, bytearray(section), memoryview(b"xx" + section)[2:]):
        assert np.array_equal(backend.decode_integers(data, 100)[0], v)
