"""The gather topology with the interface of `Sharded`: every message goes to every rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from gradwire import Rng
from gradwire.torch.exchange import Exchange, attempt
from gradwire.torch.sharded import Exchanged
from gradwire.torch.shards import Residual, Section, add_blob, cut, encode_segments, pack

__all__ = ["Gathered"]


class Gathered:
    """Average a vector over W ranks: mean = (1/W) Σ_i C(p_i), p_i = x_i + e_i, e_i ← p_i − C(p_i).

    One compression only, where `Sharded` has two, but a rank's traffic, (W − 1)·(bytes of C(p_i)), grows with W. With
    sparse messages it is the better one for two ranks and often for four. All ranks decode the same bytes in the same
    order; the rest is as in `Sharded`, except that no one owns anything: `residual.owned` is empty.

    Raises:
        ParameterError: a codec does not suit a part, or is not contractive under error feedback.

    Source: Aji and Heafield, EMNLP 2017.
    """

    def __init__(
        self, sections: Sequence[Section], group: dist.ProcessGroup, *, seed: int = 0, error_feedback: bool = True
    ) -> None:
        self.bytes = Exchange(group)
        self.n = sum(section.size for section in sections)
        self.error_feedback = error_feedback
        (self._segments,) = cut(sections, 1)
        for segment in self._segments:
            segment.check(error_feedback)
        self._rng = Rng(seed)

    def start(self) -> Residual:
        """Return the residual before the first exchange: zeros."""
        return Residual(torch.zeros(self.n), torch.zeros(0))

    def exchange(self, round: int, x: torch.Tensor, residual: Residual) -> Exchanged:
        """Average x over the ranks; collective. Arguments as in `Sharded.exchange`.

        Raises:
            RuntimeError: a rank failed, or is at another round.
        """
        sent = torch.empty_like(residual.sent) if self.error_feedback else residual.sent
        draws = self._rng.child(round % 2**32).child(2 * self.bytes.rank)
        status, messages = attempt(
            lambda: self._encode(x, residual.sent, sent, draws), lambda failed: self.bytes.to_all(round, 0, failed, b"")
        )
        blob = pack(messages)
        every = self.bytes.to_all(round, 0, status, blob)
        if every is None:
            return Exchanged(None, residual, len(blob))
        mean = torch.zeros(self.n)
        for one in every:
            add_blob(self._segments, one, mean, 1.0 / self.bytes.world)
        if not bool(mean.isfinite().all()):  # the sum overflowed: on all ranks, for it is the same sum
            return Exchanged(None, residual, len(blob))
        return Exchanged(mean, Residual(sent, residual.owned), len(blob))

    def _encode(self, x: torch.Tensor, residual: torch.Tensor, left: torch.Tensor, rng: Rng) -> list[bytes]:
        return encode_segments(self._segments, x, residual if self.error_feedback else None, left, rng)
