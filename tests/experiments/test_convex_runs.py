"""What convex runs count, read and tell: bytes against other ways to count, data sets, findings."""

import math
import tarfile

import numpy as np
import pytest

import gradwire
from gradwire.errors import InputError, MissingError, ParameterError
from gradwire.experiments.convex import Ridge, Split, compressed_gd, cost
from gradwire.experiments.convex import data as datasets
from gradwire.experiments.convex.accounting import paper_bits
from gradwire.experiments.convex.descent import Descent, descent_items, measure_descent
from gradwire.experiments.convex.descent_findings import descent_findings
from gradwire.experiments.convex.descent_results import Cell, DescentResults
from gradwire.experiments.convex.distributed import METHODS, RUNS, distributed_items, measure_distributed
from gradwire.experiments.convex.distributed_findings import distributed_findings
from gradwire.experiments.convex.series import SERIES, spec_of
from gradwire.experiments.convex.trace import trace
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Settings
from gradwire.theory import log2_binomial


def _ridge():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 6)) * np.linspace(1.0, 2.0, 6)
    return Ridge(features, features @ rng.standard_normal(6) + rng.standard_normal(60), 0.1)


# Bytes.


def test_papers_bits_of_sparse_dithering_against_its_levels():
    """The levels found from the decoded values, not from the payload."""
    x = np.random.default_rng(0).standard_normal(14).astype(np.float32)
    for spec in ("sd:nu=0.1,gain=paper", "sd:nu=0.1", "sd:nu=0.25,rounding=stochastic"):
        message = gradwire.encode(spec, x, 5)
        values = gradwire.decode(message, 14)
        levels = np.rint(np.abs(values) / gradwire.inspect(message).details["step"])
        zeros = int((levels == 0).sum())
        expected = 31 + math.log2(14) + log2_binomial(14, zeros) + (14 - zeros) + levels.sum()
        assert paper_bits(message) == pytest.approx(expected, abs=1e-9)


def test_papers_bits_of_the_others():
    x = np.arange(1.0, 15.0)
    assert paper_bits(gradwire.encode("identity", x, 0)) == 32 * 14
    assert paper_bits(gradwire.encode("topk:k=3", x, 0)) == pytest.approx(96 + math.log2(364))
    assert paper_bits(gradwire.encode("randomk:k=3", x, 0)) == 96
    assert paper_bits(gradwire.encode("sd:nu=0.1", np.zeros(14), 0)) == pytest.approx(31 + math.log2(14))


def test_papers_bits_of_shared_dither_count_the_levels_that_were_sent():
    """With U known, (value/step + U) is the level."""
    x = np.random.default_rng(1).standard_normal(14).astype(np.float32)
    message = gradwire.encode("sd:nu=0.75,rounding=shared", x, 5)
    uniform = gradwire.Rng(gradwire.Rng(5).child(0).seed).uniform(14) - 0.5
    levels = np.abs(np.rint(gradwire.decode(message, 14) / gradwire.inspect(message).details["step"] + uniform))
    zeros = int((levels == 0).sum())
    expected = 31 + math.log2(14) + log2_binomial(14, zeros) + (14 - zeros) + levels.sum()
    assert paper_bits(message) == pytest.approx(expected, abs=1e-9)


def test_papers_bits_of_spherical_are_index_and_norms():
    x = np.random.default_rng(2).standard_normal(12).astype(np.float32)
    one = gradwire.encode("spherical:alpha=0.6,block=12", x, 0)
    assert paper_bits(one) == 31 + gradwire.inspect(one).details["index_bits"]
    two = gradwire.encode("spherical:alpha=0.3,block=6", x, 0)
    details = gradwire.inspect(two).details
    assert details["blocks"] == 2
    assert paper_bits(two) == details["index_bits"] + details["other_bits"] <= 8 * len(two)
    assert paper_bits(gradwire.encode("spherical:alpha=0.3,block=6", np.zeros(12), 0)) == 31


def test_an_unlisted_codec_has_no_papers_bits():
    with pytest.raises(ParameterError, match="not known"):
        paper_bits(gradwire.encode("sign", np.ones(4), 0))


def test_a_cost_is_frame_and_payload():
    message = gradwire.encode("topk:k=2", np.arange(14.0), 0)
    assert (cost(message).frame, cost(message).payload) == (len(message), len(message) - 9)


def test_a_trace_adds_up_what_was_sent():
    problem, start = _ridge(), np.zeros(6)
    codec = gradwire.from_spec("topk:k=2")
    messages = []

    def watched():
        for iterate in compressed_gd(problem, codec, 0.1, start, gradwire.Rng(0)):
            messages.append(iterate.messages[0])
            yield iterate

    found = trace(watched(), start, problem.solution, 1e-3, 10_000)
    assert found.ended == "goal"
    assert len(messages) == found.iterations
    assert found.reached["1e-3"] == pytest.approx(
        (
            len(messages),
            sum(paper_bits(m) for m in messages) / 8,
            sum(map(len, messages)) - 9 * len(messages),
            sum(map(len, messages)),
        ),
        rel=1e-3,
    )
    assert found.curve["error"][0] == 1.0
    assert found.curve["error"][-1] <= 1e-3
    assert found.curve["frame"][-1] == found.reached["1e-3"][3]


