"""The two topologies of the seats: how the messages of some units travel, and what all ranks make of them.

An exchange has two halves. `post` encodes and sends, and changes nothing. What it returns holds the messages, until the
ranks know that the whole step counts; then `add_sent`, `mean` and `settle` read them. So nothing has to be undone when
a step is skipped, and no second copy of the residuals is needed: only messages are kept, which are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
import torch.distributed as dist

import gradwire
from gradwire import Rng
from gradwire.torch.exchange import Exchange, attempt
from gradwire.torch.shards import pack, unpack
from gradwire.torch.units import Scratch, Shard, Unit, owners

__all__ = ["Encode", "GatherTopology", "Posted", "ShardedTopology", "Topology"]

Encode = Callable[[Unit, Sequence[Shard], Callable[[Shard], Rng]], list[bytes]]
"""encode(unit, shards, draws): one message for each shard of the unit; shard s draws from draws(s)."""


class Posted(Protocol):
    """The messages of one exchange that came to all ranks alike."""

    message_bytes: int

    def add_sent(self, index: int, out: torch.Tensor, weight: float) -> None:
        """out += weight·C(p) of unit `index`, from this rank's own messages."""

    def mean(self, index: int, out: torch.Tensor) -> torch.Tensor:
        """Overwrite `out` with the mean of the messages of unit `index`: the same bits on every rank."""

    def settle(self) -> None:
        """Take over the owner's residual."""


class Topology(Protocol):
    """How messages travel."""

    bytes: Exchange

    residual: torch.Tensor
    """What this rank keeps as an owner: its own entries side by side; empty where nobody owns."""

    def prepare(self, units: Sequence[tuple[int, slice]]) -> None:
        """Learn once which units (index, place in the buffers) there are."""

    def owned(self, world: int, rank: int) -> list[slice]:
        """Which entries of the buffers a rank owns the mean of, if there were `world` ranks."""

    def post(self, step: int, slot: int, units: Sequence[Unit], encode: Encode, rng: Rng) -> Posted | None:
        """Encode and send the units; collective. None if something was not finite on some rank.

        Raises:
            RuntimeError: a rank failed, or is at another step or slot.
        """


class GatherTopology:
    """Every message goes to every rank: one compression, and traffic that grows with the number of ranks.

    Source: Aji and Heafield, EMNLP 2017.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.bytes = Exchange(group, ("step", "bucket"))
        self.residual = torch.zeros(0)

    def prepare(self, units: Sequence[tuple[int, slice]]) -> None:
        """Nothing to learn: no rank owns anything."""

    def owned(self, world: int, rank: int) -> list[slice]:
        """None."""
        return []

    def post(self, step: int, slot: int, units: Sequence[Unit], encode: Encode, rng: Rng) -> Posted | None:
        """Send each unit as one message to all ranks."""

        def make() -> list[bytes]:
            messages: list[bytes] = []
            for unit in units:
                draws = rng.child(unit.index)
                messages += encode(unit, [Shard(self.bytes.rank, 0, unit.size)], lambda _, draws=draws: draws)  # type: ignore[misc]
            return messages

        status, messages = attempt(make, lambda failed: self.bytes.to_all(step, slot, failed, b""))
        every = self.bytes.to_all(step, slot, status, pack(messages))
        if every is None:
            return None
        return _Gathered(self.bytes.rank, [unpack(blob, len(units)) for blob in every])


class _Gathered:
    def __init__(self, rank: int, every: list[list[memoryview]]) -> None:
        self._rank = rank
        self._every = every
        self.message_bytes = sum(map(len, every[rank]))

    def add_sent(self, index: int, out: torch.Tensor, weight: float) -> None:
        gradwire.add(self._every[self._rank][index], out, weight)

    def mean(self, index: int, out: torch.Tensor) -> torch.Tensor:
        out.zero_()
        for messages in self._every:
            gradwire.add(messages[index], out, 1.0 / len(self._every))
        return out

    def settle(self) -> None:
        return


class ShardedTopology:
    """Messages go to owners, and the owners' means, compressed again, to all: traffic free of the number of ranks.

    1. Rank i sends C(p_i), shard by shard, to the owners.
    2. Owner j adds up in rank order, in float32: m = (1/W) Σ_i C(p_i) on what it owns.
    3. Owner j sends C(q), q = m + f_j, to all ranks: f_j ← q − C(q); without error feedback, q = m.
    4. Every rank, the owner too, decodes those same bytes.

    Args:
        group: a gloo group that carries nothing else.
        feedback: whether owners keep a residual.

    Source: two-sided error feedback: Tang et al., DoubleSqueeze, ICML 2019; messages to owners: Tang et al., 1-bit
    Adam, ICML 2021.
    """

    def __init__(self, group: dist.ProcessGroup, feedback: bool) -> None:
        self.bytes = Exchange(group, ("step", "bucket"))
        self.residual = torch.zeros(0)
        self._feedback = feedback
        self._units: Sequence[tuple[int, slice]] = ()
        self._compact: dict[int, int] = {}
        self._sum = Scratch()

    def prepare(self, units: Sequence[tuple[int, slice]]) -> None:
        """Lay the owned entries of all units side by side."""
        self._units = units
        start = 0
        for place in self.owned(self.bytes.world, self.bytes.rank):
            self._compact[place.start] = start
            start += place.stop - place.start
        self.residual = torch.zeros(start if self._feedback else 0)

    def owned(self, world: int, rank: int) -> list[slice]:
        """The shards of all units that a rank owns."""
        return [
            slice(place.start + shard.start, place.start + shard.stop)
            for index, place in self._units
            for shard in owners(place.stop - place.start, world, index)
            if shard.owner == rank
        ]

    def post(self, step: int, slot: int, units: Sequence[Unit], encode: Encode, rng: Rng) -> Posted | None:
        """Send each unit's shards to their owners, add up, and send the means to all."""
        shards = [owners(unit.size, self.bytes.world, unit.index) for unit in units]
        sent: list[list[bytes]] = []

        def make() -> list[bytes]:
            for unit, parts in zip(units, shards, strict=True):
                draws = rng.child(unit.index)
                sent.append(encode(unit, parts, lambda shard, draws=draws: draws.child(2 * shard.owner)))  # type: ignore[misc]
            return self._by_owner(shards, sent)

        status, blobs = attempt(make, lambda failed: self.bytes.to_each(step, slot, failed, []))
        heard = self.bytes.to_each(step, slot, status, blobs)
        if heard is None:
            return None
        mine = [
            (index, shard) for index, parts in enumerate(shards) for shard in parts if shard.owner == self.bytes.rank
        ]
        posted = _Sharded(self, units, shards, sent, mine, [unpack(blob, len(mine)) for blob in heard])

        def reply() -> list[bytes]:  # not finite where finite vectors have a sum that is not
            replies = []
            for index, shard, mean in posted.means(self._sum):
                draws = rng.child(units[index].index).child(2 * shard.owner + 1)
                replies.append(gradwire.encode(units[index].codec, mean, draws))
            return replies

        status, replies = attempt(reply, lambda failed: self.bytes.to_all(step, slot, failed, b""))
        every = self.bytes.to_all(step, slot, status, pack(replies))
        if every is None:
            return None
        posted.hear(every)
        return posted

    def _by_owner(self, shards: Sequence[Sequence[Shard]], sent: Sequence[Sequence[bytes]]) -> list[bytes]:
        letters: list[list[bytes]] = [[] for _ in range(self.bytes.world)]
        for parts, messages in zip(shards, sent, strict=True):
            for shard, message in zip(parts, messages, strict=True):
                letters[shard.owner].append(message)
        return [pack(messages) for messages in letters]

    def residual_of(self, unit: Unit, shard: Shard) -> torch.Tensor | None:
        """The owner's residual of a shard of its own; None where there is none."""
        if unit.place is None or not self._feedback:
            return None
        start = self._compact[unit.place.start + shard.start]
        return self.residual[start : start + shard.stop - shard.start]


