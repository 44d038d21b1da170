"""`gradwire compare` with real worker processes, at sizes of seconds."""

import argparse
import dataclasses
import html.parser
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

from gradwire import ParameterError
from gradwire.experiments import compare
from gradwire.experiments.compare import results, teams
from gradwire.experiments.compare.settings import Settings, Task
from gradwire.experiments.compare.training import Evaluation, Part
from gradwire.report import Page, figure, styles, svg
from gradwire.torch import Measured

SMALL = ["--workers", "2", "--steps", "8", "--seeds", "2", "--codec", "identity", "--codec", "rtopk:k=0.01,r=0.03"]


def parse(*words):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return parser.parse_args(words)


def lines(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One comparison, made by the command in its own process: its folder and its standard output."""
    out = tmp_path_factory.mktemp("compare")
    done = subprocess.run(
        [sys.executable, "-m", "gradwire.experiments.compare", *SMALL, "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout


# What the job gives


def test_standard_output_is_one_json_object(made):
    _, output = made
    shown = json.loads(output)
    assert shown["complete"]
    assert [row["codec"] for row in shown["codecs"]] == ["identity", "rtopk:k=0.01,r=0.03"]
    assert all(row["seeds"] == 2 for row in shown["codecs"])


def test_every_run_has_a_line_with_its_settings_and_curves(made):
    records = lines(made[0])
    assert [(r["task"]["codec"], r["task"]["seed"]) for r in records] == [
        ("identity", 0),
        ("rtopk:k=0.01,r=0.03", 0),
        ("identity", 1),
        ("rtopk:k=0.01,r=0.03", 1),
    ]
    for r in records:
        assert len(r["curve"]["train_loss"]) == len(r["curve"]["sent_bytes"]) == 8
        assert r["curve"]["test_step"] == [0, 2, 4, 6, 8]
        assert r["accuracy"] == r["curve"]["test_accuracy"][-1]
        assert r["versions"]["gradwire"]


def test_bytes_are_those_of_the_messages(made):
    dense, sparse = lines(made[0])[:2]
    n = dense["parameters"]
    assert 0 <= dense["message_bytes"] - 4 * n < 100, "dense: four bytes an entry and a few headers"
    assert dense["nmse"] == 0
    assert 50 < sparse["ratio"] < 70
    for r in (dense, sparse):  # one other worker: what is sent is the messages, the sizes and the padding
        assert 0 < r["sent_bytes"] - r["message_bytes"] < 100 + r["message_bytes"] / 64
        assert r["bits_per_coordinate"] == pytest.approx(8 * r["message_bytes"] / n)
        assert r["ratio"] == pytest.approx(4 * n / r["message_bytes"])
    assert 0.5 < sparse["nmse"] < 1


def test_training_is_real(made):
    curve = lines(made[0])[0]["curve"]
    assert curve["test_loss"][-1] < curve["test_loss"][0]


def test_two_comparisons_are_equal_to_the_bit(made, tmp_path, capsys):
    assert compare.run(parse(*SMALL, "--out", str(tmp_path))) == 0
    first, second = lines(made[0]), lines(tmp_path)
    assert len({r["fingerprint"] for r in first}) == 4
    for a, b in zip(first, second, strict=True):
        for key in ("fingerprint", "loss", "accuracy", "message_bytes", "sent_bytes", "nmse", "curve"):
            assert a[key] == b[key], key
    table = capsys.readouterr().out
    assert "rtopk:k=0.01,r=0.03" in table
    assert "…" not in table, "the table must not be cut, whatever the terminal"


def test_torchrun_gives_the_same_bits(made, tmp_path):
    words = ["--steps", "8", "--seeds", "1", "--codec", "rtopk:k=0.01,r=0.03", "--out", str(tmp_path), "--json"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            "-m",
            "gradwire.experiments.compare",
            *words,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else None,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["complete"]
    assert lines(tmp_path)[0]["fingerprint"] == lines(made[0])[1]["fingerprint"]


@pytest.mark.long
def test_top_k_and_rtop_k_are_within_a_point_of_dense_and_random_k_behind(tmp_path):
    assert compare.run(parse("--ahead", "0", "--out", str(tmp_path))) == 0
    accuracy = {}
    for r in lines(tmp_path):
        accuracy.setdefault(r["task"]["codec"].partition(":")[0], []).append(100 * r["accuracy"])
    mean = {name: statistics.fmean(values) for name, values in accuracy.items()}
    assert mean["topk"] > mean["identity"] - 1
    assert mean["rtopk"] > mean["identity"] - 1
    assert mean["randomk"] < mean["rtopk"] - 1


# The page


class Checker(html.parser.HTMLParser):
    """Collects tags that are not closed in order, links to elsewhere, and text."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.links, self.texts, self.tags = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href") and not v.startswith("#")]

    def handle_startendtag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href") and not v.startswith("#")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_page_stands_alone_and_says_what_was_done(made):
    text = (made[0] / "report.html").read_text()
    page = Checker()
    page.feed(text)
    assert not page.wrong
    assert not page.open
    assert not page.links
    assert not re.search(r"@import|url\((?!#)|<script", text)
    assert page.tags.count("svg") == 4
    assert page.tags.count("figcaption") == 4
    assert page.tags.count("tr") == 1 + 2
    words = " ".join(page.texts)
    assert "by 2 processes" in words
    assert "What came out" in words
    assert "gradwire compare --data digits --workers 2 --steps 8" in words


