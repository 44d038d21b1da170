"""F12: integers that add up under masks, and an overflow budget that is checked before the round."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.common.secure_aggregation.quantization import dequantize, quantize

import gradwire
from gradwire.errors import InputError, ParameterError
from gradwire.flower import AdditiveIntegers


def updates(clients, n=5000):
    return [np.random.default_rng(i).standard_normal(n).astype(np.float32) for i in range(clients)]


def masked(integers, bits):
    """Pairwise masks: each pair shares a seed, one adds the mask and the other subtracts it."""
    out = [q.copy() for q in integers]
    for i in range(len(out)):
        for j in range(i + 1, len(out)):
            words = gradwire.Rng(1000 * i + j).words(2 * len(out[i])).astype(np.uint64)
            mask = (words[0::2] << np.uint64(32) | words[1::2]).astype(out[i].dtype)
            out[i] += mask
            out[j] -= mask
    return out


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_f12_masked_sum_is_the_mean(bits, share):
    xs = updates(10)
    code = AdditiveIntegers.fitted(largest=5.0, clients=10, bits=bits, share=share)
    plain = [code.encode(x, seed=4, rng=i) for i, x in enumerate(xs)]
    hidden = masked(plain, bits)
    assert plain[0].nbytes == len(plain[0]) * bits // 8
    for a, b in zip(plain, hidden, strict=True):
        assert np.mean(a == b) < 0.01, "a masked update shows nothing"
    with np.errstate(over="ignore"):
        total = sum(hidden[1:], start=hidden[0].copy())
    assert np.array_equal(total, sum(plain[1:], start=plain[0].copy()))
    mean = code.mean(total, 10, n=5000, seed=4)
    sent = np.flatnonzero(mean)
    exact = np.mean(xs, axis=0)
    assert len(sent) <= share * 5000
    assert len(sent) > 0.95 * share * 5000
    assert np.abs(mean[sent] - exact[sent]).max() <= code.step + 1e-6


def test_f12_rounding_is_unbiased():
    code = AdditiveIntegers(step=1.0, levels=4, clients=1, bits=8)
    x = np.full(200_000, 0.3, np.float32)
    mean = float(code.mean(code.encode(x, 0, 7), 1, len(x), 0).mean())
    assert mean == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 200_000))


def test_f12_extremes_of_all_clients_do_not_overflow():
    for bits, clients in ((8, 10), (16, 10), (32, 255), (32, 1000)):
        code = AdditiveIntegers.fitted(1.0, clients, bits)
        for sign in (1, -1):
            q = code.encode(np.full(3, sign * 9, np.float32), 0, 0)  # far beyond the largest: clipped
            total = np.zeros_like(q)
            for _ in range(clients):
                total += q
            assert code.mean(total, clients, 3, 0) == pytest.approx([sign] * 3)
        if code.levels < 2**23:  # one level more and it would
            with pytest.raises(ParameterError, match="overflow"):
                AdditiveIntegers(1.0, code.levels + 1, clients, bits)


def test_f12_errors_say_which_parameter_to_change():
    with pytest.raises(ParameterError, match=r"raise bits to 64, or lower levels to 2146, or lower clients to 511"):
        AdditiveIntegers(step=1.0, levels=2**22, clients=1_000_000, bits=32)
    with pytest.raises(ParameterError, match=r"raise bits to 16, or lower clients to 1\b"):
        AdditiveIntegers(step=1.0, levels=100, clients=200, bits=8)


def test_f12_residual_holds_what_was_clipped_or_not_sent():
    x = updates(1)[0] * 3
    code = AdditiveIntegers.fitted(largest=2.0, clients=10, bits=16, share=0.2)
    residual = x - code.mean(code.encode(x, 4, 0), 1, len(x), 4)
    assert np.abs(residual).max() <= np.abs(x).max()
    assert float((residual**2).sum()) < float((x**2).sum())


def test_f12_masks_that_did_not_cancel_are_told():
    code = AdditiveIntegers.fitted(1.0, 10, 32)
    hidden = masked([code.encode(x, 0, i) for i, x in enumerate(updates(3))], 32)
    with pytest.raises(InputError, match="cancelled"):
        code.mean(hidden[0], 1, 5000, 0)
    with pytest.raises(InputError, match="raise clients"):
        code.mean(hidden[0], 11, 5000, 0)


def test_f12_integers_pass_flowers_secagg_quantiser_unchanged():
    """Flower's SecAgg+ quantises floats by itself; with its ranges set to ours that step is the identity."""
    code = AdditiveIntegers.fitted(largest=5.0, clients=10, bits=16)
    q = code.encode(updates(1)[0], 0, 0).view(np.int16).astype(np.float64)
    theirs = quantize([q], clipping_range=code.levels, target_range=2 * code.levels)[0]
    assert np.array_equal(theirs, q.astype(np.int64) + code.levels)
    back = dequantize([theirs], clipping_range=code.levels, target_range=2 * code.levels)[0]
    np.testing.assert_allclose(back, q, atol=1e-9)
