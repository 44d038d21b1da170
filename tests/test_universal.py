"""The universal dithered code: the same error for every vector, and bits near the limit on the worst of them."""

import math
import zlib

import numpy as np
import pytest

import gradwire
from gradwire import kernels
from gradwire.codecs.dither_models import COMPUTED, FITTED, LEVELS, Dithered, add_dithered, write_shortest
from gradwire.codecs.gaussian_tables import _exp_minus, gaussian_tables, most_bits
from gradwire.codecs.ud import UniversalDithering
from gradwire.errors import MessageError, ParameterError
from gradwire.theory.bounds import saving, universal_dithering_rate
from gradwire.wire import Reader, Writer, seal_frame

D = 100_000
G = np.random.default_rng(7)


def outliers(share, size):
    """Gaussian but for a share of entries of that size, which the computed model expects far less often."""
    rest = math.sqrt(1 - share * size * size) * G.standard_normal(D)
    return np.where(G.random(D) < share, size * np.sign(rest), rest)


VECTORS = {
    "gaussian": G.standard_normal(D),
    "laplace": G.laplace(size=D),
    "student 3": G.standard_t(3, D),
    "student 1.5": G.standard_t(1.5, D),
    "uniform": G.random(D) - 0.5,
    "10 % sparse": np.where(G.random(D) < 0.1, G.standard_normal(D), 0),
    "0.1 % sparse": np.where(G.random(D) < 0.001, G.standard_normal(D), 0),
    "constant": np.full(D, 0.1),
    "signs": np.sign(G.standard_normal(D)),
    "17 % zeros": np.where(G.random(D) < 0.17, 0, np.sign(G.standard_normal(D))),
    "mid-points": np.floor(1.5 * G.standard_normal(D)) + 0.5,
    "one huge": np.where(np.arange(D) == 5, 1e4, G.standard_normal(D)),
    # Where the fitted model just does not pay.
    "outliers 4.5": outliers(1e-3, 4.5),
    "outliers 5.5": outliers(3e-4, 5.5),
    "more outliers 5.5": outliers(1e-3, 5.5),
    "outliers 6.5": outliers(2e-4, 6.5),
    "outliers 8": outliers(2e-4, 8),
}
MODELS = {"gaussian": "computed", "student 3": "fitted", "10 % sparse": "fitted", "0.1 % sparse": "levels"}


def sent(codec, x, seed=0):
    """Message, NMSE and bits a coordinate of one vector."""
    x = x.astype(np.float32)
    message = gradwire.encode(codec, x, seed)
    error = gradwire.decode(message, len(x)).astype(np.float64) - x
    return message, (error @ error) / (x.astype(np.float64) @ x), 8 * len(message) / len(x)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize(
    ("omega", "most", "least_saving"), [(1 / 9, 1.93, None), (0.25, 1.43, 17.8), (1.0, 0.78, 20.5)]
)
def test_error_and_bits_on_every_vector(omega, most, least_saving, name):
    codec = UniversalDithering(omega)
    message, error, bits = sent(codec, VECTORS[name])
    assert abs(error / omega - 1) <= 0.01
    assert bits <= most
    assert len(message) <= codec.guarantee(D).max_bytes
    if least_saving is not None:
        assert saving(omega, bits) >= least_saving
    if name in MODELS:
        assert gradwire.inspect(message).details["model"] == MODELS[name]


def test_the_gaussian_costs_what_theory_says():
    """Mean of ten messages: 0.010 bits a coordinate above the rate, all overhead included."""
    for omega in (1 / 9, 0.25, 1.0):
        bits = np.mean([sent(UniversalDithering(omega), VECTORS["gaussian"], seed)[2] for seed in range(10)])
        assert bits <= universal_dithering_rate(omega) + 0.010


def test_contractive_at_a_tenth():
    codec = UniversalDithering(omega=1 / 9, contractive=True)
    guarantee = codec.guarantee(D)
    assert not guarantee.unbiased
    assert guarantee.error == pytest.approx(0.1)
    _, error, bits = sent(codec, VECTORS["gaussian"])
    assert abs(error - 0.1) < 0.001
    assert bits <= 1.93


