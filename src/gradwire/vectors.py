"""Golden vectors: messages written once, which every later version must give and read, byte for byte.

This module is the only writer of golden files; a file that is there is never written again.
"""

import argparse
import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwire
from gradwire.codecs.base import Floats
from gradwire.errors import InputError, ParameterError

__all__ = ["INPUTS", "add_arguments", "check_file", "run", "vector"]

SEED = 0x0123_4567_89AB_CDEF


def vector(name: str) -> Floats:
    """An input of the golden vectors, by name: float32 (n,), the same bits everywhere."""
    u = gradwire.Rng(SEED, stream=hash_of(name)).uniform(
        INPUTS[name] * (12 if name.startswith("normal") else 1)
    ) - np.float32(0.5)
    if name.startswith("heavy"):
        # A ratio of uniforms: exactly rounded operations only, and tails like those of gradients.
        w = gradwire.Rng(SEED, stream=hash_of(name) + 1).uniform(len(u))
        return u / (w * w + np.float32(2**-12))
    if name.startswith("normal"):
        return sum((u[i::12] for i in range(1, 12)), u[::12])
    if name.startswith("sparse"):
        u[np.arange(len(u)) % 7 != 3] = 0.0
    if name.startswith("equal"):
        u[:] = np.where(u < 0, np.float32(-0.75), np.float32(0.75))
    if name.startswith("wide"):
        u = np.ldexp(u, np.arange(len(u)) % 250 - 125).astype(np.float32)  # exact
    return u


INPUTS = {
    "empty-0": 0,
    "one-1": 1,
    "equal-10": 10,
    "wide-500": 500,
    "sparse-1000": 1000,
    "normal-2000": 2000,
    "normal-6000": 6000,
    "heavy-100": 100,
    "heavy-20000": 20000,
}
"""Name and number of entries of each input."""


def hash_of(name: str) -> int:
    """A stream number for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") * 2


def entries(spec: str) -> Iterator[dict[str, Any]]:
    """The golden entries of one codec, encoded now."""
    codec = gradwire.from_spec(spec)
    for name in INPUTS:
        x = vector(name)
        try:
            message = gradwire.encode(codec, x, SEED)
        except ParameterError:  # a count that is more than this input's n
            continue
        yield {
            "spec": spec,
            "input": name,
            "input_sha256": _digest(x),
            "seed": SEED,
            "message": message.hex(),
            "output_sha256": _digest(gradwire.decode(message, len(x))),
        }


def check_file(path: Path) -> Iterator[str]:
    """Sentences on what differs between a golden file and what this gradwire does; none if all is well."""
    for entry in json.loads(path.read_text())["vectors"]:
        what = f"{path.name}: {entry['spec']} of {entry['input']}"
        x = vector(entry["input"])
        golden = bytes.fromhex(entry["message"])
        if _digest(x) != entry["input_sha256"]:
            yield f"{what}: the input is another one"
        elif _digest(gradwire.decode(golden, len(x))) != entry["output_sha256"]:
            yield f"{what}: the message decodes to something else"
        elif gradwire.encode(entry["spec"], x, entry["seed"]) != golden:
            yield f"{what}: the input encodes to other bytes"


def _digest(x: Floats) -> str:
    return hashlib.sha256(x.astype("<f4").tobytes()).hexdigest()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``gradwire vectors``."""
    parser.add_argument("action", choices=["add", "check"], help="add those of a new codec, or check what is there")
    parser.add_argument("name", nargs="?", help="add: the codec's name, which must have its row in the examples")
    parser.add_argument("--examples", type=Path, default=Path("tests/examples.py"), help="the table of examples")
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"), help="the folder of golden files")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """``gradwire vectors``."""
    if args.action == "check":
        paths = sorted(args.golden.glob("*.json"))
        if not paths:
            raise InputError(f"{args.golden} has no golden files: run this in the project's folder, or give --golden")
        found = [line for path in paths for line in check_file(path)]
        text = "\n".join(found) or f"{len(paths)} golden files hold"
        print(json.dumps({"files": len(paths), "differences": found}) if args.json else text)
        return 1 if found else 0
    if args.name not in gradwire.CODECS:
        raise InputError(f"{args.name!r} is no codec: give one of {', '.join(sorted(gradwire.CODECS))}")
    path = args.golden / f"{args.name}.json"
    if path.exists():
        raise InputError(f"{path} is there, and golden vectors are for ever: add a file under a new codec's name")
    specs = [spec for spec in _examples(args.examples) if gradwire.from_spec(spec).name == args.name]
    if not specs:
        raise InputError(f"{args.examples} has no example of {args.name}: add its row first")
    path.parent.mkdir(parents=True, exist_ok=True)
    vectors = [entry for spec in specs for entry in entries(spec)]
    path.write_text(json.dumps({"format_version": 1, "codec": args.name, "vectors": vectors}, indent=1) + "\n")
    print(json.dumps({"file": str(path), "vectors": len(vectors)}) if args.json else f"{path}: {len(vectors)} vectors")
    return 0


def _examples(path: Path) -> list[str]:
    spec = importlib.util.spec_from_file_location("examples", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError(f"{path} is not there: run this in the project's folder, or give --examples")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.EXAMPLES)
