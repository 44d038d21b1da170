"""The estimation experiments: schemes against their exact risks, power laws, and both quick runs from end to end."""

import argparse
import json

import numpy as np
import pytest

from gradwire import Rng
from gradwire.errors import MessageError, ParameterError
from gradwire.experiments import reproduce
from gradwire.experiments.estimation.common_gradient_findings import curves_of
from gradwire.experiments.estimation.minimax_findings import CHECK_M, CHECK_VALUES, points_of
from gradwire.experiments.estimation.model import THETAS, exact_risk, measure_risk, supports, theta
from gradwire.experiments.estimation.schemes import SCHEMES, scheme
from gradwire.experiments.estimation.slopes import power_law
from gradwire.experiments.rtopk_common_gradient import expected_error, least_squares_error, least_squares_scale
from gradwire.theory.estimation import best_common_r, risk_upper_bound


def _support(*indices):
    return np.array(indices, np.uint32)


@pytest.mark.parametrize("kind", THETAS)
def test_theta_sums_to_s(kind):
    values = theta(kind, 400, 20)
    assert values.shape == (400,)
    assert values.sum() == pytest.approx(20, rel=1e-12)
    assert values.min() >= 0
    assert values.max() <= 0.95


def test_unknown_names_are_refused():
    with pytest.raises(ParameterError, match="half"):
        theta("other", 10, 1)
    with pytest.raises(ParameterError, match="rtop"):
        scheme("other", 10, 1)


def test_supports_have_the_probabilities_of_theta():
    values = np.array([0.0, 1.0, 0.5, 0.05, 0.0, 0.9])
    count = 20_000
    seen = np.zeros(6)
    for support in supports(values, count, Rng(1)):
        assert support.dtype == np.uint32
        assert (np.diff(support.astype(int)) > 0).all()
        seen[support] += 1
    assert seen[[0, 1, 4]].tolist() == [0, count, 0]
    assert np.abs(seen / count - values).max() < 5 * 0.5 / np.sqrt(count)


def test_messages_say_what_the_scheme_says():
    support, rng = _support(3, 50, 51, 390), Rng(7)

    def heard(name, m):
        total = np.zeros(400)
        method = scheme(name, 400, m)
        method.add(method.send(support, rng), total, rng)
        return {int(i): float(total[i]) for i in np.flatnonzero(total)}

    everything = {3: 1.0, 50: 1.0, 51: 1.0, 390: 1.0}
    assert (
        heard("whole", 400)
        == heard("rtop", 4)
        == heard("rtop", 9)
        == heard("fixed", 4)
        == heard("random", 400)
        == everything
    )
    assert heard("fixed", 2) == {3: 1.0, 50: 1.0}
    chosen = heard("rtop", 3)
    assert len(chosen) == 3
    assert chosen.keys() < everything.keys()
    assert set(chosen.values()) == {4 / 3}
    assert set(heard("random", 200).values()) <= {2.0}


@pytest.mark.parametrize("name", SCHEMES)
def test_an_empty_sample_is_a_message_too(name):
    method, total = scheme(name, 400, 8), np.zeros(400)
    message = method.send(_support(), Rng(0))
    method.add(message, total, Rng(0))
    assert not total.any()
    assert len(message) == 1


@pytest.mark.parametrize("name", SCHEMES)
def test_a_message_must_be_whole(name):
    method, rng = scheme(name, 400, 8), Rng(3)
    message = method.send(_support(*range(0, 400, 10)), rng)
    for wrong in (message[:-1], message + b"\0"):
        with pytest.raises(MessageError):
            method.add(wrong, np.zeros(400), rng)


def test_messages_have_the_size_that_is_counted():
    # N in one byte, the section's parameter in one, 10 gaps of some log2(400/10) + 1.5 bits
    message = scheme("rtop", 400, 10).send(_support(*range(0, 400, 20)), Rng(0))
    assert 2 + 10 * 5 // 8 <= len(message) <= 2 + 10 * 8 // 8
    assert len(scheme("random", 400, 56).send(_support(1), Rng(0))) == 7


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("kind", THETAS)
def test_measured_risk_is_the_exact_one(name, kind):
    values = theta(kind, 60, 6)
    m = 60 if name == "whole" else 3
    found = measure_risk(scheme(name, 60, m), values, n=5, trials=300, rng=Rng(11))
    assert abs(found.risk - exact_risk(name, values, 5, m)) < 4 * found.risk_error
    assert found.risk_error < 0.15 * found.risk
    assert found.bits <= found.bits_most
    assert found.bits_most % 8 == 0