@pytest.mark.parametrize("omega", [1e-7, 1e-4, 0.01, 30.0, 1e6])
def test_far_ends(omega):
    codec = UniversalDithering(omega)
    for name in ("gaussian", "10 % sparse", "one huge"):
        message, error, _ = sent(codec, VECTORS[name])
        assert abs(error / omega - 1) <= 0.02
        assert len(message) <= codec.guarantee(D).max_bytes
    assert sent(codec, VECTORS["gaussian"])[2] <= universal_dithering_rate(omega) + 0.03


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 4096, 4097, 20_000])
def test_short_vectors_cost_no_more_than_a_levels_section(n):
    """Up to 4096 entries all forms are tried; so the message is no longer than Sparse Dithering's, but for a byte."""
    x = VECTORS["gaussian"][:n].astype(np.float32)
    for omega in (0.25, 1.0):
        size = len(gradwire.encode(UniversalDithering(omega), x, 3))
        assert size <= 1 + len(gradwire.encode(gradwire.SparseDithering(nu=3 * omega, rounding="shared"), x, 3))


def test_exp():
    t = np.concatenate([np.linspace(0, 15.99, 20_001), [16.0, 17.0, 1e9]])
    assert np.abs(_exp_minus(t[:-3]) * np.exp(t[:-3]) - 1).max() < 1e-6
    assert not _exp_minus(t[-3:]).any()


@pytest.mark.parametrize("a", [2.0**-12, 0.01, 0.3, 1.0, 1.549, 2.449, 3.464, 4.0])
def test_computed_tables_are_the_gaussian(a):
    """Every token's frequency against its probability, within rounding; rows mirror each other as U and −U do."""
    tables = gaussian_tables(float(np.float32(a)))
    assert (tables.sum(axis=1) == 4096).all()
    assert (tables[:, 140] >= 1).all()
    reach = math.ceil(6 / a)
    k = np.arange(-reach, reach + 1)
    zigzag = np.where(k < 0, -2 * k - 1, 2 * k).astype(np.uint32)
    for j in (0, 5, 8, 15):
        law = np.exp(-0.5 * (a * (k - ((2 * j + 1) / 32 - 0.5))) ** 2)
        law /= law.sum()
        tokens = kernels.count_contextual(zigzag, np.zeros(len(k), np.uint8))  # to learn which token a number has
        probability = np.zeros(141)
        edges = np.flatnonzero(tokens[0])
        order = np.argsort(zigzag)
        ends = np.cumsum(tokens[0][edges]).astype(int)
        probability[edges] = np.add.reduceat(law[order], np.concatenate([[0], ends[:-1]]))
        difference = np.abs(tables[j] - 4096 * probability)
        assert (difference[:140] <= 1.2 + 0.03 * 4096 * probability[:140]).all()
    narrow = a > 0.5
    if narrow:  # k becomes −k: the zigzag numbers 2k and 2k − 1 change places
        assert np.abs(tables[:, 1:31:2].astype(int) - tables[::-1, 2:32:2]).max() <= 1


def test_computed_tables_are_pinned():
    """The same on every machine, for ever: messages hold one number in their place."""
    a = [float(np.float32(v)) for v in (2.0**-12, 0.05, 1.1, 1.5491934, 3.4641016, 4.0)]
    pinned = [3176537100, 3504350983, 3025249098, 2012957868, 2438092375, 2734957459]
    assert [zlib.crc32(gaussian_tables(v).astype("<u2").tobytes()) for v in a] == pinned


def test_messages_of_the_computed_model_are_pinned():
    """What golden vectors are for the other models, whose inputs are all far from a Gaussian."""
    u = gradwire.Rng(1).uniform(12_000).reshape(4, 3000)
    x = (u[0] - u[1]) + (u[2] - u[3])
    seen = []
    for omega in (1 / 9, 0.25, 1.0):
        message = gradwire.encode(UniversalDithering(omega), x, 2)
        assert gradwire.inspect(message).details["model"] == "computed"
        seen.append((zlib.crc32(message), zlib.crc32(gradwire.decode(message, 3000).astype("<f4").tobytes())))
    assert seen == [(1362774568, 1844786540), (3458061338, 453570429), (37872130, 2426297897)]


def test_bits_are_bounded_by_the_mean_square():
    """most_bits holds for laws that are as bad for the tables as can be: all z² at one place, or at two."""
    g = np.random.default_rng(8)
    for a in (0.3, 1.549, 2.449):
        tables = gaussian_tables(a)
        for _ in range(60):
            n, seed = 3000, int(g.integers(2**60))
            k = g.choice(np.rint(g.normal(0, 6 / a, 3)), n, p=g.dirichlet([0.3] * 3)).astype(np.int64)
            zigzag = np.where(k < 0, -2 * k - 1, 2 * k).astype(np.uint32)
            u = kernels.uniform(seed, 0, 0, n).astype(np.float64) - 0.5
            counts = kernels.count_contextual(zigzag, kernels.dither_contexts(seed, 0, n, 4))
            bits = kernels.cost_contextual(counts, tables) / 4096
            assert bits <= n * most_bits(a, float(np.mean((a * (k - u)) ** 2)))


