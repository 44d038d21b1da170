"""Live progress of a run: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress"]

LINE_EVERY = 5.0
"""Seconds between lines where there is no terminal."""


class Progress(Protocol):
    """Is told of the item that begins and of each that is done."""

    def begin(self, label: str) -> None:
        """An item begins."""

    def done(self) -> None:
        """It is measured."""


class _Lines:
    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.count, self.label = name, total, 0, ""
        self.start = time.monotonic()
        self.next = self.start + LINE_EVERY

    def begin(self, label: str) -> None:
        self.label = label

    def done(self) -> None:
        self.count += 1
        now = time.monotonic()
        if now >= self.next or self.count in (1, self.total):
            self.next = now + LINE_EVERY
            print(
                f"{self.name}: {self.count} of {self.total} measured, {now - self.start:.0f} s ({self.label})",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def progress(name: str, total: int) -> Iterator[Progress]:
    """The display of ``total`` items on standard error."""
    if not sys.stderr.isatty():
        yield _Lines(name, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    fixed = Column(no_wrap=True)
    columns = (
        TextColumn("{task.fields[name]}", table_column=fixed),
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=fixed),
        TimeElapsedColumn(table_column=fixed),
        TimeRemainingColumn(table_column=fixed),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )
    with Bar(*columns, console=Console(stderr=True), expand=True) as bar:
        task = bar.add_task("", total=total, name=name)

        class _Live:
            def begin(self, label: str) -> None:
                bar.update(task, description=label)

            def done(self) -> None:
                bar.advance(task)

        yield _Live()
