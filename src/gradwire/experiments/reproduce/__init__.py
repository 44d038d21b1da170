"""``gradwire reproduce``: one experiment of the papers behind one command, with figures, rows and a page.

Every experiment runs the same way: ``items`` lists the work, ``measure`` does one piece, each row is written to
``<out>/<name>/results.jsonl`` at once (so an interrupted run goes on where it stopped), and ``findings`` makes figures
(PNG, SVG) and ``index.html`` from the rows.

To add one:

1. Write ``gradwire/experiments/<name>.py`` with ``EXPERIMENT = Experiment(...)``; each field is told in
   ``experiment.py``, and ``rtopk_common_gradient.py`` is a whole example. Import numpy and gradwire at the top; torch,
   scipy, scikit-learn and matplotlib inside the functions that use them, as ``--list`` imports every experiment.
2. An item is plain JSON data that alone decides its row: parameters, number of trials, seed, name (and, where files may
   differ, checksum) of its data set. Make one item for each seed: then more seeds later add to what is there.
3. Randomness comes from ``item_rng(item)``, or from ``gradwire.Rng`` of the item's seed where items must share it.
4. Sizes are ``len()`` of real messages. Colours are ``style.COLOURS``, by codec; canvases ``style.drawing``.
5. Judge by ``Check``s with the number expected and the number found; a failed one makes the exit code 1. Say plainly,
   in ``differences``, where the paper was left or does not hold.
6. Add its line to ``EXPERIMENTS`` in ``registry.py``, and its section to ``docs/experiments.md``. A quick run takes
   less than 60 s on two cores; ``tests/experiments/test_reproduce.py`` checks what can be checked of all experiments.
"""

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

from gradwire.errors import MissingError, ParameterError
from gradwire.experiments.reproduce import style
from gradwire.experiments.reproduce.experiment import Experiment, Findings, Item, Settings
from gradwire.experiments.reproduce.page import page, text
from gradwire.experiments.reproduce.progress import progress
from gradwire.experiments.reproduce.registry import EXPERIMENTS, load
from gradwire.experiments.reproduce.results import ResultsFile, item_key

__all__ = ["EXPERIMENTS", "add_arguments", "load", "run"]

OK, NOT_REPRODUCED, INTERRUPTED = 0, 1, 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``gradwire reproduce``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"the experiment: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--list", action="store_true", help="tell what each experiment shows")
    parser.add_argument("--quick", action="store_true", help="a small run, under a minute")
    parser.add_argument("--seeds", type=int, metavar="N", help="repeat with N seeds (default: the experiment's own)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/reproduce"),
        metavar="DIR",
        help="results go to DIR/NAME (%(default)s)",
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path("data"), metavar="DIR", help="where data sets lie (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """``gradwire reproduce``: 0, or 1 if a check failed, or 130 if interrupted (all that was measured is kept)."""
    if args.list:
        _show_list(args.json)
        return OK
    if args.name is None:
        raise ParameterError(f"name an experiment ({', '.join(EXPERIMENTS)}), or give --list")
    experiment = load(args.name)
    if args.seeds is not None and args.seeds < 1:
        raise ParameterError(f"--seeds is {args.seeds}: give at least 1")
    for module in ("matplotlib", "rich", "scipy"):
        if importlib.util.find_spec(module) is None:
            raise MissingError(f"{module} is not installed: pip install 'gradwire[experiments]'")

    seeds = args.seeds if args.seeds is not None else experiment.seeds[args.quick]
    settings = Settings(args.quick, seeds, args.data_dir)
    items = experiment.items(settings)
    keys = [item_key(experiment, item) for item in items]
    folder = args.out / experiment.name
    results = ResultsFile(folder / "results.jsonl")
    missing = [(key, item) for key, item in zip(keys, items, strict=True) if key not in results]
    if len(missing) < len(items):
        print(f"{experiment.name}: {len(items) - len(missing)} of {len(items)} are there already", file=sys.stderr)
    try:
        _measure(experiment, settings, results, missing)
    except KeyboardInterrupt:
        kept = sum(key in results for key in keys)
        print(
            f"{experiment.name}: interrupted; {kept} of {len(items)} are kept in {results.path}, "
            "and the same command goes on from there",
            file=sys.stderr,
        )
        return INTERRUPTED

    rows = [results.row(key, item) for key, item in zip(keys, items, strict=True)]
    findings = experiment.findings(rows, settings)
    html = folder / "index.html"
    _write_figures(folder, findings)
    html.write_text(page(experiment, findings, rows, settings), encoding="utf-8")
    if args.json:
        print(json.dumps(_as_json(experiment, findings, len(rows), len(missing), folder), allow_nan=False))
    else:
        print(f"{text(findings)}\n\n{html}: the page, with figures")
    return OK if findings.holds else NOT_REPRODUCED


def _measure(experiment: Experiment, settings: Settings, results: ResultsFile, missing: list[tuple[str, Item]]) -> None:
    if not missing:
        return
    with progress(experiment.name, len(missing)) as shown:
        for key, item in missing:
            shown.begin(" ".join(f"{k} {v}" for k, v in item.items() if not isinstance(v, list | dict)))
            start = time.perf_counter()
            measured = experiment.measure(item, settings)
            results.add(key, item, measured, time.perf_counter() - start)
            shown.done()


def _write_figures(folder: Path, findings: Findings) -> None:
    for plot in findings.plots:
        (folder / f"{plot.name}.png").write_bytes(style.png(plot.figure))
        (folder / f"{plot.name}.svg").write_bytes(style.svg(plot.figure))


def _as_json(experiment: Experiment, findings: Findings, rows: int, measured: int, folder: Path) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "claim": experiment.claim,
        "holds": findings.holds,
        "verdict": findings.verdict,
        "checks": [vars(check) for check in findings.checks],
        "tables": [vars(table) for table in findings.tables],
        "differences": list(findings.differences),
        "rows": rows,
        "measured_now": measured,
        "page": str(folder / "index.html"),
        "figures": [str(folder / f"{plot.name}.{form}") for plot in findings.plots for form in ("png", "svg")],
    }


def _show_list(as_json: bool) -> None:
    experiments = [load(name) for name in EXPERIMENTS]
    if as_json:
        print(json.dumps([{"name": e.name, "title": e.title, "claim": e.claim, "shows": e.shows} for e in experiments]))
        return
    print("\n\n".join(f"{e.name}\n  {e.title}\n  {e.shows}" for e in experiments))
