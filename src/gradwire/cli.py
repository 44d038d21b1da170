"""The command ``gradwire``: encode, decode and inspect files; compare and measure codecs; write golden vectors."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradwire
from gradwire.errors import GradwireError, InputError

__all__ = ["main"]

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130


@dataclass(frozen=True)
class Command:
    """One sub-command: its parser is filled and its work done by these two, imported when needed."""

    name: str
    summary: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    try:
        args = _parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
        return int(args.run(args))
    except GradwireError as e:
        print(f"gradwire: {e}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # the reader of our output has gone, as `head` does: say no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as e:
        print(f"gradwire: {e.filename or 'the system'}: {e.strerror or e}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("gradwire: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradwire", description=(gradwire.__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"gradwire {gradwire.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=f"example:\n  {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.name in argv:  # the others' arguments, and what these import, are not needed
            command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    width = max(map(len, result))
    for key, value in result.items():
        text = f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
        print(f"{key.replace('_', ' '):<{width}}  {text}")


def _encode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=Path, help="the vector: .npy, .safetensors or .pt")
    parser.add_argument("output", type=Path, help="the message, usually .gw")
    parser.add_argument("--codec", required=True, metavar="SPEC", help="such as rtopk:k=0.001,r=0.004")
    parser.add_argument("--seed", type=int, default=0, help="of the codec's randomness (default 0)")
    parser.add_argument(
        "--tensor", metavar="NAME", help="one tensor of a file that holds several (default: all, joined)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _encode(args: argparse.Namespace) -> int:
    import numpy as np

    from gradwire.codecs.arrays import as_input
    from gradwire.files import read_vector

    x = as_input(read_vector(args.input, args.tensor))
    message = gradwire.encode(args.codec, x, args.seed)
    seen = gradwire.inspect(message)
    difference = gradwire.decode(message, len(x)).astype(np.float64) - x
    energy = float(np.dot(x, x.astype(np.float64)))
    args.output.write_bytes(message)
    _show(
        {
            "output": str(args.output),
            "codec": args.codec,
            "n": seen.n,
            "bytes": seen.bytes,
            "bits_per_coordinate": _finite(seen.bits_per_coordinate),
            "ratio": seen.ratio,
            "nmse": float(np.dot(difference, difference)) / energy if energy else 0.0,
        },
        args.json,
    )
    return OK


def _decode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=Path, help="the message")
    parser.add_argument("output", type=Path, help="the vector, .npy, float32 (n,)")
    parser.add_argument(
        "--n", type=int, help="the number of entries you expect; another one in the message is an error"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


N_UNASKED = 2**30
"""Without --n a message from anyone decides how much is allocated: 4 GiB at most."""


def _decode(args: argparse.Namespace) -> int:
    from gradwire.files import write_vector

    message = _read_message(args.input)
    n = args.n
    if n is None:
        n = gradwire.inspect(message).n
        if n > N_UNASKED:
            raise InputError(
                f"{args.input} says that it holds {n:,} entries: if you expect that, repeat it with --n {n}"
            )
    if n < 0:
        raise InputError(f"--n {n} is no number of entries")
    write_vector(args.output, gradwire.decode(message, n))
    _show({"output": str(args.output), "n": n, "bytes": len(message)}, args.json)
    return OK


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", type=Path, help="the message")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _inspect(args: argparse.Namespace) -> int:
    seen = gradwire.inspect(_read_message(args.input)).as_dict()
    details = seen.pop("details")
    seen["bits_per_coordinate"] = _finite(seen["bits_per_coordinate"])
    _show({**seen, "details": details} if args.json else {**seen, **details}, args.json)
    return OK


def _finite(value: float) -> float | None:
    """JSON has no infinity: bits per coordinate of an empty vector are none."""
    return value if value < float("inf") else None


def _read_message(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path} is not there: give a message file that exists")
    return path.read_bytes()


def _of_module(path: str) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]:
    """The two functions of a command that is a module of its own, imported when it is used."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        importlib.import_module(path).add_arguments(parser)

    def run(args: argparse.Namespace) -> int:
        return int(importlib.import_module(path).run(args))

    return add_arguments, run


COMMANDS = (
    Command(
        "compare",
        "train one model with several codecs on real worker processes and show them side by side",
        "gradwire compare --codec identity --codec rtopk:k=0.01,r=0.03 --seeds 3",
        *_of_module("gradwire.experiments.compare"),
    ),
    Command(
        "encode",
        "turn the vector in a file into a message",
        "gradwire encode grad.npy grad.gw --codec rtopk:k=0.001,r=0.004",
        _encode_arguments,
        _encode,
    ),
    Command(
        "decode", "turn a message back into a vector", "gradwire decode grad.gw grad.npy", _decode_arguments, _decode
    ),
    Command("inspect", "show what a message holds", "gradwire inspect grad.gw --json", _inspect_arguments, _inspect),
    Command(
        "bounds",
        "show how few bits an error α can cost, and what each codec needs for it",
        "gradwire bounds --alpha 0.1 --dim 1000",
        *_of_module("gradwire.experiments.bounds_table"),
    ),
    Command(
        "bench",
        "measure how fast every codec is on this machine, beside memcpy and other libraries",
        "gradwire bench --codec topk:k=0.01 --size 25e6 --against",
        *_of_module("gradwire.experiments.bench"),
    ),
    Command(
        "reproduce",
        "repeat a figure or table of the papers, or list them",
        "gradwire reproduce rate-distortion --quick",
        *_of_module("gradwire.experiments.reproduce"),
    ),
    Command(
        "vectors",
        "check the golden vectors of the wire format, or add those of a new codec",
        "gradwire vectors check tests/golden",
        *_of_module("gradwire.vectors"),
    ),
)
