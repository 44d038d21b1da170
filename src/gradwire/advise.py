"""Does compression pay here? A cost model of one exchange, from measured speeds of link, encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.errors import ParameterError

__all__ = ["Advice", "Line", "Speeds", "advise"]


@dataclass(frozen=True)
class Line:
    """Time of a transfer as a straight line: start + bytes·each.

    Attributes:
        start: seconds of an empty transfer.
        each: seconds a byte.
    """

    start: float
    each: float

    def seconds(self, size: float) -> float:
        """Seconds of a transfer of so many bytes."""
        return self.start + self.each * size

    @staticmethod
    def through(few: float, few_seconds: float, many: float, many_seconds: float) -> Line:
        """The line through two measurements; never falling, never below zero at the start.

        >>> Line.through(0, 0.001, 1e6, 0.101).seconds(2e6)
        0.201
        """
        each = max(0.0, many_seconds - few_seconds) / (many - few)
        return Line(max(0.0, few_seconds - each * few), each)


@dataclass(frozen=True)
class Speeds:
    """What was measured, of the slowest rank.

    Attributes:
        dense: an all-reduce, by the bytes of its float32 vector.
        gather: an all-gather, by the bytes of one rank's message.
        scatter: an all-to-all, by the bytes that one rank sends to all others together.
        encode: seconds an entry to encode, the residual included.
        decode: seconds an entry to decode and add one rank's message.
        bits: of the codec's messages, a coordinate.
    """

    dense: Line
    gather: Line
    scatter: Line
    encode: float
    decode: float
    bits: float


@dataclass(frozen=True)
class Advice:
    """What to do, and the predicted seconds of one exchange of the whole gradient in each way."""

    choice: str
    seconds: dict[str, float]

    @property
    def gain(self) -> float:
        """How many times faster than dense the best compressed way is; below 1 it does not pay."""
        return self.seconds["dense"] / min(self.seconds["gather"], self.seconds["sharded"])


def advise(n: int, world: int, buckets: int, speeds: Speeds, margin: float = 1.1) -> Advice:
    """Predict one exchange of n entries over `world` ranks: dense, or compressed in either topology.

    - dense: all-reduce(4n bytes), `buckets` of them.
    - gather: encode n, all-gather(m), decode n once for every rank; m = n·bits/8.
    - sharded: encode n and n/W, all-to-all(m(1 − 1/W)), all-gather(m/W); decode n/W once for every rank, then n.

    It compares exchanges and not whole steps: what backward hides, it can hide of either.

    Args:
        n: entries of the gradient.
        world: ranks.
        buckets: exchanges that the gradient is cut into.
        speeds: measured here.
        margin: compression is chosen only if it is so many times faster: it costs some convergence.

    Raises:
        ParameterError: n, world or buckets is below 1.

    Example:
        >>> slow = Line(start=1e-3, each=8e-8)                       # 100 Mbit/s
        >>> speeds = Speeds(slow, slow, slow, encode=5e-10, decode=2e-10, bits=0.32)
        >>> advice = advise(25_000_000, world=2, buckets=4, speeds=speeds)
        >>> advice.choice, round(advice.gain)
        ('gather', 75)
        >>> fast = Line(start=1e-5, each=1e-11)                      # a data centre's
        >>> advise(25_000_000, 2, 4, Speeds(fast, fast, fast, 5e-10, 2e-10, 0.32)).choice
        'dense'
    """
    if min(n, world, buckets) < 1:
        raise ParameterError(f"n = {n}, world = {world}, buckets = {buckets}: give 1 or more of each")
    message = n * speeds.bits / 8
    others = 1 - 1 / world
    part = 1 / buckets
    encode, decode = n * speeds.encode, n * speeds.decode
    scattered, gathered = speeds.scatter.seconds(message * others * part), speeds.gather.seconds(message * part / world)
    seconds = {
        "dense": buckets * speeds.dense.seconds(4 * n * part),
        "gather": encode + buckets * speeds.gather.seconds(message * part) + world * decode,
        "sharded": encode * (1 + 1 / world) + buckets * (scattered + gathered) + 3 * decode,
    }
    if world == 1:
        return Advice("dense", seconds)
    best = min("gather", "sharded", key=seconds.__getitem__)
    return Advice(best if seconds["dense"] > margin * seconds[best] else "dense", seconds)
