"""What a training seat measured: bytes, error and times of one step, or of many together."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isnan, nan, sqrt
from typing import Self

__all__ = ["HookStats", "LayerMeasured", "Measured", "Recorder", "StepMeasured"]


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """What is counted of a step, and of each of its layers."""

    steps: int = 0
    coordinates: int = 0
    message_bytes: int = 0
    encode_ms: float = 0.0
    error: float = 0.0
    energy: float = 0.0

    def __add__(self, later: Self) -> Self:
        return replace(self, **{f.name: getattr(self, f.name) + getattr(later, f.name) for f in fields(self)})

    @property
    def dense_bytes(self) -> int:
        """Bytes of the same entries in float32."""
        return 4 * self.coordinates

    @property
    def ratio(self) -> float:
        """How many times smaller the messages are than dense float32; NaN if nothing was sent."""
        return self.dense_bytes / self.message_bytes if self.message_bytes else nan

    @property
    def bits_per_coordinate(self) -> float:
        """Bits of the messages for each entry of the gradient; NaN if nothing was sent."""
        return 8 * self.message_bytes / self.coordinates if self.coordinates else nan

    @property
    def nmse(self) -> float:
        """‖C(p) − p‖²/‖p‖²; NaN if no step was measured, or all vectors were zero."""
        return self.error / self.energy if self.energy else nan


@dataclass(frozen=True, kw_only=True)
class Measured(_Counted):
    """Measurements of one step on this rank; + adds those of several steps.

    Attributes:
        steps: how many steps these numbers cover.
        coordinates: gradient entries that were exchanged (none in a skipped step).
        message_bytes: bytes of this rank's messages: header, payload and checksum of each (not of skipped steps).
        encode_ms: residual and encoding, in milliseconds.
        error: ‖C(p) − p‖² over the steps in which it was measured.
        energy: ‖p‖² over the same steps; p is what was encoded (gradient plus residual).
        skipped: how many steps were skipped because a gradient was not finite on some rank.
        sent_bytes: bytes that left this rank: its messages once for every other rank, the table of their
            sizes, and the padding to the longest rank's.
        communicate_ms: from the last message encoded to the last one received, waiting for slower ranks included.
        decode_ms: decoding every rank's messages into the average.
    """

    skipped: int = 0
    sent_bytes: int = 0
    communicate_ms: float = 0.0
    decode_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LayerMeasured(_Counted):
    """Measurements of one layer's messages on this rank; + adds those of several steps.

    Attributes:
        steps: steps in which it was sent.
        coordinates: its gradient entries in these steps.
        message_bytes: bytes of its messages.
        encode_ms: residual and encoding, in milliseconds.
        error: ‖C(p) − p‖² over the steps in which it was measured.
        energy: ‖p‖² over the same steps.
        sent_energy: ‖C(p)‖² over the same steps.
        residual_norm: norm of what the rank kept after the latest of these steps; NaN if never measured.
    """

    sent_energy: float = 0.0
    residual_norm: float = nan

    def __add__(self, later: Self) -> Self:
        latest = self.residual_norm if isnan(later.residual_norm) else later.residual_norm
        return replace(super().__add__(later), residual_norm=latest)

    @property
    def cosine(self) -> float:
        """⟨p, C(p)⟩/(‖p‖‖C(p)‖) over the measured steps; NaN where either is zero."""
        norms = sqrt(self.energy * self.sent_energy)
        return (self.energy + self.sent_energy - self.error) / (2 * norms) if norms else nan


@dataclass(frozen=True)
class StepMeasured:
    """One step: its number, all layers together, and each layer by its name ("dense" is all dense ones)."""

    step: int
    total: Measured
    layers: Mapping[str, LayerMeasured] = field(default_factory=dict)


@dataclass(frozen=True)
class HookStats:
    """The latest steps one by one, all steps together, and each layer over all steps."""

    steps: tuple[Measured, ...]
    total: Measured
    layers: Mapping[str, LayerMeasured]


class Recorder:
    """Keeps the latest steps and running totals."""

    def __init__(self, history: int) -> None:
        self._steps: deque[Measured] = deque(maxlen=history)
        self._total = Measured()
        self._layers: dict[str, LayerMeasured] = {}

    def add(self, step: StepMeasured) -> None:
        """Record one finished step."""
        self._steps.append(step.total)
        self._total = self._total + step.total
        for name, layer in step.layers.items():
            self._layers[name] = self._layers.get(name, LayerMeasured()) + layer

    def stats(self) -> HookStats:
        """Return what was recorded."""
        return HookStats(tuple(self._steps), self._total, dict(self._layers))
