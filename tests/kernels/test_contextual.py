"""Integers in context: native at every SIMD level against the reference, near the entropy, and no other bytes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire import _core
from gradwire.errors import MessageError
from gradwire.kernels import reference
from gradwire.kernels.reference.context_tables import log2, rounded

BEST = _core.simd()
LEVELS = ["portable", "avx2", "avx512"][: ["portable", "avx2", "avx512"].index(BEST) + 1]
ENTRIES, ESCAPE = 141, 140


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


# What a number may follow from: the generator, and the contexts.
LAWS = {
    "zeros": lambda g, c: np.zeros(len(c)),
    "the context": lambda g, c: c,
    "narrow": lambda g, c: zigzag(g.normal(c / 16, 0.5)),
    "wide": lambda g, c: zigzag(g.normal(0, 40, len(c))),
    "heavy": lambda g, c: zigzag(0.5 * g.standard_t(1.5, len(c))),
    "outliers": lambda g, c: np.where(g.random(len(c)) < 0.01, g.integers(0, 2**32, len(c)), c % 3),
    "any": lambda g, c: g.integers(0, 2**32, len(c)),
}


def drawn(law, m, seed):
    g = np.random.default_rng(seed)
    contexts = g.integers(0, 16, m).astype(np.uint8)
    return LAWS[law](g, contexts).astype(np.uint32), contexts


def escaped(counts, g):
    """Tables for the counts that leave a third of the tokens to the escape."""
    counts = counts.copy()
    for row in counts:
        lost = (g.random(ESCAPE) < 1 / 3) & (row[:ESCAPE] > 0)
        row[ESCAPE] += row[:ESCAPE][lost].sum()
        row[:ESCAPE][lost] = 0
    return _core.normalise_tables(counts)


def on_every_level(call):
    answers = []
    for level in LEVELS:
        _core.set_simd(level)
        answers.append(call())
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("m", [1, 2, 63, 64, 65, 1000, 16383, 16384, 20001])
def test_native_is_the_reference(law, m):
    v, contexts = drawn(law, m, m)
    counts = _core.count_contextual(v, contexts)
    np.testing.assert_array_equal(counts, reference.count_contextual(v, contexts))
    own = escaped(counts, np.random.default_rng(m))
    bits, fitted, sent, cost = _core.fit_tables(counts)
    expected = reference.fit_tables(counts)
    assert (bits, sent, cost) == (expected[0], expected[2], expected[3])
    np.testing.assert_array_equal(fitted, expected[1])
    for c, tables in ((contexts, own), (contexts >> (4 - bits), fitted)):
        section = on_every_level(lambda c=c, tables=tables: _core.encode_contextual(v, c, tables))
        assert reference.encode_contextual(v, c, tables) == section
        for module in (reference, _core):
            for level in LEVELS if module is _core else LEVELS[:1]:
                _core.set_simd(level)
                got, used = module.decode_contextual(section + b"\xa5", c, tables)
                assert used == len(section)
                np.testing.assert_array_equal(got, v)


@given(st.lists(st.integers(0, 2**40), min_size=ENTRIES, max_size=ENTRIES), st.integers(0, 140))
@settings(max_examples=100, deadline=None)
def test_normalising(counts, used):
    row = np.array([counts], np.uint64)
    row[0, used:ESCAPE] = 0
    got = _core.normalise_tables(row)
    np.testing.assert_array_equal(got, reference.normalise_tables(row))
    assert got.sum() == 4096
    assert row.any() == np.array_equal(got > 0, row > 0)  # nothing counted: token 0 has all


def test_nothing_counted_is_token_0(backend):
    assert backend.normalise_tables(np.zeros((2, ENTRIES), np.uint64))[:, 0].tolist() == [4096, 4096]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 9000), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_contexts_are_the_first_bits_of_the_words(seed, stream, n, bits):
    got = _core.dither_contexts(seed, stream, n, bits)
    np.testing.assert_array_equal(got, reference.dither_contexts(seed, stream, n, bits))
    words = reference.philox_words(seed, stream, 0, n)
    assert got.tolist() == [w >> (32 - bits) for w in words.tolist()]


def test_the_integer_logarithm_is_exact():
    """⌊4096·log2 f⌋, by 2^(4096·log2 f) = f^4096 for some, natively for all; no f makes binary64 round across."""
    for f in (2, 3, 5, 7, 4095, *range(11, 4096, 97)):
        assert log2(f) == (f**4096).bit_length() - 1
    counts, tables = np.zeros((1, ENTRIES), np.uint64), np.zeros((1, ENTRIES), np.uint16)
    counts[0, 3] = 1
    for f in range(1, 4097):
        exact = 4096 * math.log2(f)
        assert f & (f - 1) == 0 or abs(exact - round(exact)) > 1e-6
        tables[0, 3], tables[0, 4] = f, 4096 - f
        assert _core.cost_contextual(counts, tables) == 12 * 4096 - log2(f)


@pytest.mark.parametrize("law", LAWS)
def test_costs_are_what_is_sent(law):
    """Within 1 % and the lanes; and the reference counts the same."""
    v, contexts = drawn(law, 100_000, 3)
    counts = _core.count_contextual(v, contexts)
    for tables in (escaped(counts, np.random.default_rng(0)), _core.normalise_tables(counts)):
        cost = _core.cost_contextual(counts, tables)
        assert cost == reference.cost_contextual(counts, tables)
        size = 8 * len(_core.encode_contextual(v, contexts, tables))
        assert 0.99 * cost / 4096 - 64 <= size <= 1.01 * cost / 4096 + 64 * 32 + 64


@pytest.mark.parametrize("law", ["narrow", "heavy", "the context"])
def test_fitted_tables_are_near_the_conditional_entropy(law):
    """For all 16 contexts, of 2^20 numbers: within 0.5 % and 350 bytes, tables and lanes included."""
    v, contexts = drawn(law, 2**20, 4)
    counts = _core.count_contextual(v, contexts)
    bits, tables, sent, _ = _core.fit_tables(counts)
    of = counts[counts > 0]
    total = np.repeat(counts.sum(1), (counts > 0).sum(1))
    extra = sum(int(counts[:, s].sum()) * max(0, (s - 32) // 4 + 3) for s in range(32, ESCAPE))
    entropy = float(-(of * np.log2(of / total)).sum()) + extra
    size = len(sent) + len(_core.encode_contextual(v, contexts >> (4 - bits), tables))
    assert size <= 1.005 * entropy / 8 + 350


def test_fewer_contexts_where_they_tell_nothing():
    """Numbers that do not depend on the context get one table, though 16 would fit a little better."""
    v, contexts = drawn("heavy", 5000, 5)
    counts = _core.count_contextual(v, contexts)
    assert _core.fit_tables(counts)[0] == 0
    v, contexts = drawn("the context", 5000, 5)
    assert _core.fit_tables(_core.count_contextual(v, contexts))[0] == 4


def test_a_lonely_outlier_is_escaped(backend):
    counts = np.zeros((16, ENTRIES), np.uint64)
    counts[:, 0], counts[:, 1] = 1000, 500
    counts[3, 100] = 1
    bits, tables, sent, _ = backend.fit_tables(counts)
    assert tables[3 >> (4 - bits), ESCAPE] > 0
    assert not tables[:, 100].any()
    assert len(sent) < 20


@pytest.mark.parametrize("precision", [1, 2, 5, 11])
def test_weights_are_rounded(precision):
    for f in range(4097):
        w = rounded(f, precision)
        assert abs(w - f) <= f * 2.0 ** -(precision + 1)
        assert w % (1 << max(0, w.bit_length() - 1 - precision)) == 0


def test_tables_come_back(backend):
    for law in LAWS:
        counts = _core.count_contextual(*drawn(law, 3000, 6))
        bits, tables, sent, _ = _core.fit_tables(counts)
        got, used = backend.decode_tables(sent + b"\xff", bits)
        assert used == len(sent)
        np.testing.assert_array_equal(got, tables)
        for size in range(len(sent)):
            with pytest.raises(MessageError):
                backend.decode_tables(sent[:size], bits)


@given(st.binary(max_size=60), st.integers(0, 4))
@settings(max_examples=400, deadline=None)
def test_any_bytes_as_tables(data, bits):
    """Both backends refuse the same bytes, and read the same tables from the others."""
    answers = []
    for module in (_core, reference):
        try:
            tables, used = module.decode_tables(data, bits)
            assert (tables.sum(axis=1, dtype=np.int64) == 4096).all()
            answers.append((used, tables.tolist()))
        except MessageError:
            answers.append(None)
    assert answers[0] == answers[1]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_bytes_as_a_section(data):
    """Damaged sections: both backends refuse the same ones, and read the same numbers from the others."""
    law, m = data.draw(st.sampled_from(list(LAWS))), data.draw(st.integers(1, 200))
    v, contexts = drawn(law, m, m)
    counts = _core.count_contextual(v, contexts)
    tables = escaped(counts, np.random.default_rng(m))
    section = bytearray(_core.encode_contextual(v, contexts, tables))
    for _ in range(data.draw(st.integers(0, 3))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    answers = []
    for module in (_core, reference):
        try:
            got, used = module.decode_contextual(bytes(section), contexts, tables)
            answers.append((used, got.tolist()))
        except MessageError:
            answers.append(None)
    assert answers[0] == answers[1]


def test_an_escaped_number_whose_token_has_a_frequency_is_refused(backend):
    without, knows = np.zeros((1, ENTRIES), np.uint16), np.zeros((1, ENTRIES), np.uint16)
    without[0, [0, 9, ESCAPE]] = knows[0, [0, 5, ESCAPE]] = 4000, 6, 90
    v, contexts = np.array([0, 5, 0], np.uint32), np.zeros(3, np.uint8)
    section = backend.encode_contextual(v, contexts, without)
    assert backend.decode_contextual(section, contexts, without)[0].tolist() == [0, 5, 0]
    with pytest.raises(MessageError, match="escapes a number"):
        backend.decode_contextual(section, contexts, knows)


def test_the_binding_checks_its_arguments():
    v, contexts, tables = np.zeros(3, np.uint32), np.zeros(3, np.uint8), np.zeros((2, ENTRIES), np.uint16)
    tables[:, 0] = 4096
    assert (
        _core.decode_contextual(_core.encode_contextual(v, contexts, tables), contexts, tables)[0].tolist() == [0] * 3
    )
    for arguments, what in (
        ((v, contexts[:2], tables), "one context"),
        ((v, contexts + np.uint8(2), tables), "no table"),
        ((v, contexts, tables[:0]), "1 to 16"),
        ((v, contexts, np.repeat(tables, 9, axis=0)), "1 to 16"),
        ((v, contexts, tables // 2), "4096"),
        ((v, contexts, tables[:, :140].copy()), "141"),
        ((v + np.uint32(7), contexts, tables), "neither a frequency nor an escape"),
    ):
        with pytest.raises(ValueError, match=what):
            _core.encode_contextual(*arguments)
    with pytest.raises(ValueError, match=r"2\^48"):
        _core.normalise_tables(np.full((1, ENTRIES), 2**63, np.uint64))
    with pytest.raises(ValueError, match="0 to 4 bits"):
        _core.dither_contexts(0, 0, 1, 5)