def test_a_form_beyond_the_unary_bound_gives_way_to_levels(monkeypatch):
    """The guarantee rests on it: long vectors try a levels section where both models would pass its bound."""
    tried = []
    levels = Writer.levels
    monkeypatch.setattr(Writer, "levels", lambda self, zigzag: (tried.append(len(zigzag)), levels(self, zigzag)))
    x = np.random.default_rng(0).uniform(-15, 15, 5000).astype(np.float32)  # close to five bits a level
    write_shortest(Dithered(x, 1.0, 1), 1.5, unary=6.0 * 5000)
    assert tried == []
    write_shortest(Dithered(x, 1.0, 1), 1.5, unary=4.0 * 5000)
    assert tried == [5000]


def test_parameters():
    for omega in (0, -1, 1e-8, 1e7, math.nan, True, "1"):
        with pytest.raises(ParameterError, match="omega"):
            UniversalDithering(omega)
    with pytest.raises(ParameterError, match="contractive"):
        UniversalDithering(0.25, contractive=1)
    with pytest.raises(ParameterError, match="too small"):
        UniversalDithering(1e-7).check(2**31)
    assert gradwire.from_spec("ud:omega=1") == UniversalDithering(1)


def message_of(payload, n):
    writer = Writer()
    writer.raw(payload)
    return seal_frame(UniversalDithering.code, n, writer)


def test_what_is_not_allowed():
    x = VECTORS["gaussian"][:3000].astype(np.float32)
    message = gradwire.encode(UniversalDithering(0.25), x, 0)
    payload = bytearray(message[6:-4])
    assert payload[0] == COMPUTED
    assert len(gradwire.decode(message_of(payload, 3000), 3000)) == 3000

    def refused(changed, what):
        with pytest.raises(MessageError, match=what):
            gradwire.decode(message_of(bytes(changed), 3000), 3000)

    for model in (3, 15, 16, 18, 0x51, 0x81):
        refused([model, *payload[1:]], "model")
    for a in (2.0**-13, 4.5, -1.0):
        head = Writer()
        head.f32(a)
        refused(payload[:14] + head.data + payload[18:], "spacing")
    refused(payload[:2] + b"\0\0\0\0", "no step")
    refused(payload[:2] + b"\0\0\0\x80" + payload[6:], "negative")
    zero = gradwire.encode(UniversalDithering(0.25), np.zeros(3000, np.float32), 0)
    assert bytes(zero[6:-4]) == bytes([LEVELS, 0, 0, 0, 0, 0])


def test_a_decoder_reads_every_form():
    """Whatever the encoder would choose: the same levels from all three models, and from every number of contexts."""
    n, seed, a = 3000, 11, float(np.float32(1.549))
    zigzag = np.random.default_rng(1).geometric(0.6, n).astype(np.uint32) - np.uint32(1)
    contexts = kernels.dither_contexts(seed, 0, n, 4)
    forms = {COMPUTED: Writer(), LEVELS: Writer()}
    forms[COMPUTED].f32(a)
    forms[COMPUTED].contextual(zigzag, contexts, gaussian_tables(a))
    forms[LEVELS].levels(zigzag)
    for bits in range(5):
        # Counts so unlike each other that so many contexts pay.
        of = contexts >> (4 - bits) if bits < 4 else contexts
        counts = kernels.count_contextual((zigzag % 7 + 3 * (of % 2)).astype(np.uint32), contexts)
        counts[:, :20] += 1
        counts[:, :20] += (10_000 * (np.arange(20) == of.max() - (np.arange(16) >> (4 - bits))[:, None])).astype(
            np.uint64
        )
        chosen, tables, sent_tables, _ = kernels.fit_tables(counts)
        assert chosen == bits
        form = forms[FITTED | bits << 4] = Writer()
        form.raw(sent_tables)
        form.contextual(zigzag, of, tables)
    for model, form in forms.items():
        reader = Reader(form.data, n)
        got = np.zeros(n, np.float32)
        add_dithered(reader, got, model, seed, (0.5, 2.0, -3.0))
        expected = np.zeros(n, np.float32)
        kernels.add_dequantised(expected, zigzag, 0.5, 2.0, -3.0, True, seed)
        np.testing.assert_array_equal(got, expected)
