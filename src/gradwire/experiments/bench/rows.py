"""The rows on disk: a line each, written as soon as its cell is measured, and found again by all that decides it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

import gradwire
from gradwire.experiments.bench.cells import Row
from gradwire.experiments.bench.machine import Machine, build
from gradwire.experiments.bench.plan import Cell, Item
from gradwire.experiments.reproduce.results import ResultsFile

__all__ = ["Rows"]

VERSION = 1
"""Raise it when a measurement changes its meaning: rows of another version are measured anew."""


class Rows:
    """The rows of one machine and one build of gradwire in a file that may hold those of others.

    Args:
        path: of the file; made when the first row comes.
        machine: this one.

    Raises:
        InputError: the file holds a line that is no row.
    """

    def __init__(self, path: Path, machine: Machine) -> None:
        self.path = path
        self._file = ResultsFile(path)
        self._machine = machine
        self._where = [VERSION, gradwire.__version__, build(), asdict(machine)]

    def _key(self, item: Item) -> str:
        return hashlib.sha256(json.dumps([self._where, item], sort_keys=True).encode()).hexdigest()[:20]

    def __contains__(self, cell: Cell) -> bool:
        return all(self._key(item) in self._file for item in cell.items())

    def add(self, cell: Cell, measured: Sequence[Row], seconds: float) -> None:
        """Writes the rows of a cell, in the order of its items."""
        for item, row in zip(cell.items(), measured, strict=True):
            self._file.add(self._key(item), item, row, seconds)

    def of(self, cells: Sequence[Cell]) -> list[Row]:
        """The rows of those cells that are measured, in their order, with the machine and the versions."""
        versions = {"gradwire": gradwire.__version__, "numpy": np.__version__}
        return [
            {**self._file.row(self._key(item), item), **asdict(self._machine), **versions}
            for cell in cells
            if cell in self
            for item in cell.items()
        ]
