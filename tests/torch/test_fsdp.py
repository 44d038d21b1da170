"""The FSDP2 hook on real gloo processes and a CPU mesh."""

import pytest

import fsdp_jobs as jobs
from gloo_ranks import GlooRanks


@pytest.fixture(scope="module")
def four():
    ranks = GlooRanks(4)
    yield ranks
    ranks.close()


def only(results):
    """What all ranks agree on."""
    assert all(result == results[0] for result in results), results
    return results[0]


@pytest.mark.parametrize("kind", ["1d", "replicas"])
@pytest.mark.parametrize("nested", [True, False], ids=["layer by layer", "as one"])
@pytest.mark.parametrize("make", ["net", "unused"])
def test_dense_messages_give_the_gradients_of_fsdp(four, kind, nested, make):
    for worst, seen, sent in four.run(jobs.dense_gradients, kind, nested, make, "float32"):
        assert worst < 1e-6
        assert seen == 12
        assert sent


def test_d8_float16_reduction_is_summed_in_float32(four):
    for worst, seen, _ in four.run(jobs.dense_gradients, "1d", True, "net", "float16"):
        assert worst < 2e-3
        assert seen == 12


@pytest.mark.parametrize(
    ("kind", "codec"), [("1d", "rtopk:k=0.05,r=0.2,values=sd(alpha=0.1)"), ("replicas", "rtopk:k=0.05,r=0.2")]
)
def test_d7_resume_gives_the_bits_of_a_run_that_never_stopped(four, kind, codec):
    through, stopped = four.run(jobs.train, codec, kind, 16), four.run(jobs.train, codec, kind, 16, 8)
    assert [result[:2] for result in stopped] == [result[:2] for result in through]
    only([parameters for parameters, *_ in through])
    assert len({residual for _, residual, *_ in through}) == 4
    assert all(after < before for _, _, before, after, _ in through)


@pytest.mark.parametrize("kind", ["1d", "replicas"])
def test_d1_a_step_that_is_not_finite_is_nan_everywhere_and_leaves_no_trace(four, kind):
    clean = four.run(jobs.train, "rtopk:k=0.05,r=0.2", kind, 6)
    poisoned = four.run(jobs.train, "rtopk:k=0.05,r=0.2", kind, 6, None, 4)
    assert all(well for *_, well in poisoned)
    assert [result[:2] for result in poisoned] == [result[:2] for result in clean]


def test_nothing_is_lost_in_the_reduce_scatter(four):
    for worst, most in four.run(jobs.conserve, 5):
        assert worst < 1e-6
        assert most > 1e-2


def test_fewer_bytes_are_sent(four):
    for compressed, dense in four.run(jobs.traffic):
        assert compressed < dense / 50


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("plain", "call fully_shard"),
        ("native", "one-dimensional mesh"),
        ("unbiased", "not contractive"),
        ("codec", "the ranks differ in codec"),
        ("state", "do not fit the model"),
        ("factor", "set_force_sum_reduction_for_comms"),
        ("frozen", "requires_grad"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(four, what, text):
    for error in four.run(jobs.refuse, what):
        assert error is not None
        assert text in error
