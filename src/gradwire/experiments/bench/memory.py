"""Peak extra memory, measured in a process of its own: ``python -m gradwire.experiments.bench.memory JSON``.

Linux counts the most memory that a process has had resident, and lets it reset that count; other systems do not, and
nothing is told there.
"""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.codecs.spec import from_spec
from gradwire.errors import ParameterError
from gradwire.experiments.bench.peers import peer
from gradwire.experiments.bench.subjects import WEIGHT, OfCodec, Subject
from gradwire.experiments.bench.vectors import vector

__all__ = ["extra_memory"]

SMALLEST = 100_000
"""Entries below which nothing is told: pages of the interpreter's own weigh as much as the vector."""

WARM = 1000
"""Entries of the message that loads code and tables before anything is measured."""

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def extra_memory(item: dict[str, Any]) -> tuple[int | None, int | None]:
    """What encode and add need at their peak, in bytes, beyond their arguments and results.

    Definition: high-water of the resident memory during the first call in a fresh process, less what was resident
    before it: interpreter, x, and message or sum. The message that encode returns is taken off.

    Args:
        item: ``codec``, ``library`` (None for the codec itself), ``source``, ``n`` and ``threads``.

    Returns:
        of encode and of add; None, None where the system cannot tell it, and for short vectors.
    """
    if item["n"] < SMALLEST or not RESET.exists():
        return None, None
    threads = str(item["threads"])
    done = subprocess.run(
        [sys.executable, "-m", "gradwire.experiments.bench.memory", json.dumps(item)],
        capture_output=True,
        env={**os.environ, "GRADWIRE_THREADS": threads, "OMP_NUM_THREADS": threads},
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures memory ended with {done.returncode}: {done.stderr.decode()}")
    encode, add = json.loads(done.stdout)
    return encode, add


def _measure(item: dict[str, Any]) -> tuple[int, int]:
    codec = from_spec(item["codec"])
    rival = None if item["library"] is None else peer(item["library"], codec)
    subject = OfCodec(codec) if rival is None else rival
    x = vector(item["source"], item["n"])
    out = np.ones_like(x)
    _warm(subject, x)
    before = _start()
    message = subject.encode(x)
    encode = _resident("VmHWM") - before - subject.size(message)
    before = _start()
    subject.add(message, out, WEIGHT)
    return max(0, encode), max(0, _resident("VmHWM") - before)


def _warm(subject: Subject, x: Any) -> None:
    short = np.array(x[:WARM])
    with contextlib.suppress(ParameterError):  # a count k may be more than these
        subject.add(subject.encode(short), np.zeros_like(short), WEIGHT)


def _start() -> int:
    """Gives back freed memory, which would be used again unseen; resets the high-water; tells what is resident."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
    RESET.write_text("5")
    return _resident("VmRSS")


def _resident(name: str) -> int:
    """A line of the kernel's status of this process, in bytes."""
    for line in STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return 1024 * int(value.split()[0])
    raise OSError(f"{STATUS} has no {name}")


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
