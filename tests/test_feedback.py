"""Error feedback: sent + new residual = input + old residual, and nothing is touched that the caller keeps."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
import torch

import gradwire
from gradwire import feedback

CODECS = ["identity", "topk:k=0.1", "randomk:k=0.1", "rtopk:k=0.1,r=0.3"]
STEPS, N = 30, 200


def integers(step):
    """Vectors whose sums over all steps are exact in float32, whatever the order."""
    return np.random.default_rng(step).integers(-1000, 1000, N).astype(np.float32)


def run(codec, step_function, vectors):
    """Return what was sent in all, and the last residual, both float64."""
    residual, sent = feedback.start(N), np.zeros(N)
    for step, x in enumerate(vectors):
        message, residual = step_function(codec, x, residual, gradwire.Rng(3).child(step))
        sent += gradwire.decode(message, N)
    return sent, residual.astype(np.float64)


def nothing_is_lost(codec, step_function):
    vectors = [integers(step) for step in range(STEPS)]
    sent, residual = run(gradwire.from_spec(codec), step_function, vectors)
    return np.array_equal(sent + residual, np.sum(vectors, axis=0, dtype=np.float64))


@pytest.mark.parametrize("codec", CODECS)
def test_sent_plus_residual_is_the_sum_of_the_inputs_exactly(codec):
    assert nothing_is_lost(codec, feedback.step)


def old_residual_forgotten(codec, x, residual, rng):
    return feedback.step(codec, x, np.zeros_like(x), rng)


def residual_of_the_input_alone(codec, x, residual, rng):
    message, _ = feedback.step(codec, x, residual, rng)
    left = x.copy()
    gradwire.add(message, left, -1.0)
    return message, left


def residual_never_cleared(codec, x, residual, rng):
    message, _ = feedback.step(codec, x, residual, rng)
    return message, x + residual


@pytest.mark.parametrize("wrong", [old_residual_forgotten, residual_of_the_input_alone, residual_never_cleared])
def test_a_wrong_step_is_caught(wrong):
    assert not nothing_is_lost("topk:k=0.1", wrong)


@pytest.mark.parametrize("values", ["float32", "bfloat16", "float16"])
def test_one_step_is_exact_for_every_value_type(values):
    x, old = np.random.default_rng(0).standard_normal((2, N)).astype(np.float32)
    codec = gradwire.TopK(k=0.2, values=values)
    message, new = feedback.step(codec, x, old, 0)
    sent = gradwire.decode(message, N)
    np.testing.assert_array_equal(sent.astype(np.float64) + new, (x + old).astype(np.float64))
    if values == "float32":
        assert np.count_nonzero(new) == N - 40


@pytest.mark.parametrize("codec", CODECS)
def test_arguments_are_left_as_they_are(codec):
    x, residual = integers(0), integers(1)
    before = x.copy(), residual.copy()
    feedback.step(gradwire.from_spec(codec), x, residual, 0)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(residual, before[1])


SPARSIFIERS = [
    "topk:k=0.02",
    "topk:k=1.0",
    "rtopk:k=0.02,r=0.05",
    "rtopk:k=0.1,r=1.0",
    "randomk:k=0.02",
    "randomk:k=0.7",
    "randomk:k=0.3,scale=true",
    "threshold:t=2",
    "threshold:t=0.5,relative_to=max",
    "threshold:t=1,relative_to=none",
]


def by_definition(codec, x, residual, rng):
    total = x + residual
    message = gradwire.encode(codec, total, rng)
    gradwire.add(message, total, -1.0)
    return message, total


def vectors(n):
    """Pairs of vectors whose sums have no ties, many, or little but zeros of either sign."""
    g = np.random.default_rng(n)
    yield g.standard_normal((2, n)).astype(np.float32)
    yield np.round(g.standard_normal((2, n))).astype(np.float32)
    yield np.where(g.random((2, n)) < 0.01, g.standard_normal((2, n)), -0.0).astype(np.float32)


@pytest.mark.parametrize("values", ["float32", "float16", "bfloat16", gradwire.SparseDithering(nu=0.1)])
@pytest.mark.parametrize("spec", SPARSIFIERS)
def test_a_sparsifier_in_one_pass_is_the_definition_bit_for_bit(spec, values):
    codec = dataclasses.replace(gradwire.from_spec(spec), values=values)
    for n in (1, 60, 3000, 20_000):
        for x, residual in vectors(n):
            message, left = by_definition(codec, x, residual, 7)
            for place in ("fresh", "elsewhere", "residual", "x"):
                a, b = x.copy(), residual.copy()
                out = {"fresh": None, "elsewhere": np.full_like(x, 9), "residual": b, "x": a}[place]
                step = feedback.step(codec, a, b, 7, out=out)
                assert step.message == message, (n, place)
                np.testing.assert_array_equal(step.residual.view(np.uint32), left.view(np.uint32))
                assert out is None or step.residual is out
                if place != "x":
                    np.testing.assert_array_equal(a, x)
                if place != "residual":
                    np.testing.assert_array_equal(b, residual)


def test_a_spec_is_taken_as_its_codec_in_one_pass_too(monkeypatch):
    x, residual = np.random.default_rng(2).standard_normal((2, N)).astype(np.float32)
    wanted = feedback.step(gradwire.from_spec("rtopk:k=0.1,r=0.3"), x, residual, 0)
    monkeypatch.setattr(gradwire.RTopK, "encode", None)  # of the long way: the sum first, then its message
    message, left = feedback.step("rtopk:k=0.1,r=0.3", x, residual, 0)
    assert message == wanted.message
    np.testing.assert_array_equal(left, wanted.residual)


@pytest.mark.parametrize(
    "codec", ["topk:k=0.01", "rtopk:k=0.01,r=0.02", "randomk:k=0.01", "threshold:t=3", "sd:nu=0.5"]
)
def test_a_step_with_out_needs_no_second_vector(codec):
    n = 1_000_000
    x, residual = np.random.default_rng(2).standard_normal((2, n)).astype(np.float32)
    out = np.empty_like(x)
    tracemalloc.start()
    feedback.step(gradwire.from_spec(codec), x, residual, 0, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 2


@pytest.mark.parametrize("codec", ["identity", "topk:k=0.1", "sd:nu=0.5"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_out_takes_tensors(codec, dtype):
    codec, x = gradwire.from_spec(codec), torch.from_numpy(np.random.default_rng(1).standard_normal(N)).to(dtype)
    residual = torch.from_numpy(integers(2)) / 1000
    message, left = feedback.step(codec, x, residual, 5)
    for out in (torch.empty(N), residual.clone()):
        again = feedback.step(codec, x, residual if out is not residual else out, 5, out=out)
        assert again.message == message
        assert again.residual is out
        assert torch.equal(out, left)


def test_what_cannot_be_out_is_refused():
    x, memory = np.ones(100, np.float32), np.ones(300, np.float32)
    codec = gradwire.TopK(k=0.1)
    for out in (memory[:99], memory[:200:2], memory[:100].astype(np.float64), memory[:100].reshape(10, 10)):
        with pytest.raises(gradwire.InputError):
            feedback.step(codec, x, x, 0, out=out)
    with pytest.raises(gradwire.InputError, match="overlaps"):
        feedback.step(codec, memory[:100], x, 0, out=memory[50:150])
    with pytest.raises(gradwire.InputError, match="overlaps"):
        feedback.step(codec, x, memory[50:150], 0, out=memory[:100])
    with pytest.raises(gradwire.InputError, match="equal lengths"):
        feedback.step(codec, x[:50], x, 0)
    assert (memory == 1).all()


@pytest.mark.parametrize("codec", [*CODECS, "threshold:t=1", "threshold:t=1,relative_to=none"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_input_that_is_not_finite_leaves_the_residual_good(codec, bad):
    x, residual = integers(0), integers(1)
    x[7] = bad
    for out in (None, np.empty_like(x)):
        with pytest.raises(gradwire.InputError, match=r"x\[7\]"):
            feedback.step(gradwire.from_spec(codec), x, residual, 0, out=out)
    np.testing.assert_array_equal(residual, integers(1))


def test_a_sum_beyond_float32_is_an_input_error():
    largest = np.full(N, np.finfo(np.float32).max)
    with pytest.raises(gradwire.InputError):
        feedback.step(gradwire.TopK(k=0.1), largest, largest, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_tensors_give_the_bits_of_arrays(dtype):
    x = torch.from_numpy(np.random.default_rng(1).standard_normal(N)).to(dtype)
    codec, residual = gradwire.RTopK(k=0.1, r=0.3), torch.from_numpy(integers(2))
    message, left = feedback.step(codec, x, residual, 5)
    as_array = x.to(torch.float64).numpy()
    of_arrays = feedback.step(codec, as_array, residual.numpy(), 5)
    assert message == of_arrays.message
    assert isinstance(left, torch.Tensor)
    assert left.dtype == torch.float32
    np.testing.assert_array_equal(left.numpy(), of_arrays.residual)


def test_top_k_with_feedback_sends_every_entry_in_the_end():
    """A constant input: every entry is sent again and again, though one in ten fits into a message."""
    codec, residual, x = gradwire.TopK(k=0.1), feedback.start(N), np.linspace(1, 2, N, dtype=np.float32)
    sent = np.zeros(N)
    for _ in range(100):
        message, residual = feedback.step(codec, x, residual, 0)
        sent += gradwire.decode(message, N)
    assert (sent > 0).all()
    assert np.abs(sent / 100 - x).max() < 0.3


def test_an_unscaled_random_k_keeps_its_residual_bounded_and_a_scaled_one_does_not():
    x = np.ones(N, np.float32)

    def final_norm(codec):
        residual = feedback.start(N)
        for step in range(200):
            residual = feedback.step(codec, x, residual, step).residual
        return np.linalg.norm(residual.astype(np.float64))

    assert final_norm(gradwire.RandomK(k=0.1)) < 20 * np.sqrt(N)
    assert final_norm(gradwire.RandomK(k=0.1, scale=True)) > 1e6 * np.sqrt(N)
