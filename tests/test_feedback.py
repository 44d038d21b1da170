"""Error feedback: sent + new residual = input + old residual, and nothing is touched that the caller keeps."""

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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_input_that_is_not_finite_leaves_the_residual_good(bad):
    x, residual = integers(0), integers(1)
    x[7] = bad
    with pytest.raises(gradwire.InputError, match="7"):
        feedback.step(gradwire.TopK(k=0.1), x, residual, 0)
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