def test_page_escapes_texts():
    page = Page("<b>")
    page.paragraph("<script>")
    page.table(["<i>"], [["&"]])
    assert "<script>" not in page.html()
    assert "<b>" not in page.html()
    assert "&amp;" in page.html()


def test_codecs_keep_their_colours():
    one, two = styles(["a", "b"]), styles(["a", "b", "c"])
    assert one["a"] == two["a"]
    assert len({(s.colour, s.marker) for s in styles(map(str, range(60))).values()}) == 60


def test_a_figure_is_the_same_bytes_each_time_and_scales():
    def draw():
        made, axes = figure()
        axes.plot([1, 2], [3, 4])
        return svg(made)

    assert draw() == draw()
    assert draw().startswith("<svg")
    assert not re.match(r"<svg[^>]* (width|height)=", draw())


# Ends that are not good


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--workers", "0"], "--workers is 0"),
        (["--batch", "-1"], "--batch"),
        (["--steps", "0"], "--steps"),
        (["--epochs", "0"], "--epochs"),
        (["--seeds", "0"], "--seeds"),
        (["--lr", "nan"], "--lr"),
        (["--warm-up", "-1"], "--warm-up"),
        (["--ahead", "-1"], "--ahead is -1.0"),
        (["--ahead", "nan"], "--ahead"),
        (["--ahead", "1", "--feedback", "ef21"], "keeps none"),
        (["--workers", "1000", "--batch", "1000"], "for training"),
        (["--codec", "nosuch:k=1"], "nosuch"),
        (["--codec", "topk:k=0.1", "--codec", "topk:k=0.1"], "twice"),
        (["--codec", "topk:k=2000"], "does not suit"),
        (["--codec", "topk:k=0"], "k"),
    ],
)
def test_a_bad_option_is_one_sentence_before_anything_starts(words, text, tmp_path):
    with pytest.raises(ParameterError, match=re.escape(text)) as error:
        compare.run(parse(*words, "--out", str(tmp_path / "out")))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_sentence_and_gives_two():
    done = subprocess.run(
        [sys.executable, "-m", "gradwire.experiments.compare", "--lr", "0"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "gradwire: --lr is 0.0; give a positive number\n"
    assert done.stdout == ""


def gone(group, seconds):
    """Whether no process of the group is left after so many seconds at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_leaves_what_was_measured(tmp_path):
    words = ["--workers", "2", "--steps", "40", "--seeds", "50", "--codec", "topk:k=0.01", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "gradwire.experiments.compare", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and not ((tmp_path / "results.jsonl").exists() and lines(tmp_path)):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert 1 <= len(lines(tmp_path)) < 50
    assert "of 50 runs were made" in errors
    assert "Traceback" not in errors
    assert "topk:k=0.01" in output
    assert "was ended early" in (tmp_path / "report.html").read_text()
    assert gone(process.pid, seconds=10), "workers were left behind"


def test_a_worker_that_dies_ends_the_run_with_a_sentence():
    team = teams.LocalTeam(2)
    task = dataclasses.replace(settings().common, codec="topk:k=0.01", workers=2, steps=100_000, evaluations=1)

    def kill(step, loss):
        os.kill(team._processes[1].pid, signal.SIGKILL)

    try:
        with pytest.raises(teams.WorkerError, match="worker 1 died with exit code -9"):
            team.run(task, kill)
    finally:
        team.close()


def test_a_worker_that_raises_ends_the_run_with_its_reason():
    team = teams.LocalTeam(1)
    try:
        with pytest.raises(teams.WorkerError, match=r"worker 0 failed: .*nosuch"):
            team.run(dataclasses.replace(settings().common, codec="nosuch", workers=1), lambda *_: None)
    finally:
        team.close()


def settings(**changes):
    words = [word for key, value in changes.items() for word in (f"--{key}", str(value))]
    return Settings.of(parse(*words), 4, 1297, 500)


# The numbers


def part(fingerprint="a", loss=1.0, correct=3, **measured):
    one = Measured(steps=1, coordinates=10, message_bytes=5, sent_bytes=6, error=1.0, energy=4.0, encode_ms=2.0)
    return Part(
        losses=[loss] * 3,
        measured=[dataclasses.replace(one, **measured)] * 3,
        evaluations=[Evaluation(3, loss, correct)],
        parameters=10,
        fingerprint=fingerprint,
        error_feedback=True,
        seconds=1.0,
    )


TASK = Task("digits", None, "topk:k=0.01", 0, 2, 16, 3, 1, 0.1, 0.9, 256, True)


def test_a_record_joins_the_workers():
    record = results.record(TASK, [part(correct=3), part(correct=4, loss=3.0, message_bytes=7, encode_ms=4.0)], 10)
    assert record.accuracy == 0.7
    assert record.loss == pytest.approx(0.4)
    assert record.message_bytes == 6
    assert record.bits_per_coordinate == pytest.approx(4.8)
    assert record.ratio == pytest.approx(40 / 6)
    assert record.nmse == 0.25
    assert record.encode_ms == 3.0
    assert record.curve.train_loss == [2.0, 2.0, 2.0]


def test_workers_that_end_with_different_models_are_an_error():
    with pytest.raises(RuntimeError, match="2 different models"):
        results.record(TASK, [part("a"), part("b")], 10)


def test_rows_have_mean_and_deviation_over_seeds():
    one = results.record(TASK, [part(correct=3), part(correct=3)], 10)
    row = results.rows([one, dataclasses.replace(one, accuracy=0.8), dataclasses.replace(one, accuracy=0.7)])[0]
    assert row.seeds == 3
    assert row.accuracy == pytest.approx(0.7)
    assert row.accuracy_deviation == pytest.approx(0.1)
    assert np.isnan(results.rows([one])[0].accuracy_deviation)


def test_numbers_that_are_not_finite_are_null_in_the_file(tmp_path):
    one = results.record(TASK, [part(energy=0.0), part(energy=0.0)], 10)
    results.write(one, tmp_path / "r.jsonl")
    written = json.loads((tmp_path / "r.jsonl").read_text())
    assert written["nmse"] is None
    assert written["curve"]["nmse"] == [None] * 3


def test_help_needs_no_torch():
    code = """
import argparse, sys
from gradwire.experiments import compare
compare.add_arguments(argparse.ArgumentParser())
sys.exit(repr({"torch", "matplotlib", "rich", "sklearn"} & set(sys.modules) or 0))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr in ("", "0\n"), done.stderr
