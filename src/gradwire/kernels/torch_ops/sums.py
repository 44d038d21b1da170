"""Sums in the order that the wire format pins (4.6), although a device adds in parallel.

A lane's sum of terms ≥ 0 goes s ← s + t, rounded to binary64 each time, 65,536 times a block. While s stays within
one binade its last place u is fixed, and s/u is an integer that each term raises by t/u rounded to an integer – sums of
integers are the same in every order. Halves alone depend on s: a tie goes to the even s/u, so it depends on one bit,
and after a tie that bit is 0: what was added since the tie before tells it. So a lane is done in as many steps as it
crosses binades, not terms; the term that crosses is added as it stands.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradwire.kernels.torch_ops.crossing import down

__all__ = ["bucket_sums", "ordered_sum"]

BLOCK = 2**20
LANES = 16
TURNS = 256
"""Lanes of so few terms are added term by term."""

SHORTEST, WINDOW = 32, 4096
"""Terms of a lane that are looked at together, at least and at most."""

TOGETHER = 2**20
"""Terms in all that are looked at together, at most: what bounds the temporary memory."""

Term = Callable[[Tensor], Tensor]


def ordered_sum(x: Tensor, term: Term) -> float:
    """Σ term(x_i) in the order of 4.6.

    Args:
        x: float32 (n,).
        term: each entry's term, float64 ≥ 0, and 0 for the entry 0; below 2^1023 in all.
    """
    return float(bucket_sums(x, max(len(x), 1), term).sum())


def bucket_sums(x: Tensor, bucket: int, term: Term) -> npt.NDArray[np.float64]:
    """:func:`ordered_sum` of each run of ``bucket`` entries, the last one maybe shorter: float64 (⌈n/bucket⌉,)."""
    n = len(x)
    if n == 0:
        return np.zeros(0)
    buckets, blocks = -(-n // bucket), -(-bucket // BLOCK)
    starts = torch.arange(buckets, device=x.device)[:, None] * bucket
    ends = (starts + bucket).clamp(max=n)
    starts = (starts + torch.arange(blocks, device=x.device) * BLOCK).view(-1)
    ends = torch.minimum(ends.expand(buckets, blocks).reshape(-1), starts + BLOCK)
    rows = -(-min(bucket, BLOCK, n) // LANES)
    group = max(1, TOGETHER // (LANES * min(rows, WINDOW)))
    sums = [
        _block_sums(x, starts[i : i + group], ends[i : i + group], rows, term) for i in range(0, len(starts), group)
    ]
    # The sums of a bucket's blocks are added in order, from 0 on.
    host = down(torch.cat(sums)).reshape(buckets, blocks)
    total: npt.NDArray[np.float64] = np.add.accumulate(host, axis=1)[:, -1]
    return total


def _block_sums(x: Tensor, starts: Tensor, ends: Tensor, rows: int, term: Term) -> Tensor:
    """Of each block x[start:end], at most ``rows`` rows of 16 lanes."""
    lanes = torch.arange(LANES, device=x.device)
    first = (starts[:, None] + lanes).view(-1)
    end = ends.repeat_interleave(LANES)

    def terms(row: Tensor) -> Tensor:
        """Those of every lane in its rows: float64, 0 behind the end."""
        at = first[:, None] + LANES * row
        inside = at < end[:, None]
        return term(torch.where(inside, x[torch.where(inside, at, 0)], 0.0))

    lanewise = _turn_by_turn if rows <= TURNS else _by_binades
    s = lanewise(terms, len(first), rows, x.device).view(-1, LANES)
    while s.shape[1] > 1:
        s = s[:, : s.shape[1] // 2] + s[:, s.shape[1] // 2 :]
    return s[:, 0]


def _turn_by_turn(terms: Term, lanes: int, rows: int, device: torch.device) -> Tensor:
    s = torch.zeros(lanes, dtype=torch.float64, device=device)
    for t in terms(torch.arange(rows, device=device)).unbind(1):
        s = s + t
    return s


def _by_binades(terms: Term, lanes: int, rows: int, device: torch.device) -> Tensor:
    s = torch.zeros(lanes, dtype=torch.float64, device=device)
    done = torch.zeros(lanes, dtype=torch.int64, device=device)
    least = 0
    while least < rows:
        window = min(max(least, SHORTEST), WINDOW)  # as long as s was in the making, it will mostly be in its binade
        s, steps = _within_binade(s, terms(done[:, None] + torch.arange(window, device=device)))
        done += steps
        least = int(done.min())
    return s


def _within_binade(s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Adds a lane's terms up to the one that leaves the binade of s: the new s, and how many terms that took.

    Args:
        s: float64 (lanes,).
        t: float64 (lanes, window).
    """
    # The place of the last bit of s, from its exponent: 2^(field − 1023 − 52). Sums are no denormals.
    field = s.view(torch.int64) >> 52
    inverse = (2 * 1023 + 52 - field << 52).view(torch.float64)
    inverse = torch.where(s == 0.0, 2.0**1000, inverse)  # whatever is added to 0 leaves
    unit = (field - 52 << 52).view(torch.float64)
    start = (s * inverse).to(torch.int64)
    scaled = t * inverse[:, None]
    leaving = scaled >= 2.0**53
    scaled = torch.where(leaving, 0.0, scaled)

    floor = scaled.floor()
    tie = scaled - floor == 0.5
    whole = torch.where(tie, floor, scaled.round()).to(torch.int64)
    sums = start[:, None] + whole.cumsum(1)
    # At a tie, 2·position + parity: the last one before tells the parity that it had itself, before it was made even.
    position = torch.arange(1, t.shape[1] + 1, device=t.device)
    mark = torch.where(tie, 2 * position + (sums & 1), 0)
    before = torch.nn.functional.pad(mark.cummax(1).values[:, :-1], (1, 0))
    sums = sums + torch.where(tie, (sums ^ before) & 1, 0).cumsum(1)

    # From the first that leaves on, the integers mean nothing.
    steps = torch.where(leaving | (sums >= 2**53), position - 1, t.shape[1]).min(1).values
    leaves = steps < t.shape[1]
    last = sums.gather(1, (steps[:, None] - 1).clamp(min=0))[:, 0]
    # Exact: an integer below 2^53 times a power of two.
    inside = torch.where((steps == 0) | (s == 0.0), s, last.to(torch.float64) * unit)
    leaver = t.gather(1, steps[:, None].clamp(max=t.shape[1] - 1))[:, 0]
    return torch.where(leaves, inside + leaver, inside), steps + leaves.to(torch.int64)
