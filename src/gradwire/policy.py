"""Which codec at which step, and which codec for a wanted ratio."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

import gradwire
from gradwire import Codec, Identity, Rng, SparseDithering, TopK
from gradwire.errors import ParameterError

__all__ = ["WarmUp", "codec_for_ratio", "gaussian"]

SAMPLE = 1 << 18
DITHER_UP_TO = 32.0
VALUES = SparseDithering(alpha=0.05)


@dataclass(frozen=True)
class WarmUp:
    """A codec that sends more in the first steps, while gradients change fast.

    A sparsifier's share of kept entries goes from `start` to k as start^(1 − t/T)·k^(t/T) over T = `steps` steps (and
    r in proportion to k); any other codec is replaced by the dense one for these steps.

    Args:
        codec: the codec from step `steps` on; of a sparsifier, k must be a share.
        steps: how many steps differ; 0 is none.
        start: share of entries kept in step 0, in (0, 1].

    Raises:
        ParameterError: steps or start is out of range, or k is a count.

    Example:
        >>> warm = WarmUp(gradwire.TopK(k=0.01), steps=4, start=0.16)
        >>> [round(warm.at(step).k, 3) for step in range(6)]
        [0.16, 0.08, 0.04, 0.02, 0.01, 0.01]

    Source: Lin et al., Deep Gradient Compression, ICLR 2018, section 3.3 (there by epochs: 25 %, 6.25 %, 1.6 %, 0.4 %).
    """

    codec: Codec
    steps: int = 0
    start: float = 0.25

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ParameterError(f"the warm-up has {self.steps} steps; give 0 or more")
        if not 0 < self.start <= 1:
            raise ParameterError(f"the warm-up starts at {self.start} of the entries; give more than 0 and at most 1")
        if self.steps and isinstance(_field(self.codec, "k"), int):
            raise ParameterError(f"the warm-up of {self.codec} needs k as a share, such as k=0.01")

    def at(self, step: int) -> Codec:
        """The codec of a step; the same on every rank."""
        if step >= self.steps:
            return self.codec
        k = _field(self.codec, "k")
        if k is None:
            return Identity()
        if self.start <= k:
            return self.codec
        share = float(self.start * (k / self.start) ** (step / self.steps))
        changes: dict[str, Any] = {"k": share}
        r = _field(self.codec, "r")
        if isinstance(r, float):
            changes["r"] = min(1.0, r * share / k)
        return replace(self.codec, **changes)


def codec_for_ratio(ratio: float) -> Codec:
    """A contractive codec whose messages are about `ratio` times smaller than float32.

    Up to 2.5 it is every entry in float16; up to 32 Sparse Dithering, which then has the least error for its bytes;
    above, the largest entries with dithered values, whose size does not depend on the vector. Found by bisection on
    262,144 Gaussian entries; heavy tails make dithered messages smaller still.

    Raises:
        ParameterError: a ratio below 1 or above 10,000.

    Example:
        >>> print(codec_for_ratio(100))
        topk:k=0.0442,values=sd(alpha=0.05)
    """
    if not 1 <= ratio <= 10_000:
        raise ParameterError(f"ratio is {ratio:g}; give 1 … 10,000")
    if ratio < 1.5:
        return Identity()
    if ratio < 2.5:
        return TopK(k=1.0, values="float16")
    dithering = ratio <= DITHER_UP_TO
    low, high = (1e-8, 0.6) if dithering else (1e-5, 0.3)
    for _ in range(24):
        middle = (low * high) ** 0.5
        # More error is fewer bytes; more entries are more bytes.
        if (_ratio(_candidate(middle, dithering)) < ratio) == dithering:
            low = middle
        else:
            high = middle
    return _candidate((low * high) ** 0.5, dithering)


def _candidate(amount: float, dithering: bool) -> Codec:
    short = float(f"{amount:.3g}")
    return SparseDithering(alpha=short) if dithering else TopK(k=short, values=VALUES)


@lru_cache(maxsize=64)
def _ratio(codec: Codec) -> float:
    return 4 * SAMPLE / len(gradwire.encode(codec, gaussian(SAMPLE), 0))


@lru_cache(maxsize=2)
def gaussian(n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """n nearly Gaussian entries of variance 1: sums of twelve uniform ones, so that no machine's logarithm enters."""
    uniform = Rng(0).words(12 * n).reshape(12, n).astype(np.float64) / 2.0**32 - 0.5
    return np.asarray(uniform.sum(axis=0), np.float32)


def _field(codec: Codec, name: str) -> Any:
    return getattr(codec, name) if name in {field.name for field in fields(codec)} else None