def test_a_trace_tells_limit_and_divergence():
    problem, start, codec = _ridge(), np.zeros(6), gradwire.from_spec("identity")
    assert (
        trace(compressed_gd(problem, codec, 1e-9, start, gradwire.Rng(0)), start, problem.solution, 1e-3, 7).ended
        == "limit"
    )
    far = trace(compressed_gd(problem, codec, 3.0, start, gradwire.Rng(0)), start, problem.solution, 1e-3, 500)
    assert far.ended == "diverged"
    assert far.iterations < 50


# Data.


def test_stand_ins_are_named_as_such(tmp_path):
    for load, shape in ((datasets.bodyfat, (442, 10)), (datasets.breast_cancer, (569, 30))):
        data = load(tmp_path)
        assert data.features.shape == shape
        assert data.stand_in
        assert "stand-in" in data.name
    assert "stand-in" in datasets.digits().name


def test_the_users_files_are_read(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 15))
    names = ",".join(f"c{i}" for i in range(15))
    np.savetxt(tmp_path / "bodyfat.csv", table, delimiter=",", header=names, comments="")
    found = datasets.bodyfat(tmp_path)
    assert (found.name, found.stand_in, found.features.shape) == ("Body-Fat", False, (30, 14))
    np.testing.assert_allclose(found.features.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.features.std(axis=0), 1.0)
    assert np.corrcoef(found.targets, table[:, 0])[0, 1] == pytest.approx(1.0)
    (tmp_path / "breast-cancer_scale").write_text("2 1:-0.5 2:1\n4 1:0.25\n2 2:-1\n")
    found = datasets.breast_cancer(tmp_path)
    assert found.targets.tolist() == [-1.0, 1.0, -1.0]
    assert found.features.tolist() == [[-0.5, 1.0], [0.25, 0.0], [0.0, -1.0]]


