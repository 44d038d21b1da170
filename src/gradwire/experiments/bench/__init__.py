"""``gradwire bench``: how fast every codec is on this machine, beside memcpy and beside what others offer."""

import argparse
import importlib.util
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.errors import MissingError

if TYPE_CHECKING:
    from gradwire.experiments.bench.cells import Row
    from gradwire.experiments.bench.machine import Machine
    from gradwire.experiments.bench.plan import Cell
    from gradwire.experiments.bench.rows import Rows

__all__ = ["add_arguments", "run"]

OK, INTERRUPTED = 0, 130

MACHINES = Path("benchmarks/results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``gradwire bench``."""
    parser.add_argument(
        "--codec", action="append", metavar="SPEC", help="a codec, e.g. topk:k=0.01; repeat it (default: all)"
    )
    parser.add_argument(
        "--size",
        action="append",
        type=_count,
        metavar="N",
        help="entries, e.g. 25e6; repeat it (default: 1e3, 1e5, 1e6, 25e6)",
    )
    parser.add_argument(
        "--threads", action="append", type=int, metavar="T", help="threads; repeat it (default: 1 and, if there, 2)"
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="NAME",
        help="gaussian, laplace, student-t, sparse, or a .npy, .safetensors or .pt file of real gradients; repeat it "
        "(default: gaussian)",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="time for each codec and vector (default: 2)")
    parser.add_argument(
        "--against",
        nargs="*",
        choices=["torch", "numpy", "zstandard", "constriction"],
        metavar="PEER",
        help="measure peers beside the codecs: torch, numpy, zstandard, constriction (default: those installed)",
    )
    parser.add_argument("--quick", action="store_true", help="two sizes, one thread, 0.2 s: under a minute")
    parser.add_argument(
        "--output", type=Path, default=Path("results/bench"), metavar="DIR", help="results go there (%(default)s)"
    )
    parser.add_argument(
        "--save-machine",
        type=Path,
        nargs="?",
        const=MACHINES,
        metavar="DIR",
        help=f"also write DIR/<processor>.csv when all is measured (DIR: {MACHINES})",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, and nothing else, on stdout")


def _count(text: str) -> int:
    """A whole number, 25e6 among them."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not (1 <= value < 2**32 and value == int(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of entries: give 1 … 2^32 − 1, such as 25e6")
    return int(value)


def run(args: argparse.Namespace) -> int:
    """``gradwire bench``: 0, or 130 when interrupted (all that was measured is kept).

    Raises:
        GradwireError: an option, a codec or a file that is not good; matplotlib or rich are not installed.
    """
    for module in ("matplotlib", "rich"):
        if importlib.util.find_spec(module) is None:
            raise MissingError(f"gradwire bench needs {module}: pip install 'gradwire[experiments]'")
    from gradwire.experiments.bench.machine import this_machine
    from gradwire.experiments.bench.plan import plan
    from gradwire.experiments.bench.rows import Rows

    wanted, here = plan(args), this_machine()
    for library in wanted.absent:
        print(f"gradwire bench: {library} is not installed: pip install 'gradwire[bench]'", file=sys.stderr)
    rows = Rows(args.output / "results.jsonl", here)
    missing = [cell for cell in wanted.cells if cell not in rows]
    if len(missing) < len(wanted.cells):
        there = len(wanted.cells) - len(missing)
        print(f"gradwire bench: {there} of {len(wanted.cells)} cells are there already", file=sys.stderr)
    status = OK
    try:
        _measure(rows, missing)
    except KeyboardInterrupt:
        status = INTERRUPTED
        there = sum(cell in rows for cell in wanted.cells)
        print(
            f"gradwire bench: interrupted; {there} of {len(wanted.cells)} cells are kept in {rows.path}, and the same "
            "command goes on from there",
            file=sys.stderr,
        )
    _write(args, rows.of(wanted.cells), here, complete=status == OK)
    return status


def _measure(rows: "Rows", cells: "Sequence[Cell]") -> None:
    from gradwire.experiments.bench.cells import measure
    from gradwire.experiments.reproduce.progress import progress

    if not cells:
        return
    with progress("gradwire bench", len(cells)) as shown:
        for cell in cells:
            shown.begin(f"{cell.codec}, {cell.source}, {cell.n:,} entries")
            start = time.perf_counter()
            rows.add(cell, measure(cell), time.perf_counter() - start)
            shown.done()


def _write(args: argparse.Namespace, rows: "list[Row]", here: "Machine", complete: bool) -> None:
    """The table, CSV and page of what is measured so far; a machine's file of whole runs only."""
    from gradwire.experiments.bench.page import page
    from gradwire.experiments.bench.table import as_csv, text

    files: dict[str, str] = {}
    if rows:
        csv, html = args.output / "results.csv", args.output / "report.html"
        csv.write_text(as_csv(rows), encoding="utf-8")
        html.write_text(page(rows, here, _command(args), complete), encoding="utf-8")
        files = {"lines": str(args.output / "results.jsonl"), "csv": str(csv), "page": str(html)}
        if args.save_machine is not None and complete:
            args.save_machine.mkdir(parents=True, exist_ok=True)
            saved = args.save_machine / f"{here.slug()}.csv"
            saved.write_text(as_csv(rows), encoding="utf-8")
            files["machine"] = str(saved)
    if args.json:
        result = {"complete": complete, "machine": asdict(here), "rows": rows, "files": files}
        print(json.dumps(result, ensure_ascii=False, allow_nan=False))
    elif rows:
        print(text(rows))
        print("\n" + "\n".join(f"{kind}: {path}" for kind, path in files.items()))


def _command(args: argparse.Namespace) -> str:
    """The command that measures the same."""
    words = ["gradwire", "bench"]
    for name in ("codec", "size", "threads", "source"):
        for value in getattr(args, name) or ():
            words += [f"--{name}", str(value)]
    if args.seconds is not None:
        words += ["--seconds", f"{args.seconds:g}"]
    if args.against is not None:
        words += ["--against", *args.against]
    return shlex.join(words + (["--quick"] if args.quick else []))
