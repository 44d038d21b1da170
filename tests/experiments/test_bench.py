"""`gradwire bench` as a user runs it, at sizes of seconds, and the parts that its numbers rest on."""

import argparse
import csv
import dataclasses
import gc
import html.parser
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import gradwire
from gradwire import ParameterError
from gradwire.experiments import bench
from gradwire.experiments.bench import cells, machine, memory, peers, subjects, table, timing
from gradwire.experiments.bench.plan import CODECS, plan
from gradwire.experiments.bench.rows import Rows
from gradwire.experiments.bench.vectors import DISTRIBUTIONS, vector

SPECS = ("identity", "topk:k=0.1", "sd:nu=0.1")
SMALL = [word for spec in SPECS for word in ("--codec", spec)]
SMALL += ["--size", "1e3", "--size", "200_000", "--threads", "1", "--seconds", "0.02", "--against", "numpy"]


def command(*words):
    return [sys.executable, "-m", "gradwire", "bench", *map(str, words)]


def run(*words):
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=120)


def parse(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args([str(word) for word in words])


def lines(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One run in its own process: its folder and its rows."""
    out = tmp_path_factory.mktemp("bench")
    done = run(*SMALL, "--output", out, "--save-machine", out / "machines", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["complete"]
    return out, result["rows"]


# What the command gives


def test_a_row_for_every_codec_peer_and_size(made):
    _, rows = made
    names = ["identity", "topk:k=0.1", "numpy argpartition, k=0.1", "sd:nu=0.1", "numpy int8, nearest"]
    assert [(row["n"], row["name"]) for row in rows] == [(n, name) for n in (1000, 200_000) for name in names]
    assert [row["library"] for row in rows[:5]] == [None, None, "numpy", None, "numpy"]


def test_bits_and_errors_are_those_of_the_real_messages(made):
    _, rows = made
    for row in rows:
        if row["library"] is None:
            x = vector("gaussian", row["n"])
            message = gradwire.encode(row["name"], x, 0)
            assert row["bits_per_coordinate"] == 8 * len(message) / row["n"]
            lost = gradwire.decode(message, row["n"]).astype(np.float64) - x
            assert row["nmse"] == pytest.approx((lost**2).sum() / (x.astype(np.float64) ** 2).sum(), rel=1e-9)


def test_speeds_and_multiples_follow_from_the_times(made):
    _, rows = made
    for row in rows:
        for part in ("encode", "add"):
            low, median, high = (row[f"{part}_s{end}"] for end in ("_low", "", "_high"))
            assert 0 < low <= median <= high < 1
            assert row[f"{part}_gb_s"] == pytest.approx(4e-9 * row["n"] / median)
            assert row[f"{part}_memcpy"] == pytest.approx(row["memcpy_s"] / median)
        assert row["turns"] >= 3
    by_cell = {row["memcpy_s"] for row in rows}
    assert len(by_cell) == 6  # a codec and its peers have one memcpy, that of their cell


def test_memory_is_told_of_long_vectors_only(made):
    _, rows = made
    told = {row["name"]: row["encode_extra_bytes"] for row in rows if row["n"] == 200_000}
    assert all(row["encode_extra_bytes"] is None for row in rows if row["n"] == 1000)
    if memory.RESET.exists():
        # Magnitudes, their partition and 8 bytes a position: at least three vectors, and ours is far below one.
        assert told["numpy argpartition, k=0.1"] > 2 * 800_000
        assert told["topk:k=0.1"] < 800_000


def test_csv_has_the_rows_and_the_machine_its_own(made):
    out, rows = made
    found = list(csv.DictReader((out / "results.csv").open()))
    assert [row["name"] for row in found] == [row["name"] for row in rows]
    for text, row in zip(found, rows, strict=True):
        assert float(text["encode_gb_s"]) == pytest.approx(row["encode_gb_s"], rel=1e-4)
        assert (text["encode_extra_bytes"] == "") == (row["encode_extra_bytes"] is None)
    (saved,) = (out / "machines").iterdir()
    assert saved.name == f"{machine.this_machine().slug()}.csv"
    assert saved.read_text() == (out / "results.csv").read_text()


class Outline(html.parser.HTMLParser):
    """Counts the elements of a page, and sees that they close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.cells = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_page_stands_alone_and_shows_every_row(made):
    out, rows = made
    text = (out / "report.html").read_text()
    outline = Outline(text)
    assert outline.open == []
    assert outline.count["figure"] == 3  # beside memcpy, encoding and adding against size; one thread: no gain
    assert not re.search(r"(src|href)=.http", text)
    for row in rows:
        assert table.COLUMNS[1].text(row) in outline.cells
    assert "gradwire bench --codec identity --codec topk:k=0.1" in text


def test_table_on_the_terminal_is_aligned(made):
    _, rows = made
    parts = table.text(rows).split("\n\n")
    assert len(parts) == 2
    for part in parts:
        title, *body = part.splitlines()
        assert re.fullmatch(r"gaussian, [\d,]+ entries, 1 thread; memcpy [\d.]+ GB/s", title)
        assert len({len(line) for line in body}) == 1


# Going on


def test_a_second_run_measures_nothing(made):
    out, rows = made
    again = run(*SMALL, "--output", out, "--json")
    assert json.loads(again.stdout)["rows"] == rows
    assert "6 of 6 cells are there already" in again.stderr
    assert "measured" not in again.stderr


def test_interrupted_keeps_what_is_measured_and_goes_on(tmp_path):
    words = ["--size", "2e5", "--threads", "1", "--seconds", "0.1", "--output", tmp_path, "--save-machine", tmp_path]
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "results.jsonl").exists() or len(lines(tmp_path)) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the process that measures memory gets it too
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    kept = lines(tmp_path)
    assert 2 <= len(kept) < len(CODECS)
    assert "ended early" in (tmp_path / "report.html").read_text()
    assert [path.name for path in tmp_path.glob("*.csv")] == ["results.csv"]  # none of the machine: not complete
    few = [word for spec in CODECS[:3] for word in ("--codec", spec)]
    done = run(*few, *words)
    assert done.returncode == 0, done.stderr
    assert lines(tmp_path)[: len(kept)] == kept
    assert len(lines(tmp_path)) == max(3, len(kept))


def test_rows_of_another_machine_or_code_are_not_taken(made, monkeypatch):
    out, _ = made
    planned, here = plan(parse(*SMALL)).cells, machine.this_machine()
    path = out / "results.jsonl"
    assert all(cell in Rows(path, here) for cell in planned)
    for change in ({"simd": "none"}, {"processor": "other"}, {"cores": 99}):
        assert not any(cell in Rows(path, dataclasses.replace(here, **change)) for cell in planned)
    monkeypatch.setattr(machine, "MEASURED", machine.MEASURED[:-1])  # as if a file were not the same
    assert not any(cell in Rows(path, here) for cell in planned)


# The plan


def test_every_codec_is_measured():
    assert {gradwire.from_spec(spec).name for spec in CODECS} == set(gradwire.CODECS), "add it to bench/plan.py, CODECS"


def test_options_decide_the_cells():
    planned = plan(parse("--codec", "sign", "--size", "10", "--size", "1e2", "--threads", 1, "--threads", 3)).cells
    assert [(cell.codec, cell.n, cell.threads) for cell in planned] == [("sign", 10, (1, 3)), ("sign", 100, (1, 3))]
    assert [item["threads"] for item in planned[0].items()] == [1, 3]


def test_a_peer_is_measured_once_and_without_threads_it_does_not_know():
    words = ["--codec", "topk:k=0.1", "--codec", "rtopk:k=0.1,r=0.2", "--size", "10", "--threads", 1, "--threads", 2]
    planned = plan(parse(*words, "--against", "numpy")).cells
    assert [cell.libraries for cell in planned] == [("numpy",), ()]
    assert [(item["library"], item["threads"]) for item in planned[0].items()] == [(None, 1), ("numpy", 1), (None, 2)]


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr("gradwire.experiments.bench.plan.missing", lambda library: library == "torch")
    made = plan(parse("--size", "10", "--against", "torch", "numpy"))
    assert made.absent == ("torch",)
    assert {library for cell in made.cells for library in cell.libraries} == {"numpy"}


def test_a_file_is_a_source(tmp_path):
    x = np.random.default_rng(0).standard_normal((30, 50)).astype(np.float16)
    np.save(tmp_path / "g.npy", x)
    words = ["--source", tmp_path / "g.npy", "--codec", "sign", "--threads", 1]
    (whole,) = plan(parse(*words)).cells
    (part,) = plan(parse(*words, "--size", 10)).cells
    assert (whole.n, part.n) == (1500, 10)
    assert whole.checksum is not None
    assert vector(whole.source, 10).tolist() == x.reshape(-1)[:10].tolist()
    np.save(tmp_path / "g.npy", -x)
    assert plan(parse(*words)).cells[0].items() != whole.items()  # other gradients under the same name
    with pytest.raises(gradwire.InputError, match="holds 1,500 entries"):
        plan(parse(*words, "--size", 1501))
    x[20, 7] = np.nan
    np.save(tmp_path / "g.npy", x)
    with pytest.raises(gradwire.InputError, match=re.escape("x[1007] is nan")):
        plan(parse(*words))


def test_sources_are_what_they_say():
    n = 100_000
    drawn = {name: vector(name, n).astype(np.float64) for name in DISTRIBUTIONS}
    kurtosis = {name: (x**4).mean() / (x**2).mean() ** 2 for name, x in drawn.items()}
    assert kurtosis["gaussian"] == pytest.approx(3, rel=0.05)
    assert kurtosis["laplace"] == pytest.approx(6, rel=0.1)
    assert kurtosis["student-t"] > 10  # infinite, of the distribution
    assert np.count_nonzero(drawn["sparse"]) == pytest.approx(n / 10, rel=0.05)
    assert all(vector(name, 10).dtype == np.float32 for name in DISTRIBUTIONS)


# Time


def test_calls_alternate_and_a_slow_rival_takes_no_more_than_half():
    seen, spent = [], dict.fromkeys("abr", 0.0)

    def turn(name, seconds):
        def call():
            seen.append(name)
            begin = time.perf_counter()
            time.sleep(seconds)
            spent[name] += time.perf_counter() - begin

        return timing.Turn(call)

    mine, rivals = timing.take_turns([turn("a", 0.001), turn("b", 0.002)], [turn("r", 0.02)], 0.25)
    assert "".join(seen[:3]) == "abr"  # once each, to be warm
    assert re.fullmatch("(ab)+", "".join(seen[3:]).replace("r", ""))
    assert "rr" not in "".join(seen[3:])
    assert spent["r"] <= spent["a"] + spent["b"] + 2 * 0.03
    assert mine[0].turns == mine[1].turns == seen.count("a") - 1
    assert rivals[0].turns >= 3
    assert 0.001 <= mine[0].low <= mine[0].median <= mine[0].high
    assert mine[0].median < mine[1].median < rivals[0].median
    assert gc.isenabled()


def test_a_short_call_is_repeated_until_the_clock_can_see_it():
    calls = []
    ((times,), _) = timing.take_turns([timing.Turn(lambda: calls.append(1))], [], 10.0)
    assert times.turns == timing.MOST  # well before the ten seconds
    assert len(calls) > 100 * timing.MOST
    assert times.median < 1e-5


def test_what_prepares_is_not_timed():
    prepared = []

    def prepare():
        prepared.append(1)
        time.sleep(0.01)

    ((times,), _) = timing.take_turns([timing.Turn(lambda: time.sleep(0.001), prepare)], [], 0.05)
    assert len(prepared) >= times.turns
    assert times.median < 0.008


def test_every_entrant_runs_on_its_own_number_of_threads(monkeypatch):
    encode, seen = gradwire.encode, []

    def watched(codec, x, rng):
        seen.append(gradwire.get_threads())
        return encode(codec, x, rng)

    monkeypatch.setattr(gradwire, "encode", watched)
    before = gradwire.get_threads()
    gradwire.set_threads(1)
    try:
        (cell,) = plan(
            parse("--codec", "sign", "--size", 1000, "--threads", 1, "--threads", 2, "--seconds", 0.01)
        ).cells
        rows = cells.measure(cell)
        assert gradwire.get_threads() == 1
    finally:
        gradwire.set_threads(before)
    assert [item["threads"] for item in cell.items()] == [1, 2]
    assert len(rows) == 2
    assert set(seen) == {1, 2}


# Peers


@pytest.mark.parametrize("library", peers.LIBRARIES)
@pytest.mark.parametrize("spec", ["topk:k=0.01", "rtopk:k=0.01,r=0.02", "randomk:k=0.01", "sd:nu=0.1", "ud:omega=0.25"])
@pytest.mark.parametrize("source", ["gaussian", "sparse", "zero"])
def test_peers_do_what_the_codec_does(library, spec, source):
    pytest.importorskip(library)
    codec = gradwire.from_spec(spec)
    rival = peers.peer(library, codec)
    if rival is None:
        assert library in ("zstandard", "constriction") or (library, codec.name) == ("numpy", "randomk")
        return
    n = 50_000
    x = np.zeros(n, np.float32) if source == "zero" else vector(source, n)
    untouched = x.copy()
    message = rival.encode(x)
    assert np.array_equal(x, untouched)
    once, more = np.zeros(n, np.float32), np.ones(n, np.float32)
    rival.add(message, once, 1.0)
    rival.add(message, more, -0.5)
    assert np.allclose(more, 1 - 0.5 * once, rtol=1e-6, atol=1e-6)
    nmse = subjects.error(rival, message, x, np.empty_like(x))
    if source == "zero":
        assert np.array_equal(once, x)
    elif codec.name in ("topk", "rtopk"):
        best = subjects.OfCodec(gradwire.TopK(k=0.01))
        assert nmse == pytest.approx(subjects.error(best, best.encode(x), x, np.empty_like(x)), rel=1e-6)
        assert rival.size(message) == 8 * n // 100
    elif codec.name == "randomk":
        assert nmse == pytest.approx(0.99, abs=0.005)
        assert np.count_nonzero(once) <= n // 100
    else:
        assert nmse < (0.01 if library == "torch" else 0.1)
        assert rival.size(message) <= n + 4


def test_coded_peers_send_fewer_bits_and_the_same_levels():
    pytest.importorskip("zstandard")
    pytest.importorskip("constriction")
    x = vector("gaussian", 200_000)
    codec = gradwire.SparseDithering(nu=0.1)
    plain, zstd, ans = (peers.peer(library, codec) for library in ("numpy", "zstandard", "constriction"))
    sums = []
    for rival in (plain, zstd, ans):
        out = np.zeros_like(x)
        rival.add(rival.encode(x), out, 1.0)
        sums.append(out.tobytes())
    assert len(set(sums)) == 1
    bits = [8 * rival.size(rival.encode(x)) / len(x) for rival in (plain, zstd, ans)]
    entropy = -sum(p * np.log2(p) for p in np.unique(plain.encode(x).data, return_counts=True)[1] / len(x))
    assert bits[0] > bits[1] > bits[2] > entropy
    assert bits[2] < entropy + 0.02


def test_memory_of_a_known_need():
    if not memory.RESET.exists():
        pytest.skip("this system does not tell its high-water")
    n = 2_000_000
    item = {"codec": "sd:nu=0.1", "library": "numpy", "source": "gaussian", "n": n, "threads": 1}
    encode, add = memory.extra_memory(item)
    # One float32 vector of scaled entries, beside the levels, which are the message; one of float32 levels for adding.
    assert encode == pytest.approx(4 * n, rel=0.1)
    assert add == pytest.approx(4 * n, rel=0.1)
    encode, add = memory.extra_memory({**item, "codec": "identity", "library": None})
    assert max(encode, add) < 0.1 * 4 * n


# Options


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--codec", "topk:k=5000", "--size", "1000"], "k = 5000 is more"),
        (["--source", "wat"], "'wat' is no source"),
        (["--source", "none.npy"], "none.npy is not there"),
        (["--seconds", "0"], "--seconds is 0"),
        (["--seconds", "nan"], "--seconds is nan"),
        (["--threads", "0"], "--threads is 0"),
        (["--threads", "257"], "--threads is 257"),
    ],
)
def test_options_that_are_not_good(words, says):
    with pytest.raises(gradwire.GradwireError, match=re.escape(says)):
        plan(parse(*words))


@pytest.mark.parametrize("size", ["0", "1.5", "5e9", "many", "nan", "-3"])
def test_sizes_that_are_none(size, capsys):
    with pytest.raises(SystemExit):
        parse(f"--size={size}")
    assert "is no number of entries" in capsys.readouterr().err


def test_parameter_errors_come_before_anything_is_measured(tmp_path):
    done = run("--codec", "sign", "--codec", "topk:k=50", "--size", "10", "--output", tmp_path / "o")
    assert done.returncode == 2
    assert "k = 50 is more" in done.stderr
    assert not (tmp_path / "o").exists()
    with pytest.raises(ParameterError):
        plan(parse("--codec", "nothing"))
