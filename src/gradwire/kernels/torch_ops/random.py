"""The counter-based generator (wire format, section 3), in 64-bit integers that hold 32-bit words."""

import torch
from torch import Tensor

__all__ = ["philox_words", "uniform"]

LOW = 0xFFFFFFFF
M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10


def philox_words(seed: int, stream: int, start: int, count: int, device: torch.device) -> Tensor:
    """Words start … start + count − 1 of the generator (seed, stream): int64 (count,), in 0 … 2^32 − 1.

    A product of two words is below 2^64: a 64-bit integer wraps to the same bits, and a shift, which repeats the sign,
    gives its upper half once that is masked.

    Example:
        >>> from gradwire.kernels import reference
        >>> bool((philox_words(1, 2, 3, 9, torch.device("cpu")).numpy() == reference.philox_words(1, 2, 3, 9)).all())
        True

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    first, skipped = divmod(start, 4)
    blocks = torch.arange(first, first - (-(skipped + count) // 4), device=device)
    c0, c1 = blocks & LOW, blocks >> 32
    c2, c3 = torch.full_like(c0, stream & LOW), torch.full_like(c0, stream >> 32)
    k0, k1 = seed & LOW, seed >> 32
    for _ in range(ROUNDS):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1, c2, c3 = (p1 >> 32 & LOW) ^ c1 ^ k0, p1 & LOW, (p0 >> 32 & LOW) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return torch.stack([c0, c1, c2, c3], 1).view(-1)[skipped : skipped + count]


def uniform(seed: int, stream: int, start: int, count: int, device: torch.device) -> Tensor:
    """Uniform numbers in [0, 1), multiples of 2^−24: float32 (count,)."""
    return (philox_words(seed, stream, start, count, device) >> 8).to(torch.float32) * 2.0**-24
