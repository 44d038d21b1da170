"""Flower's grid in one process: the same apps, mods, strategies and messages, without network and without waiting.

Every message is turned into protocol buffers and back, as on the way through a SuperLink, so no side sees an object of
the other's. A client's context is kept when its app returns, and not when it raises, as a SuperNode does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from logging import DEBUG

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["InProcessGrid"]

SERVER, RUN = 1, 1


class InProcessGrid(Grid):
    """Nodes with numbers of one's own choice, which all run one app.

    Args:
        app: what each node runs.
        nodes: their ids; node i of them gets ``partition-id`` i in its node_config.
        fate: what becomes of a reply on its way to the server: a function of the reply that gives it, another, or None
            if it is lost.

    Attributes:
        contexts: each node's; delete one, and the node has lost its state.
        online: the ids that the server can sample and that answer.
    """

    def __init__(
        self, app: ClientApp, nodes: Iterable[int], fate: Callable[[Message], Message | None] | None = None
    ) -> None:
        self.app, self.fate = app, fate
        self.nodes = list(nodes)
        self.online = list(self.nodes)
        self.contexts: dict[int, Context] = {}
        self._sent = 0
        TaskIdentity.node_id, TaskIdentity.run_id, TaskIdentity.task_id = SERVER, RUN, 0

    def set_run(self, run: Run) -> None:
        """There is one run only."""

    @property
    def run(self) -> Run:
        """There is one run only, of which nothing but its number is known."""
        return Run.create_empty(RUN)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A message to a node."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes online."""
        return list(self.online)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not here: messages are answered at once."""
        raise NotImplementedError("use send_and_receive: a grid in one process answers at once")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not here: messages are answered at once."""
        raise NotImplementedError("use send_and_receive: a grid in one process answers at once")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Let each node answer, one after the other."""
        return list(self._answers(messages))

    def context(self, node: int) -> Context:
        """A node's context; a new one if it has none."""
        if node not in self.contexts:
            config: dict[str, bool | float | int | str] = {
                "partition-id": self.nodes.index(node),
                "num-partitions": len(self.nodes),
            }
            self.contexts[node] = Context(RUN, node, config, RecordDict(), {})
        return self.contexts[node]

    def _answers(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            node = message.metadata.dst_node_id
            if node not in self.online:
                continue
            self._sent += 1
            message.metadata.__dict__["_message_id"] = str(self._sent)
            message.content = _over_the_wire(message.content)
            reply = self._run(message, node)
            if reply.has_content():
                reply.content = _over_the_wire(reply.content)
            arrived = reply if self.fate is None else self.fate(reply)
            if arrived is not None:
                yield arrived

    def _run(self, message: Message, node: int) -> Message:
        context = self.context(node)
        working = Context(RUN, node, context.node_config, _over_the_wire(context.state), context.run_config)
        try:
            with _as_node(node):
                reply = self.app(message, working)
        except Exception as e:  # whatever an app raises is an error reply, as on a SuperNode
            log(DEBUG, "the app of node %d failed", node, exc_info=e)
            return Message(Error(code=2, reason=f"{type(e).__name__}: {e}"), reply_to=message)
        self.contexts[node] = working
        return reply


@contextmanager
def _as_node(node: int) -> Iterator[None]:
    TaskIdentity.node_id = node
    try:
        yield
    finally:
        TaskIdentity.node_id = SERVER


def _over_the_wire(content: RecordDict) -> RecordDict:
    return recorddict_from_proto(recorddict_to_proto(content))
