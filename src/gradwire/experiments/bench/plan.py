"""What one run measures: its cells, from the options."""

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradwire
from gradwire.errors import InputError, ParameterError
from gradwire.experiments.bench.peers import LIBRARIES, missing, peer
from gradwire.experiments.bench.subjects import OfCodec, Subject
from gradwire.experiments.bench.vectors import is_file, vector
from gradwire.kernels.threads import MOST, default_threads

__all__ = ["CODECS", "Cell", "Entrant", "Item", "Plan", "plan"]

CODECS = (
    "identity",
    "identity:dtype=bfloat16",
    "topk:k=0.01",
    "topk:k=0.001",
    "rtopk:k=0.01,r=0.02",
    "randomk:k=0.01",
    "threshold:t=2.5",
    "sd:nu=0.1",
    "ud:omega=0.25",
    "qsgd:levels=16,bucket=512",
    "natural",
    "naturaldithering:levels=14",
    "ternary",
    "sign",
    "kashin",
    "spherical:alpha=0.25,block=8",
)
"""Every codec, as one would use it."""

SIZES, QUICK_SIZES = (1_000, 100_000, 1_000_000, 25_000_000), (10_000, 1_000_000)
SECONDS, QUICK_SECONDS = 2.0, 0.2
THREADS, QUICK_THREADS = (1, 2), (1,)

Item = dict[str, Any]
"""What decides a row, as plain data."""


@dataclass(frozen=True)
class Entrant:
    """What takes turns in a cell: a subject and its number of threads; ``library`` is None for the codec itself."""

    subject: Subject
    library: str | None
    threads: int


@dataclass(frozen=True)
class Cell:
    """One codec on one vector, with each number of threads, and the libraries whose peers take turns with it."""

    codec: str
    source: str
    checksum: str | None
    n: int
    threads: tuple[int, ...]
    seconds: float
    libraries: tuple[str, ...] = ()

    def entrants(self) -> list[Entrant]:
        """All that take turns; a peer that knows no threads only once."""
        codec = gradwire.from_spec(self.codec)
        subjects: list[tuple[Subject, str | None]] = [(OfCodec(codec), None)]
        subjects += [(rival, library) for library in self.libraries if (rival := peer(library, codec)) is not None]
        return [
            Entrant(subject, library, threads)
            for threads in self.threads
            for subject, library in subjects
            if subject.threaded or threads == self.threads[0]
        ]

    def items(self) -> list[Item]:
        """What decides each row, in the order of the entrants."""
        same = {"source": self.source, "n": self.n, "budget_s": self.seconds}
        if self.checksum is not None:
            same["checksum"] = self.checksum
        return [
            {"name": one.subject.name, "library": one.library, "threads": one.threads, **same}
            for one in self.entrants()
        ]


@dataclass(frozen=True)
class Plan:
    """The cells in the order of measuring, and peers that were asked for and are not installed."""

    cells: tuple[Cell, ...]
    absent: tuple[str, ...]


def plan(args: argparse.Namespace) -> Plan:
    """The plan that the options ask for.

    Raises:
        GradwireError: an option, codec or file that is not good, or a codec that does not fit a size.
    """
    codecs = [str(gradwire.from_spec(spec)) for spec in args.codec or CODECS]
    threads = args.threads or [t for t in (QUICK_THREADS if args.quick else THREADS) if t <= default_threads({})[0]]
    seconds = args.seconds if args.seconds is not None else QUICK_SECONDS if args.quick else SECONDS
    if not 0 < seconds < float("inf"):
        raise ParameterError(f"--seconds is {seconds}: give a positive number")
    for count in threads:
        if not 1 <= count <= MOST:
            raise ParameterError(f"--threads is {count}: give 1 … {MOST}")
    asked = () if args.against is None else tuple(args.against or LIBRARIES)
    absent = tuple(library for library in asked if missing(library))
    present = tuple(library for library in asked if library not in absent)

    cells = []
    seen = set[tuple[str, str, int]]()  # peers: each is measured once, beside the first codec that it rivals
    for source, checksum, n in _vectors(args):
        for spec in dict.fromkeys(codecs):
            codec = gradwire.from_spec(spec)
            codec.check(n)
            libraries = []
            for library in present:
                rival = peer(library, codec)
                if rival is not None and (key := (rival.name, source, n)) not in seen:
                    seen.add(key)
                    libraries.append(library)
            cells.append(Cell(spec, source, checksum, n, tuple(dict.fromkeys(threads)), seconds, tuple(libraries)))
    return Plan(tuple(cells), absent)


def _vectors(args: argparse.Namespace) -> list[tuple[str, str | None, int]]:
    """Source, checksum of a file, and entries; files have all their entries where no size is given."""
    found: list[tuple[str, str | None, int]] = []
    for source in dict.fromkeys(args.source or ["gaussian"]):
        checksum, sizes = None, args.size or (QUICK_SIZES if args.quick else SIZES)
        if is_file(source):
            entries = len(vector(source, None))
            checksum = hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]
            sizes = args.size or (entries,)
            if max(sizes) > entries:
                raise InputError(f"{source} holds {entries:,} entries: give a --size of at most that, or none for all")
        found += [(source, checksum, n) for n in dict.fromkeys(sizes)]
    return found
