"""Convex problems, methods and bytes: against closed forms, theorems and counts made by other means."""

import math

import numpy as np
import pytest

import gradwire
from gradwire.errors import InputError, ParameterError
from gradwire.experiments.convex import Logistic, Ridge, Split, compressed_gd, dcgd, diana, ef21, error_feedback
from gradwire.experiments.convex.compressed_gd import step_size as gd_step
from gradwire.experiments.convex.dcgd import step_size as dcgd_step
from gradwire.experiments.convex.diana import step_size as diana_step
from gradwire.experiments.convex.ef21 import step_size as ef21_step
from gradwire.experiments.convex.error_feedback import step_size as error_feedback_step
from gradwire.experiments.convex.trace import trace


def _data(rows=60, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, dim)) * np.linspace(1.0, 2.0, dim)
    return features, features @ rng.standard_normal(dim) + rng.standard_normal(rows), rng


def _ridge(lam=0.1):
    features, targets, _ = _data()
    return Ridge(features, targets, lam)


def _logistic(lam=0.1):
    features, targets, _ = _data()
    return Logistic(features, np.where(targets > 0, 1.0, -1.0), lam)


def _unlike(workers=5):
    """Workers whose minima are far apart."""
    problem = _ridge(0.2)
    return Split.deal(problem, workers, np.argsort(problem.targets))


def _last(iterates, count):
    for t, iterate in enumerate(iterates, 1):
        if t == count:
            return iterate
    return None


# Problems.


@pytest.mark.parametrize("problem", [_ridge(), _logistic(), _logistic(1e-4)], ids=["ridge", "logistic", "weak"])
def test_the_solution_is_one_to_machine_precision(problem):
    assert np.linalg.norm(problem.gradient(problem.solution)) < 1e-14 * problem.smoothness


def test_ridge_solution_is_that_of_the_normal_equations():
    problem = _ridge(0.3)
    gram = problem.features.T @ problem.features / 60 + 0.3 * np.eye(6)
    expected = np.linalg.solve(gram, problem.features.T @ problem.targets / 60)
    np.testing.assert_allclose(problem.solution, expected, rtol=1e-12)


