"""Replies as they arrive: checked while the slower clients still train, instead of after the last of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

__all__ = ["Arrivals", "arriving"]

SHORTEST, LONGEST = 0.1, 3.0
"""Seconds between two questions whether there are replies: the first after an arrival, and the most that it becomes;
Flower itself waits three seconds every time."""


def arriving(grid: Grid) -> Grid:
    """The grid, with replies as they arrive; one that has its own way of sending and waiting is left as it is."""
    return Arrivals(grid) if type(grid).send_and_receive.__module__.startswith("flwr.") else grid


class Arrivals(Grid):
    """A grid around Flower's, whose ``send_and_receive`` gives each reply when it is there; the rest is passed on."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterator[Message]:
        """Send at once; then give replies as they come, until all are there or the time is up.

        Args:
            messages: to the nodes.
            timeout: seconds to wait for replies; None waits for all.
        """
        waiting = set(self._grid.push_messages(messages))
        return self._replies(waiting, None if timeout is None else time.monotonic() + timeout)

    def _replies(self, waiting: set[str], end: float | None) -> Iterator[Message]:
        pause = SHORTEST
        while waiting and (end is None or time.monotonic() < end):
            replies = list(self._grid.pull_messages(waiting))
            for reply in replies:
                waiting.discard(reply.metadata.reply_to_message_id)
                yield reply
            if waiting:
                pause = SHORTEST if replies else min(LONGEST, 1.5 * pause)
                time.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))

    def set_run(self, run: Run) -> None:
        """The grid's."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The grid's."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """The grid's."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The grid's."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """The grid's."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """The grid's."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The grid's."""
        return self._grid.pull_messages(message_ids)