def test_wrong_files_are_refused(tmp_path):
    (tmp_path / "bodyfat.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="14 are due"):
        datasets.bodyfat(tmp_path)
    (tmp_path / "bodyfat.csv").write_text("a,b\n1,x\n")
    with pytest.raises(InputError, match="no table"):
        datasets.bodyfat(tmp_path)
    (tmp_path / "breast-cancer_scale").write_text("1 1:1\n2 1:2\n3 1:3\n")
    with pytest.raises(InputError, match="3 classes"):
        datasets.breast_cancer(tmp_path)
    (tmp_path / "a9a").write_text("no numbers\n")
    with pytest.raises(InputError, match="LIBSVM"):
        datasets.libsvm("a9a", tmp_path)


def test_libsvm_from_a_file_or_the_archive_or_an_advice(tmp_path):
    with pytest.raises(MissingError, match="download"):
        datasets.libsvm("w8a", tmp_path)
    (tmp_path / "w8a").write_text("-1 1:1 3:1\n1 2:1\n")
    direct = datasets.libsvm("w8a", tmp_path)
    with tarfile.open(tmp_path / "libsvm.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "w8a", "./w8a")
    (tmp_path / "w8a").unlink()
    packed = datasets.libsvm("w8a", tmp_path)
    assert packed.digest == direct.digest
    assert packed.features.toarray().tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    with pytest.raises(MissingError, match="holds no file"):
        datasets.libsvm("a9a", tmp_path)


# Items and findings.


def test_series_fit_their_problem():
    for series in SERIES:
        if gradwire.CODECS.get(series.spec.partition(":")[0]):
            for dim in (10, 14, 30):
                assert str(gradwire.from_spec(spec_of(series, 0.2, dim, k=3)))
    assert spec_of(SERIES[-1], 0.2, 14).endswith("block=14")


def test_methods_and_codecs_of_the_distributed_runs_fit():
    split = Split.deal(_ridge(), 5)
    for method, codec in RUNS:
        assert METHODS[method].step_size(split, gradwire.from_spec(codec).guarantee(6)) > 0


def test_without_files_the_distributed_run_takes_a_stand_in_and_says_so(tmp_path, capsys):
    items = distributed_items(Settings(quick=False, seeds=1, data_dir=tmp_path))
    assert {item["set"] for item in items} == {"digits"}
    assert capsys.readouterr().err.count("download") == 4


def _row(series, codec, seed, iterations, paper, start="uniform", goal=1e-4):
    reached = {"1e-4": [iterations, paper, 2 * paper, 3 * paper]} if paper else {}
    return {
        "lam": 0.1, "step": "1/L", "start": start, "series": series, "codec": codec, "goal": goal,
        "seed": seed, "reached": reached, "iterations": iterations, "data": "x",
    }  # fmt: skip


def test_savings_are_taken_seed_by_seed():
    rows = [
        _row("basic", "identity", 0, 10, 100.0),
        _row("basic", "identity", 1, 20, 300.0),
        _row("topk", "topk:k=1", 0, 10, 50.0),
        _row("topk", "topk:k=1", 1, 10, None),
        _row("topk", "topk:k=2", 0, 10, 80.0),
        _row("topk", "topk:k=2", 1, 10, 100.0),
    ]
    results, cell = DescentResults(rows), Cell(0.1, "1/L", "uniform")
    assert results.savings(cell, "topk") == [2.0, 3.0]
    assert results.price(cell, "topk").codec == "topk:k=2"  # the only one that arrived from both starts
    assert results.price(cell, "basic").cost.paper == 200.0
    assert results.price(cell, "sd") is None


def test_random_codecs_from_zero_are_held_against_the_one_basic_run():
    rows = [
        _row("basic", "identity", 0, 10, 100.0, start="zero", goal=1e-6),
        _row("sd-shared", "sd", 0, 10, 25.0, start="zero", goal=1e-6),
        _row("sd-shared", "sd", 1, 12, 50.0, start="zero", goal=1e-6),
    ]
    results = DescentResults(rows)
    assert results.savings(results.main, "sd-shared") == [4.0, 2.0]
    assert results.saving(results.main, "sd-shared") == pytest.approx(100.0 / 37.5)


def test_a_small_descent_run_gives_a_page_that_holds(tmp_path):
    setup = Descent(
        "bodyfat", Ridge, 0.1, 0.15, {"basic": 63.0, "topk": 51.0, "spherical": 9.0, "sd": 9.0, "unbiased": 10.0}
    )
    settings = Settings(quick=True, seeds=1, data_dir=tmp_path)
    items = [item for item in descent_items(setup, settings) if item["start"] == "zero" or item["series"] != "topk"]
    items += [
        item for item in descent_items(setup, settings) if item["codec"] == "topk:k=3" and item["start"] != "zero"
    ]
    rows = [{**item, **measure_descent(setup, item, settings)} for item in items]
    assert {row["ended"] for row in rows} == {"goal"}
    basic = next(row for row in rows if row["series"] == "basic" and row["start"] == "zero")
    assert basic["reached"]["1e-4"][1] == basic["reached"]["1e-4"][0] * 40
    found = descent_findings(setup, rows)
    assert found.holds
    assert "stand-in" in found.verdict
    assert any("stand-in" in text for text in found.differences)
    sd = next(row for row in found.tables[0].rows if row[0] == "Sparse Dithering, ν = 0.1")
    assert 5.0 < float(sd[4].rstrip("×")) < 6.0
    assert [plot.name for plot in found.plots] == ["error-against-bytes", "savings"]
    assert all(style.png(plot.figure).startswith(b"\x89PNG") for plot in found.plots)


def test_a_check_fails_where_sparse_dithering_saves_too_little():
    setup = Descent(
        "bodyfat", Ridge, 0.1, 0.15, {"basic": 63.0, "topk": 51.0, "spherical": 9.0, "sd": 9.0, "unbiased": 10.0}
    )
    curve = {name: [0.0, 1.0] for name in ("paper", "payload", "frame", "iteration")} | {"error": [1.0, 1e-6]}
    rows = []
    for start, goal in (("zero", 1e-6), ("uniform", 1e-4)):
        for series, codec, paper in (
            ("basic", "identity", 100.0),
            ("topk", "topk:k=1", 40.0),
            ("sd", "sd:nu=0.1", 25.0),
        ):
            rows.append({**_row(series, codec, 0, 10, paper, start=start, goal=goal), "curve": curve})
    found = descent_findings(setup, rows)
    assert [check.holds for check in found.checks] == [False, None, True, None]
    assert found.checks[0].found == "4.0×; over all λ 4.0× to 4.0×"
    rows[1]["reached"]["1e-4"][1] = 20.0
    assert descent_findings(setup, rows).checks[2].holds is False


def test_a_short_distributed_run_tells_what_did_not_arrive(tmp_path, capsys):
    settings = Settings(quick=True, seeds=1, data_dir=tmp_path)
    items = [{**item, "most": 6} for item in distributed_items(settings)]
    rows = [{**item, **measure_distributed(item, settings)} for item in items]
    found = distributed_findings(rows)
    assert not found.holds
    assert found.checks[0].found == "0 of 6"
    assert "NOT" in found.verdict
    assert {row[9] for row in found.tables[0].rows} == {None}
    assert len(found.tables[0].rows) == len(RUNS)
    assert all(style.png(plot.figure).startswith(b"\x89PNG") for plot in found.plots)
    theory = {(row["method"], row["codec"]): row["step_times_smoothness"] for row in rows if row["step"] == "theory"}
    assert theory["dcgd", "identity"] == pytest.approx(1.0)
    assert theory["ef21", "topk:k=0.05"] < theory["ef21", "sd:alpha=0.1"] < 1.0