def test_workers_that_share_a_draw_are_found_out():
    """A scheme whose choice is no longer random must miss the exact risk by far: the comparison can fail."""

    class SameForAll:
        def __init__(self):
            self.inner = scheme("rtop", 60, 3)

        def send(self, support, rng):
            return self.inner.send(support, Rng(5))

        def add(self, message, total, rng):
            self.inner.add(message, total, rng)

    values = np.zeros(60)
    values[:12] = 0.95
    found = measure_risk(SameForAll(), values, n=20, trials=100, rng=Rng(11))
    assert abs(found.risk - exact_risk("rtop", values, 20, 3)) > 20 * found.risk_error


def test_power_law_finds_the_exponent_and_its_interval():
    x = np.geomspace(1, 1000, 30)
    noise = np.random.default_rng(0).normal(0, 0.1, 30)
    slope = power_law(x, 7 * x**-1.5 * np.exp(noise))
    assert slope.low < -1.5 < slope.high
    assert slope.high - slope.low == pytest.approx(2 * 2.048 * 0.1 / np.sqrt(30 * np.log(x).var()), rel=0.3)


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 0, 2]), ([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [1, 2])]
)
def test_power_law_refuses_what_has_none(x, y):
    with pytest.raises(ParameterError):
        power_law(x, y)


def test_the_expected_errors_have_their_least_where_the_formulas_say():
    r = np.arange(50, 10_001)
    flat = r[np.argmin(expected_error(0.0, 20, 50, r))]
    assert flat == best_common_r(20, 50, 0.0)
    scale = [least_squares_scale(20, 50, int(v)) for v in (50, 400, 10_000)]
    assert scale[0] == 1.0
    assert scale == sorted(scale)
    assert (least_squares_error(0.25, 20, 50, r) <= expected_error(0.25, 20, 50, r) + 1e-12).all()


def _run(name, out, capsys):
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    code = reproduce.run(parser.parse_args([name, "--quick", "--seeds", "1", "--json", "--out", str(out)]))
    found = json.loads(capsys.readouterr().out)
    folder = out / name
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert len(lines) == found["rows"] == found["measured_now"]
    for path in found["figures"]:
        assert (out.parent / path).stat().st_size > 10_000
    assert (folder / "index.html").read_text().count("data:image/svg+xml") == len(found["figures"]) // 2
    return code, found, [{**line["item"], **line["measured"]} for line in lines]


def test_minimax_estimation_reproduces(tmp_path, capsys):
    code, found, rows = _run("minimax-estimation", tmp_path, capsys)
    assert code == 0, [check for check in found["checks"] if check["holds"] is False]
    points = points_of(rows, "bits")
    for name in ("rtop", "fixed"):
        for m, value in zip(CHECK_M, CHECK_VALUES[name], strict=True):
            (point,) = [p for p in points if (p.scheme, p.m) == (name, m)]
            assert point.risk == pytest.approx(value, rel=0.1)
            if name == "rtop":
                assert point.risk <= risk_upper_bound(20, 50, m)
    exponents = {row[0]: float(row[4].split()[0].replace("−", "-")) for row in found["tables"][1]["rows"]}
    assert exponents == {
        "nodes n": pytest.approx(-1, abs=0.05),
        "n·m, indices in all": pytest.approx(-1, abs=0.05),
        "n·k, real bits in all": pytest.approx(-1.1, abs=0.15),
        "sparsity s": pytest.approx(2, abs=0.1),
    }
    losses = [row[-1] for row in found["tables"][2]["rows"]]
    assert losses.count("rTop") == 3
    assert {"fixed order", "random-m", "θ̂ = 0"} <= set(losses)


def test_rtopk_common_gradient_reproduces(tmp_path, capsys):
    code, found, rows = _run("rtopk-common-gradient", tmp_path, capsys)
    assert code == 0, [check for check in found["checks"] if check["holds"] is False]
    clean = {(c.n, c.a): c for c in curves_of(rows) if c.noise == 0 and c.draws == "independent"}
    assert clean[20, 0.0].best == pytest.approx(10.5 * 50, rel=0.15)
    assert clean[5, 0.25].best == pytest.approx(2 * 100, rel=0.15)
    assert clean[5, 0.5].best < 1.2 * 100
    assert clean[5, 1.0].best == 100
    assert clean[20, 0.25].at_formula < 0.95 * clean[20, 0.25].top
    for curve in clean.values():
        # 400 bytes of float32 values for 100 entries, about 8 bits an index, and the frame
        assert 4 * curve.k + curve.k * 0.9 < curve.bytes < 4 * curve.k + curve.k * 1.1 + 20
