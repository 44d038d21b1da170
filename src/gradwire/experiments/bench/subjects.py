"""What is measured: anything that turns a vector into a message and adds a message to a sum."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

import gradwire
from gradwire.codecs.base import Codec, Floats

__all__ = ["WEIGHT", "OfCodec", "Subject", "error"]

WEIGHT = 0.5
"""Of every message that is added: one that the compiler cannot leave out."""

BLOCK = 1 << 20
"""Entries whose error is computed at once, in float64."""


class Subject(ABC):
    """Encoder and decoder side of one row; both take float32 (n,) arrays that are used again and again."""

    name: str
    """What the row is called."""

    threaded: ClassVar[bool] = True
    """Whether it knows how to use several threads."""

    @abstractmethod
    def encode(self, x: Floats) -> Any:
        """The message of x."""

    @abstractmethod
    def size(self, message: Any) -> int:
        """Its bytes: all that the other side needs."""

    @abstractmethod
    def add(self, message: Any, out: Floats, weight: float) -> None:
        """out ← out + weight·C(x)."""


class OfCodec(Subject):
    """A codec of gradwire: whole messages, checksum included, by the public functions."""

    def __init__(self, codec: Codec) -> None:
        self.codec, self.name = codec, str(codec)

    def encode(self, x: Floats) -> bytes:
        """The message."""
        return gradwire.encode(self.codec, x, 0)

    def size(self, message: bytes) -> int:
        """Its length."""
        return len(message)

    def add(self, message: bytes, out: Floats, weight: float) -> None:
        """Adds it."""
        gradwire.add(message, out, weight)


def error(subject: Subject, message: Any, x: Floats, y: Floats) -> float:
    """NMSE, ‖C(x) − x‖²/‖x‖², of a message of x; 0 for x = 0, which all send exactly; y is overwritten by C(x)."""
    y[:] = 0
    subject.add(message, y, 1.0)
    lost = energy = 0.0
    for start in range(0, len(x), BLOCK):
        part = x[start : start + BLOCK].astype(np.float64)
        difference = y[start : start + BLOCK] - part
        lost += float(np.dot(difference, difference))
        energy += float(np.dot(part, part))
    return lost / energy if energy else 0.0
