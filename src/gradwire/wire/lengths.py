"""How long a section can get: bounds that hold for every content, for the guarantees of codecs."""

import math

from gradwire.wire.writer import varint_length

__all__ = ["indices_bytes", "integers_bytes", "levels_bytes"]

BLOCK = 2**20
LANES = 64
RENORMALISATION = 1.012
"""Growth of rANS beyond the tokens' bits.

A lane's state x ≥ 16f gains log2(4096/f) bits and at most log2(1 + (1 − f/4096)·f/x) more. Between two words that a
lane puts out, the first token has f/x ≤ 1/16, those after it f/x ≤ Π/16, Π the product of their f/4096: together
log2(e)/8 bits, and 1/16 of that again for the rounding of states: 0.19 bits for 16.
"""


def integers_bytes(m: int, most: int, total: float | None = None) -> int:
    """The longest integers section (4.1) of m numbers, none above ``most``.

    Definition: a block costs the entropy H of its tokens, their extra bits, the tables and lanes, and what rounding
    to frequencies of 1/4096 adds. H + extra bits ≤ log2 R, R the numbers that tokens up to that of ``most`` stand
    for; with v̄ = total/m also ≤ (1 + μ)log2(1 + μ) − μ log2 μ, μ = 5v̄/4: a geometric law on the tokens' first
    numbers. Frequencies: f ≥ 1 and, with p = 4096·count/M, f ≥ p − ½ or, of A tokens, f ≥ p(4097 − A)/4096. A unary
    block is taken only where shorter.

    Args:
        m: numbers.
        most: the largest one that can occur.
        total: what their sum cannot pass, if that is known.

    Example:
        >>> round(8 * integers_bytes(2**20, 2) / 2**20, 3)
        1.607
    """
    if m == 0:
        return 0
    tokens, reach = _tokens_up_to(most)
    unary_bits = float(2 + (most + 1) // 2 if most else 1)
    rate = math.log2(reach)
    if total is not None:
        mean = total / m
        unary_bits = min(unary_bits, 2.5 + mean / 2)
        rate = min(rate, _geometric(1.25 * mean))
    blocks, rest = divmod(m, BLOCK)
    rans = blocks * _rans_bytes(BLOCK, tokens, rate) + (_rans_bytes(rest, tokens, rate) if rest else 0)
    return min(rans, -(-m // BLOCK) * 2 + math.ceil(m * unary_bits / 8))


def levels_bytes(m: int, most: int, total: float | None = None) -> int:
    """The longest levels section (4.4) of m signed integers, of magnitudes up to ``most`` that sum to ``total``."""
    dense = integers_bytes(m, 2 * most, None if total is None else 2 * total)
    few = m // 64
    sparse = varint_length(m) + indices_bytes(m, few) + integers_bytes(few, 2 * most) if few else 5
    return 1 + max(dense, sparse)


def indices_bytes(n: int, k: int) -> int:
    """The longest indices section (4.2) of at most k of n: by Golomb–Rice, whose quotients sum to at most (n − k) >> b.

    Definition: with the format's parameter b that is k(b + 1) + (n − k)/2^b bits. For one b they grow with k, and the
    most of a b is above the most of the next: so k itself counts, and the greatest count that has b + 1.

    Example:
        >>> indices_bytes(1_000_000, 10_000)
        10687
    """
    if k == 0:
        return 0
    b = 0
    while k << (16 + b) < 31536 * n:
        b += 1
    below = -(-31536 * n >> (16 + b)) - 1
    bits = max(k * (b + 1) + ((n - k) >> b), below * (b + 2) + ((n - below) >> (b + 1)))
    return 3 + (bits + 7) // 8


def _tokens_up_to(most: int) -> tuple[int, int]:
    """How many tokens numbers up to ``most`` have, and how many numbers these tokens stand for."""
    if most < 32:
        return most + 1, most + 1
    e = most.bit_length() - 1
    quarter = most >> (e - 2) & 3
    return 33 + 4 * (e - 5) + quarter, (5 + quarter) << (e - 2)


def _geometric(mean: float) -> float:
    """Entropy of the geometric law on 0, 1, … of this mean, bits."""
    return (1.0 + mean) * math.log2(1.0 + mean) - mean * math.log2(mean) if mean > 0 else 0.0


def _rans_bytes(m: int, tokens: int, rate: float) -> int:
    used = min(tokens, m)
    rounded = (0.88 * used + 1.4427 * (used - 1) * 4096 / (4097 - used)) / 4096
    bits = RENORMALISATION * m * (rate + rounded)
    table = math.ceil((4 * tokens + used * math.log2(4096 / used)) / 8)
    # The estimate that the lanes follow from is at most 0.087 bits a token too high; a lane for every 512 of them.
    lanes = min(LANES, max(1, int((bits + 0.087 * m) / 512)))
    return 2 + table + 5 + 5 + 4 * lanes + 2 * math.ceil(bits / 16) + 1
