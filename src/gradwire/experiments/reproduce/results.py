"""The file of rows: one JSON line an item, added as soon as it is measured, so that a run can be taken up again."""

import hashlib
import json
from pathlib import Path

import gradwire
from gradwire.errors import InputError
from gradwire.experiments.reproduce.experiment import Experiment, Item, Row

__all__ = ["ResultsFile", "item_key"]


def item_key(experiment: Experiment, item: Item) -> str:
    """The name of a measurement: equal only where experiment, its version, gradwire's and the whole item are equal."""
    identity = [experiment.name, experiment.version, gradwire.__version__, item]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:20]


class ResultsFile:
    """Rows on disk.

    Definition: each line is {"key", "item", "measured", "seconds"}. Lines are only ever added; of two with one key the
    later counts. Rows of other settings may lie in the same file: they are asked for by key, so nothing is mixed in.

    Args:
        path: of the file; made when the first row comes.

    Raises:
        InputError: the file holds a line that is not such a row (a last line that was cut off is dropped).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, tuple[Row, float]] = {}
        if path.exists():
            self._load()

    def _load(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(line)
                self._rows[entry["key"]] = (dict(entry["measured"]), float(entry["seconds"]))
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{self.path}, line {number}, is no row of results: delete that line") from None
        if len(whole) < len(data):  # the process was killed while it wrote
            with self.path.open("r+b") as file:
                file.truncate(len(whole))

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def add(self, key: str, item: Item, measured: Row, seconds: float) -> None:
        """Writes one row, whole and at once."""
        entry = {"key": key, "item": item, "measured": measured, "seconds": round(seconds, 4)}
        line = json.dumps(entry, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(line)
        self._rows[key] = (json.loads(line)["measured"], round(seconds, 4))

    def row(self, key: str, item: Item) -> Row:
        """The item joined with its measurements and the ``seconds`` they took."""
        measured, seconds = self._rows[key]
        return {**item, **measured, "seconds": seconds}