def test_logistic_gradient_is_the_slope_of_its_value():
    problem, x, h = _logistic(), np.linspace(-1.0, 1.0, 6), 1e-6
    slopes = [(problem.value(x + h * e) - problem.value(x - h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(problem.gradient(x), slopes, atol=1e-8)


def test_logistic_solution_agrees_with_another_solver():
    from scipy.optimize import minimize

    problem = _logistic(0.01)
    found = minimize(problem.value, np.zeros(6), jac=problem.gradient, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(problem.solution, found.x, atol=1e-7)


def test_logistic_solution_where_newtons_full_steps_run_away():
    """Features of very different sizes, found by a search; with full steps the gradient stays above 10^-4·L."""
    rng = np.random.default_rng(24)
    features = (rng.standard_cauchy((8, 3)) ** 3).round(2)
    problem = Logistic(features, np.where(rng.random(8) < 0.5, 1.0, -1.0), 1e-4)
    assert np.linalg.norm(problem.gradient(problem.solution)) < 1e-14 * problem.smoothness
    assert np.isfinite(problem.value(problem.solution * 1e6))


@pytest.mark.parametrize("kind", [Ridge, Logistic])
def test_smoothness_and_convexity_bound_the_gradient(kind):
    features, targets, rng = _data()
    problem = kind(features, np.sign(targets), 0.05)
    for _ in range(50):
        x, y = rng.standard_normal((2, 6))
        change, move = problem.gradient(x) - problem.gradient(y), x - y
        assert np.linalg.norm(change) <= problem.smoothness * np.linalg.norm(move) * (1 + 1e-12)
        assert change @ move >= problem.convexity * (move @ move) * (1 - 1e-12)


def test_sparse_features_give_the_same_problem():
    from scipy.sparse import csr_matrix

    dense = _logistic()
    sparse = Logistic(csr_matrix(dense.features), dense.targets, dense.lam)
    assert sparse.smoothness == pytest.approx(dense.smoothness, rel=1e-12)
    np.testing.assert_allclose(sparse.solution, dense.solution, atol=1e-13)
    np.testing.assert_allclose(
        Split.deal(sparse, 4).parts[1].gradient(np.ones(6)), Split.deal(dense, 4).parts[1].gradient(np.ones(6))
    )


def test_a_split_is_the_mean_of_its_parts():
    split, x = Split.deal(_ridge(), 7), np.linspace(0.0, 1.0, 6)
    assert len(split.whole.targets) == 56
    np.testing.assert_allclose(np.mean([p.gradient(x) for p in split.parts], axis=0), split.whole.gradient(x))


def test_wrong_problems_are_refused():
    with pytest.raises(ParameterError, match="positive"):
        Ridge(np.eye(2), [1.0, 2.0], 0.0)
    with pytest.raises(InputError, match="give"):
        Ridge(np.eye(2), [1.0], 1.0)
    with pytest.raises(InputError, match="-1 nor 1"):
        Logistic(np.eye(2), [0.0, 1.0], 1.0)
    with pytest.raises(ParameterError, match="too few"):
        Split.deal(_ridge(), 61)


# Methods.


def test_exact_messages_give_gradient_descent():
    problem, codec = _ridge(), gradwire.from_spec("identity")
    step, start = gd_step(problem, codec.guarantee(6)), np.zeros(6)
    assert step == 1.0 / problem.smoothness
    x = start
    for _ in range(20):
        x = x - step * problem.gradient(x)
    split = Split.deal(problem, 5)
    runs = [
        compressed_gd(problem, codec, step, start, gradwire.Rng(0)),
        dcgd(split, codec, step, start, gradwire.Rng(0)),
        error_feedback(split, codec, step, start, gradwire.Rng(0)),
        ef21(split, codec, step, start, gradwire.Rng(0)),
        diana(split, codec, step, start, gradwire.Rng(0)),
    ]
    for run in runs:
        np.testing.assert_allclose(_last(run, 20).x, x, atol=1e-6)  # float32 messages


def _replayed(method, split, spec, step, start, count):
    """What a server that has nothing but the messages makes of them, as the methods' definitions say."""
    codec, dim = gradwire.from_spec(spec), len(start)
    rate = 1.0 / (1.0 + codec.guarantee(dim).error)
    x, state = start, np.zeros((len(split.parts), dim))
    run = method(split, codec, step, start, gradwire.Rng(7))
    for _ in range(count):
        found, messages = next(run)
        sent = np.array([gradwire.decode(message, dim) for message in messages], np.float64)
        if method is dcgd:
            x = x - step * sent.mean(axis=0)
        elif method is error_feedback:
            x = x - sent.mean(axis=0)
        elif method is ef21:
            state += sent
            x = x - step * state.mean(axis=0)
        else:
            x = x - step * (state + sent).mean(axis=0)
            state += rate * sent
        np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "spec"),
    [
        (dcgd, "sd:nu=0.75,rounding=shared"),
        (error_feedback, "topk:k=2"),
        (ef21, "rtopk:k=2,r=4"),
        (diana, "randomk:k=2,scale=true"),
    ],
)
def test_iterates_follow_from_the_messages_alone(method, spec):
    split = _unlike()
    _replayed(method, split, spec, 0.3 / split.whole.smoothness, np.ones(6), 30)


def test_one_workers_iterates_follow_from_the_messages_alone():
    problem, x = _ridge(), np.ones(6)
    run = compressed_gd(problem, gradwire.from_spec("topk:k=2"), 0.1, x, gradwire.Rng(0))
    for _ in range(10):
        found, (message,) = next(run)
        x = x - 0.1 * gradwire.decode(message, 6).astype(np.float64)
        np.testing.assert_allclose(found, x, rtol=1e-12)


@pytest.mark.parametrize(
    "spec", ["topk:k=2", "sd:nu=0.5", "sd:alpha=0.3", "sd:nu=0.25,rounding=stochastic", "randomk:k=3,scale=true"]
)
def test_compressed_descent_keeps_its_rate(spec):
    """(1 − ρ)^t bounds f − f*; random codecs in the mean of 30 runs, with a factor for its deviation."""
    problem, codec = _ridge(0.5), gradwire.from_spec(spec)
    guarantee = codec.guarantee(6)
    contraction = problem.convexity / problem.smoothness
    contraction *= 1.0 / (1.0 + guarantee.error) if guarantee.unbiased else 1.0 - guarantee.error
    step, start = gd_step(problem, guarantee), np.full(6, 3.0)

    def value(x):
        return 0.5 * np.mean((problem.features @ x - problem.targets) ** 2) + 0.25 * (x @ x)

    seeds = range(1 if guarantee.strict else 30)
    t = 40
    gaps = [value(_last(compressed_gd(problem, codec, step, start, gradwire.Rng(s)), t).x) for s in seeds]
    gap, first = np.mean(gaps) - value(problem.solution), value(start) - value(problem.solution)
    assert gap <= 1.5 * (1.0 - contraction) ** t * first


@pytest.mark.parametrize(
    "spec", ["sd:nu=0.1", "topk:k=2", "sd:nu=0.25,rounding=stochastic", "sd:nu=0.75,rounding=shared"]
)
def test_float32_messages_do_not_bound_the_error(spec):
    """They are precise relative to the gradient, which vanishes: 1e-10, and 1e-20 too."""
    problem, codec = _logistic(), gradwire.from_spec(spec)
    start = np.zeros(6)
    run = compressed_gd(problem, codec, gd_step(problem, codec.guarantee(6)), start, gradwire.Rng(1))
    found = trace(run, start, problem.solution, 1e-20, 6000)
    assert found.ended == "goal"
    assert found.reached["1e-10"][0] < found.iterations


@pytest.mark.parametrize("spec", ["sd:alpha=0.1", "topk:k=2", "rtopk:k=2,r=4"])
def test_ef21_is_exact_at_the_theorems_rate(spec):
    split, codec, start = _unlike(), gradwire.from_spec(spec), np.zeros(6)
    step = ef21_step(split, codec.guarantee(6))
    count = math.ceil(math.log(1e16) / (step * split.whole.convexity))
    x = _last(ef21(split, codec, step, start, gradwire.Rng(0)), count).x
    # f − f* ≤ (1 − γμ)^t·V⁰ and f − f* ≥ (μ/2)‖x − x*‖²; V⁰ is below 10^4·‖x*‖² here.
    assert np.sum((x - split.whole.solution) ** 2) <= 1e-11 * np.sum(split.whole.solution**2)


@pytest.mark.parametrize(
    "spec", ["sd:nu=0.25,rounding=stochastic", "sd:nu=0.75,rounding=shared", "randomk:k=2,scale=true"]
)
def test_diana_is_exact_at_the_theorems_rate(spec):
    split, codec, start = _unlike(), gradwire.from_spec(spec), np.zeros(6)
    guarantee = codec.guarantee(6)
    step = diana_step(split, guarantee)
    rate = min(step * split.whole.convexity, 0.5 / (1.0 + guarantee.error))
    x = _last(diana(split, codec, step, start, gradwire.Rng(0)), math.ceil(math.log(1e16) / rate)).x
    assert np.sum((x - split.whole.solution) ** 2) <= 1e-11 * np.sum(split.whole.solution**2)


def test_dcgd_ends_in_the_neighbourhood_of_its_theorem():
    split, codec, start = _unlike(), gradwire.from_spec("randomk:k=2,scale=true"), np.zeros(6)
    omega, solution = codec.guarantee(6).error, split.whole.solution
    step = dcgd_step(split, codec.guarantee(6)) / 4
    noise = np.sum([np.sum(p.gradient(solution) ** 2) for p in split.parts])
    bound = 2.0 * step * omega * noise / (split.whole.convexity * len(split.parts) ** 2)
    run = dcgd(split, codec, step, start, gradwire.Rng(0))
    errors = [float(np.sum((next(run).x - solution) ** 2)) for _ in range(1500)][500:]
    assert 0.001 * bound < np.mean(errors) <= bound


def test_biased_dcgd_and_error_feedback_stall_where_workers_differ_and_ef21_does_not():
    split, codec, start = _unlike(), gradwire.from_spec("topk:k=1"), np.zeros(6)
    step, solution = 0.05 / split.whole.smoothness, split.whole.solution

    def error(method):
        return np.sum((_last(method(split, codec, step, start, gradwire.Rng(0)), 2000).x - solution) ** 2)

    assert error(ef21) < 1e-16
    assert 1e-9 < error(error_feedback) < 1e-2
    assert error(dcgd) > error(error_feedback)


def test_error_feedback_of_one_worker_is_exact_at_the_theorems_step():
    split, codec, start = Split.deal(_ridge(1.0), 1), gradwire.from_spec("topk:k=3"), np.zeros(6)
    step = error_feedback_step(split, codec.guarantee(6))
    count = math.ceil(math.log(1e12) / (step * split.whole.convexity / 2))
    x = _last(error_feedback(split, codec, step, start, gradwire.Rng(0)), count).x
    assert np.sum((x - split.whole.solution) ** 2) <= 1e-9 * np.sum(split.whole.solution**2)


def test_workers_draw_independently_and_a_seed_repeats():
    split, codec, start = Split.deal(_ridge(), 5), gradwire.from_spec("randomk:k=1,scale=true"), np.ones(6)
    once = _last(dcgd(split, codec, 0.01, start, gradwire.Rng(3)), 4)
    again = _last(dcgd(split, codec, 0.01, start, gradwire.Rng(3)), 4)
    other = _last(dcgd(split, codec, 0.01, start, gradwire.Rng(4)), 4)
    assert once.messages == again.messages != other.messages
    assert len({bytes(m)[5:14] for m in once.messages}) == 5  # k and the seed


def test_steps_that_have_no_theorem_are_refused():
    split = _unlike()
    biased, unbiased = (
        gradwire.from_spec("topk:k=1").guarantee(6),
        gradwire.from_spec("sd:nu=0.25,rounding=stochastic").guarantee(6),
    )
    for step in (ef21_step, error_feedback_step):
        with pytest.raises(ParameterError, match="contractive"):
            step(split, unbiased)
    with pytest.raises(ParameterError, match="unbiased"):
        diana_step(split, biased)
    assert gd_step(split.whole, unbiased) == pytest.approx(0.8 * gd_step(split.whole, biased))
