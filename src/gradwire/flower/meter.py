"""How many bytes went where: per round, direction and client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from gradwire.flower.protocol import BUNDLE

__all__ = ["DIRECTIONS", "Meter", "Reading"]

TRAIN_DOWN: Final = "train-down"
TRAIN_UP: Final = "train-up"
EVALUATE_DOWN: Final = "evaluate-down"
EVALUATE_UP: Final = "evaluate-up"

DIRECTIONS = (TRAIN_DOWN, TRAIN_UP, EVALUATE_DOWN, EVALUATE_UP)
"""Down is from the server to the clients, up from them to it."""

OBJECT_ID_BYTES = 68
"""Flower names each object of a message by 64 hexadecimal digits, in a tree of protocol buffers."""

ENVELOPE_BYTES = 300
"""Metadata of a message, which its own object holds as well as the request that announces it."""

CHUNK_BYTES = 5 * 2**20
"""Flower cuts an Array's data into chunks of so many bytes."""


@dataclass(frozen=True)
class Reading:
    """One message."""

    round: int
    direction: str
    node: int
    payload: int
    """Bytes of what gradwire made, headers and checksums included: the data of its arrays."""
    message: int
    """Bytes of the whole message as Flower sends it, all of its records included."""


@dataclass
class Meter:
    """Counts every message that the strategy sends or receives, dropped ones too.

    Example:
        >>> meter = Meter()
        >>> meter.readings.append(Reading(1, "train-up", 7, payload=100, message=1200))
        >>> meter.total("train-up"), meter.total("train-down")
        (100, 0)
        >>> print(meter.table())
        round  train-down  train-up  evaluate-down  evaluate-up  sum
            1           0       100              0            0  100
          sum           0       100              0            0  100
    """

    readings: list[Reading] = field(default_factory=list)

    def read(self, server_round: int, direction: str, node: int, message: Message) -> None:
        """Count a message."""
        if message.has_content():
            payload, size = payload_bytes(message.content), content_bytes(message.content) + ENVELOPE_BYTES
        else:
            payload, size = 0, ENVELOPE_BYTES
        self.readings.append(Reading(server_round, direction, node, payload, size))

    def total(self, *directions: str, server_round: int | None = None, whole: bool = False) -> int:
        """Bytes of payload, or of whole messages, in some directions (default: all) and one round or all."""
        return sum(
            reading.message if whole else reading.payload
            for reading in self.readings
            if (not directions or reading.direction in directions) and server_round in (None, reading.round)
        )

    def by_client(self, direction: str, server_round: int | None = None) -> dict[int, int]:
        """Bytes of payload of each client in one direction."""
        sums: dict[int, int] = {}
        for reading in self.readings:
            if reading.direction == direction and server_round in (None, reading.round):
                sums[reading.node] = sums.get(reading.node, 0) + reading.payload
        return sums

    def record(self, server_round: int, directions: Iterable[str]) -> MetricRecord:
        """A round's bytes as metrics: for each direction that had messages sums, and the clients and theirs."""
        record = MetricRecord()
        for direction in directions:
            clients = self.by_client(direction, server_round)
            if not clients:
                continue
            record[f"gradwire-{direction}-bytes"] = sum(clients.values())
            record[f"gradwire-{direction}-message-bytes"] = self.total(direction, server_round=server_round, whole=True)
            record[f"gradwire-{direction}-clients"] = list(clients)
            record[f"gradwire-{direction}-client-bytes"] = list(clients.values())
        return record

    def table(self) -> str:
        """The bytes of payload by round and direction, as text."""
        rounds = sorted({reading.round for reading in self.readings})
        lines = [["round", *DIRECTIONS, "sum"]]
        for name, number in [*((str(r), r) for r in rounds), ("sum", None)]:
            cells = [self.total(direction, server_round=number) for direction in DIRECTIONS]
            lines.append([name, *(f"{cell:,}" for cell in [*cells, sum(cells)])])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def payload_bytes(content: RecordDict) -> int:
    """Bytes of the bundles in a message."""
    records = (record for record in content.values() if isinstance(record, ArrayRecord))
    return sum(len(array.data) for record in records for array in record.values() if array.stype == BUNDLE)


def content_bytes(content: RecordDict) -> int:
    """Bytes that Flower sends for a message's content: each different object once, and its name."""
    sizes: dict[str, int] = {content.object_id: len(content.deflate())}
    for record in content.values():
        sizes[record.object_id] = len(record.deflate())
        if isinstance(record, ArrayRecord):
            for array in record.values():
                sizes[array.object_id] = len(array.deflate()) + _chunk_bytes(array)
    return sum(sizes.values()) + OBJECT_ID_BYTES * (1 + len(sizes))


def _chunk_bytes(array: Array) -> int:
    count = -(-len(array.data) // CHUNK_BYTES)
    return len(array.data) + count * (len("ArrayChunk  5242880 ") + OBJECT_ID_BYTES)
