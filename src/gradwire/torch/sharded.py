"""The sharded topology: every rank owns a part of the vector, and its traffic does not grow with their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist

from gradwire import Rng
from gradwire.torch.exchange import READY, Exchange, attempt
from gradwire.torch.replicas import check_replicas
from gradwire.torch.shards import Residual, Segment, add_blob, encode_segments, pack

__all__ = ["Exchanged", "Reduced", "Sharded"]


@dataclass(frozen=True)
class Exchanged:
    """What came of one exchange.

    Attributes:
        mean: (n,) float32, the same bytes on every rank; None if something was not finite on some rank.
        residual: what to keep; the old one if mean is None.
        message_bytes: bytes of the messages that this rank encoded.
    """

    mean: torch.Tensor | None
    residual: Residual
    message_bytes: int


class Reduced(NamedTuple):
    """The first half of an exchange: the mean over the ranks of what this rank owns, and the residual of what it sent.

    `mean` is None if some rank's vector was not finite; then `sent` is the old residual.
    """

    mean: torch.Tensor | None
    sent: torch.Tensor
    message_bytes: int


class Sharded:
    """Average a vector over W ranks through compressed messages; W only enters the traffic as 1 − 1/W.

    Rank i has the vector x_i and the residual e_i, owner j the shard j of the entries and a residual f_j of its own.

    1. Rank i sends C(p_i), p_i = x_i + e_i, shard by shard to the owners (all-to-all): e_i ← p_i − C(p_i).
    2. Owner j adds up in rank order, in float32: m = (1/W) Σ_i C(p_i) on its shard.
    3. Owner j sends C(q), q = m + f_j, to all ranks: f_j ← q − C(q).
    4. Every rank, the owner too, decodes those same bytes, so that all hold the same mean bit for bit.

    So Σ_t mean_t = (1/W) Σ_i Σ_t x_i − (1/W) Σ_i e_i − f: nothing is lost in either compression. A rank sends
    (1 − 1/W)·(bytes of C(p_i) + bytes of all C(q)), 32 (W − 1) bytes of heads and at most 1/64 of padding; gathering
    costs (W − 1)·C(p_i).

    State in, state out: the residuals are arguments and results, and only an exchange whose numbers were finite on
    all ranks changes them; lengths and verdict travel together, so all ranks agree.

    Args:
        shards: for each rank the segments that it owns, as `cut` gives them; together all entries, each once.
        group: a gloo group that carries nothing else at the same time.
        seed: of the codecs' randomness; the same on every rank. Round, rank and segment draw independently.
        error_feedback: without it the residuals stay zero; for unbiased codecs.
        check_every: compare a checksum of the mean over the ranks every so many rounds; 0 is never.

    Raises:
        ParameterError: a codec does not suit a segment, or is not contractive under error feedback.

    Example:
        >>> shards = cut([Section(gradwire.TopK(k=0.01), (10_000,))], world=8)           # doctest: +SKIP
        >>> sharded = Sharded(shards, group)                                             # doctest: +SKIP
        >>> done = sharded.exchange(0, x, sharded.start())                               # doctest: +SKIP
        >>> done.mean, done.residual                                                     # doctest: +SKIP

    Source: two-sided error feedback: Tang et al., DoubleSqueeze, ICML 2019; messages to owners: Bagua's and
    DeepSpeed's compressed all-reduce, Tang et al., 1-bit Adam, ICML 2021.
    """

    def __init__(
        self,
        shards: Sequence[Sequence[Segment]],
        group: dist.ProcessGroup,
        *,
        seed: int = 0,
        error_feedback: bool = True,
        check_every: int = 0,
    ) -> None:
        self.bytes = Exchange(group)
        self.shards = shards
        self._segments = [segment for shard in shards for segment in shard]
        self._mine = _compact(shards[self.bytes.rank])
        self.n = sum(segment.stop - segment.start for segment in self._segments)
        self.error_feedback = error_feedback
        self.check_every = check_every
        for segment in self._segments:
            segment.check(error_feedback)
        self._rng = Rng(seed)

    @property
    def owned(self) -> int:
        """How many entries this rank owns."""
        return self._mine[-1].stop if self._mine else 0

    def start(self) -> Residual:
        """Return the residuals before the first exchange: zeros."""
        return Residual(torch.zeros(self.n), torch.zeros(self.owned))

    def reduce(self, round: int, x: torch.Tensor, sent: torch.Tensor) -> Reduced:
        """Steps 1 and 2: get the mean of what this rank owns; collective.

        Args:
            round: number of the exchange, the same on all ranks; it picks the random draws.
            x: (n,) float32 on the CPU; not changed.
            sent: (n,) float32 residual; not changed.

        Raises:
            RuntimeError: a rank failed, or is at another round.
        """
        blobs, left, message_bytes = self._scatter(round, x, sent)
        if blobs is None:
            return Reduced(None, sent, message_bytes)
        return Reduced(self._sum(blobs), left, message_bytes)

    def exchange(self, round: int, x: torch.Tensor, residual: Residual) -> Exchanged:
        """Average x over the ranks; collective. The arguments are those of `reduce`, with both residuals.

        Raises:
            RuntimeError: a rank failed or is at another round, or a check found that the replicas differ.
        """
        blobs, sent, message_bytes = self._scatter(round, x, residual.sent)
        if blobs is None:
            return Exchanged(None, residual, message_bytes)
        owned = torch.empty_like(residual.owned) if self.error_feedback else residual.owned
        draws = self._draws(round, 1)
        status, messages = attempt(
            lambda: self._encode(self._mine, self._sum(blobs), residual.owned, owned, draws),
            lambda failed: self.bytes.to_all(round, 0, failed, b""),
        )
        blob = pack(messages)
        message_bytes += len(blob)
        every = self.bytes.to_all(round, 0, status, blob)
        if every is None:
            return Exchanged(None, residual, message_bytes)
        result = torch.zeros(self.n)
        for shard, one in zip(self.shards, every, strict=True):
            add_blob(shard, one, result, 1.0)
        if self.check_every and round % self.check_every == 0:
            check_replicas([result], self.bytes.group, f"the mean of round {round}")
        return Exchanged(result, Residual(sent, owned), message_bytes)

    def _scatter(
        self, round: int, x: torch.Tensor, sent: torch.Tensor
    ) -> tuple[list[memoryview] | None, torch.Tensor, int]:
        """Step 1; returns what the ranks sent to this owner, the new residual and the bytes encoded."""
        left = torch.empty_like(sent) if self.error_feedback else sent
        status, messages = attempt(
            lambda: self._encode(self._segments, x, sent, left, self._draws(round, 0)),
            lambda failed: self.bytes.to_each(round, 0, failed, []),
        )
        each = iter(messages)
        blobs = [pack([next(each) for _ in shard]) for shard in self.shards] if status == READY else []
        return self.bytes.to_each(round, 0, status, blobs), left, sum(map(len, blobs))

    def _sum(self, blobs: list[memoryview]) -> torch.Tensor:
        """Step 2: the mean of the messages, added in rank order."""
        mean = torch.zeros(self.owned)
        for blob in blobs:
            add_blob(self._mine, blob, mean, 1.0 / self.bytes.world)
        return mean

    def _encode(
        self, segments: Sequence[Segment], x: torch.Tensor, residual: torch.Tensor, left: torch.Tensor, rng: Rng
    ) -> list[bytes]:
        return encode_segments(segments, x, residual if self.error_feedback else None, left, rng)

    def _draws(self, round: int, half: int) -> Rng:
        """Draws of this rank in this round: half 0 for what it sends to the owners, 1 for what it sends as one."""
        return self._rng.child(round % 2**32).child(2 * self.bytes.rank + half)


def _compact(shard: Sequence[Segment]) -> list[Segment]:
    """The same segments side by side: their places in a vector of the owned entries only."""
    segments, start = [], 0
    for segment in shard:
        stop = start + segment.stop - segment.start
        segments.append(Segment(start, stop, segment.codec))
        start = stop
    return segments