class _Sharded:
    def __init__(
        self,
        topology: ShardedTopology,
        units: Sequence[Unit],
        shards: Sequence[Sequence[Shard]],
        sent: Sequence[Sequence[bytes]],
        mine: Sequence[tuple[int, Shard]],
        heard: Sequence[Sequence[memoryview]],
    ) -> None:
        self._topology, self._units, self._shards = topology, units, shards
        self._sent, self._mine, self._heard = sent, mine, heard
        self._replies: dict[tuple[int, int], memoryview] = {}
        self.message_bytes = sum(len(message) for messages in sent for message in messages)

    def hear(self, every: Sequence[memoryview]) -> None:
        """Take the replies of all owners."""
        for owner, blob in enumerate(every):
            places = [(i, s.start) for i, parts in enumerate(self._shards) for s in parts if s.owner == owner]
            self._replies.update(zip(places, unpack(blob, len(places)), strict=True))
        rank = self._topology.bytes.rank
        self.message_bytes += len(every[rank]) - 4 * len(self._mine)

    def means(self, scratch: Scratch) -> Iterator[tuple[int, Shard, torch.Tensor]]:
        """Unit, shard and q = m + f of every shard that this rank owns, one after the other in scratch memory."""
        for place, (index, shard) in enumerate(self._mine):
            mean = scratch.of(shard.stop - shard.start).zero_()
            for messages in self._heard:
                gradwire.add(messages[place], mean, 1.0 / len(self._heard))
            residual = self._topology.residual_of(self._units[index], shard)
            if residual is not None:
                mean += residual
            yield index, shard, mean

    def add_sent(self, index: int, out: torch.Tensor, weight: float) -> None:
        for shard, message in zip(self._shards[index], self._sent[index], strict=True):
            gradwire.add(message, shard.of(out), weight)

    def mean(self, index: int, out: torch.Tensor) -> torch.Tensor:
        out.zero_()
        for shard in self._shards[index]:
            gradwire.add(self._replies[index, shard.start], shard.of(out), 1.0)
        return out

    def settle(self) -> None:
        for index, shard, mean in self.means(self._topology._sum):
            residual = self._topology.residual_of(self._units[index], shard)
            if residual is not None:
                residual.copy_(mean)
                gradwire.add(self._replies[index, shard.start], residual, -1.0)
