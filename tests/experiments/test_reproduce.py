"""The frame of ``gradwire reproduce``: rows are kept, runs go on, pages stand alone, and each experiment fits in it."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.errors import InputError, ParameterError
from gradwire.experiments import reproduce
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Check, Experiment, Findings, Plot, Settings, Table, item_rng
from gradwire.experiments.reproduce.page import command_line, number, page, text
from gradwire.experiments.reproduce.results import ResultsFile, item_key

MEASURED = []


def _items(settings):
    return [{"m": m, "seed": seed} for m in range(2 if settings.quick else 4) for seed in range(settings.seeds)]


def _measure(item, settings):
    MEASURED.append(item)
    return {"value": item["m"] + 0.1 * item["seed"]}


def _findings(rows, settings):
    with style.drawing(1, 1) as (figure, (axes,)):
        axes.plot([row["m"] for row in rows], [row["value"] for row in rows], color=style.COLOURS["rtopk"])
        axes.set(xlabel="m", ylabel="value")
    total = sum(row["value"] for row in rows)
    return Findings(
        verdict=f"The sum is {total:.1f} & the rest <nothing>.",
        checks=[Check("sum below 10", "< 10", f"{total:.1f}", total < 10), Check("told only", "–", "–", None)],
        plots=[Plot("line", "A <line>.", figure)],
        tables=[
            Table(
                "Rows", ("m", "value", "none", "text"), [(r["m"], r["value"], None, "a < b") for r in rows], "A note."
            )
        ],
        differences=["None & nothing."],
    )


TOY = Experiment(
    name="toy",
    title="A toy <title>",
    claim="Claims & such.",
    source="Nobody.",
    shows="nothing",
    method="First.\n\nSecond.",
    seeds=(3, 2),
    items=_items,
    measure=_measure,
    findings=_findings,
)


@pytest.fixture
def toy(monkeypatch):
    import gradwire.experiments.reproduce as package

    MEASURED.clear()
    monkeypatch.setattr(package, "load", lambda name: TOY)
    return TOY


def _args(*words):
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    return parser.parse_args(list(words))


def _run(tmp_path, *words):
    return reproduce.run(_args("toy", "--out", str(tmp_path), *words))


def test_a_run_leaves_rows_figures_and_a_page(toy, tmp_path, capsys):
    assert _run(tmp_path) == 1  # the sum, 19.2, is not below 10
    folder = tmp_path / "toy"
    assert {p.name for p in folder.iterdir()} == {"results.jsonl", "index.html", "line.png", "line.svg"}
    assert len((folder / "results.jsonl").read_text().splitlines()) == 12
    assert (folder / "line.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "line.svg").read_text()
    out = capsys.readouterr().out
    assert "The sum is 19.2" in out
    assert "does not hold" in out


def test_a_second_run_measures_nothing_and_gives_the_same_files(toy, tmp_path):
    assert _run(tmp_path, "--quick") == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "toy").iterdir()}
    MEASURED.clear()
    assert _run(tmp_path, "--quick") == 0
    assert MEASURED == []
    assert {p.name: p.read_bytes() for p in (tmp_path / "toy").iterdir()} == before


def test_more_seeds_add_to_what_is_there(toy, tmp_path):
    _run(tmp_path, "--quick")
    MEASURED.clear()
    _run(tmp_path, "--quick", "--seeds", "3")
    assert MEASURED == [{"m": 0, "seed": 2}, {"m": 1, "seed": 2}]


def test_other_settings_are_not_mixed_in(toy, tmp_path, capsys):
    _run(tmp_path, "--seeds", "3")
    capsys.readouterr()
    assert _run(tmp_path, "--quick", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 4
    assert found["measured_now"] == 0
    assert found["verdict"].startswith("The sum is 2.2")


def test_another_version_is_measured_anew(toy, tmp_path):
    item = {"m": 1, "seed": 0}
    key = item_key(TOY, item)
    assert key == item_key(TOY, {"seed": 0, "m": 1})
    others = [
        item_key(TOY, {"m": 1, "seed": 1}),
        item_key(replace(TOY, version=2), item),
        item_key(replace(TOY, name="x"), item),
    ]
    assert len({key, *others}) == 4


def test_an_interrupted_run_keeps_what_it_has(toy, tmp_path, monkeypatch, capsys):
    def interrupted(item, settings):
        if item["m"] == 1:
            raise KeyboardInterrupt
        return _measure(item, settings)

    monkeypatch.setattr(reproduce, "load", lambda name: replace(TOY, measure=interrupted))
    assert _run(tmp_path) == 130
    assert "3 of 12 are kept" in capsys.readouterr().err
    assert not (tmp_path / "toy" / "index.html").exists()
    monkeypatch.setattr(reproduce, "load", lambda name: TOY)
    MEASURED.clear()
    assert _run(tmp_path) == 1
    assert len(MEASURED) == 9


def test_a_line_cut_off_is_dropped_and_measured_again(toy, tmp_path):
    _run(tmp_path, "--quick")
    path = tmp_path / "toy" / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    MEASURED.clear()
    assert _run(tmp_path, "--quick") == 0
    assert MEASURED == [{"m": 1, "seed": 1}]
    assert [json.loads(line)["item"] for line in path.read_text().splitlines()] == _items(Settings(True, 2, Path()))


@pytest.mark.parametrize("line", ["{not json", "[1, 2]", '{"key": "a"}', '{"key": "a", "measured": 3, "seconds": 1}'])
def test_a_foreign_line_is_named(tmp_path, line):
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "k", "item": {}, "measured": {}, "seconds": 1}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        ResultsFile(path)


def test_results_refuse_what_json_cannot_hold(tmp_path):
    results = ResultsFile(tmp_path / "deep" / "results.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        results.add("key", {}, {"value": float("nan")}, 0.0)
    assert not results.path.exists()


def test_the_page_stands_alone_and_escapes(toy):
    settings = Settings(quick=True, seeds=2, data_dir=Path())
    rows = [{**item, "value": 1.0, "seconds": 0.5} for item in _items(settings)]
    html = page(TOY, _findings(rows, settings), rows, settings)
    for said in (
        "A toy &lt;title&gt;",
        "Claims &amp; such.",
        "a &lt; b",
        "A &lt;line&gt;.",
        "<p>Second.</p>",
        "2 seeds",
        "A note.",
    ):
        assert said in html
    assert "gradwire reproduce toy --quick\n" in html or "gradwire reproduce toy --quick<" in html
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "<script" not in html
    said = text(_findings(rows, settings))
    assert "told only" in said
    assert "reported" in said


def test_the_command_on_the_page_is_the_one_that_was_run():
    assert command_line(TOY, Settings(False, 3, Path())) == "gradwire reproduce toy"
    assert command_line(TOY, Settings(True, 5, Path())) == "gradwire reproduce toy --quick --seeds 5"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (9.996, "10.0"),
        (10.0, "10.0"),
        (99.96, "100"),
        (0.05, "0.0500"),
        (-0.5, "-0.500"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_have_three_digits(value, shown):
    assert number(value) == shown


def test_wrong_arguments_say_what_to_do(toy, tmp_path):
    with pytest.raises(ParameterError, match="--seeds is 0"):
        _run(tmp_path, "--seeds", "0")
    with pytest.raises(ParameterError, match="minimax-estimation"):
        reproduce.run(_args("--out", str(tmp_path)))


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ParameterError, match="rtopk-common-gradient"):
        reproduce.load("nothing")


def test_the_list_tells_what_each_shows(capsys):
    assert reproduce.run(_args("--list")) == 0
    out = capsys.readouterr().out
    assert reproduce.run(_args("--list", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(reproduce.EXPERIMENTS)
    for entry in listed:
        assert entry["name"] in out
        assert entry["shows"] in out


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from gradwire.experiments import reproduce\n"
        "[reproduce.load(name) for name in reproduce.EXPERIMENTS]\n"
        "print([m for m in ('torch', 'scipy', 'sklearn', 'matplotlib', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", list(reproduce.EXPERIMENTS))
@pytest.mark.parametrize("quick", [True, False])
def test_each_experiment_keeps_the_rules(name, quick, tmp_path):
    experiment = reproduce.load(name)
    assert experiment.name == name
    for said in (experiment.title, experiment.claim, experiment.source, experiment.shows, experiment.method):
        assert said.strip()
    few, more = (experiment.items(Settings(quick, seeds, tmp_path)) for seeds in (1, 2))
    keys = [item_key(experiment, item) for item in more]  # items are JSON
    assert len(set(keys)) == len(keys)
    assert {item_key(experiment, item) for item in few} < set(keys)  # more seeds keep what was measured
    assert all(json.loads(json.dumps(item)) == item for item in more)


def test_an_item_is_its_own_seed():
    rng = item_rng({"m": 1, "seed": 0})
    assert rng == item_rng({"seed": 0, "m": 1})
    assert rng != item_rng({"m": 1, "seed": 1})


SLOW = """
import sys, time
from gradwire import cli
from gradwire.experiments.reproduce import registry
from gradwire.experiments.reproduce.experiment import Check, Experiment, Findings

def measure(item, settings):
    time.sleep(0.05)
    return {"twice": 2 * item["seed"]}

def findings(rows, settings):
    return Findings("-", [Check("all", "-", "-", [r["twice"] for r in rows] == [2 * s for s in range(40)])], [])

EXPERIMENT = Experiment(
    name="slow", title="-", claim="-", source="-", shows="-", method="-", seeds=(40, 40),
    items=lambda settings: [{"seed": seed} for seed in range(settings.seeds)],
    measure=measure,
    findings=findings,
)
registry.EXPERIMENTS["slow"] = "slow"
if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", "slow", "--out", sys.argv[1]]))
"""


def test_ctrl_c_ends_a_real_run_and_the_next_goes_on(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, str(tmp_path / "slow.py"), str(tmp_path)]
    path = tmp_path / "slow" / "results.jsonl"
    child = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background has them ignore SIGINT, and the child would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < 3:
            assert child.poll() is None, child.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130, err
    kept = path.read_bytes()
    count = kept.count(b"\n")
    assert kept.endswith(b"\n")
    assert 3 <= count < 40
    assert f"interrupted; {count} of 40 are kept" in err

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{count} of 40 are there already" in done.stderr
    assert path.read_bytes().startswith(kept)
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 40
