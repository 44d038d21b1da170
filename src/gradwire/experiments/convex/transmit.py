"""What every method here is made of: a vector sent as a real message, and an iterate with the messages it took."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import gradwire
from gradwire.experiments.convex.problems import Vector

__all__ = ["Iterate", "transmit"]


class Iterate(NamedTuple):
    """x^t, and the messages that the workers sent to get there from x^{t−1}: one each, in their order."""

    x: Vector
    messages: Sequence[bytes]


def transmit(codec: gradwire.Codec, vector: Vector, rng: gradwire.Rng) -> tuple[bytes, Vector]:
    """E(v), and D(E(v)) as the receiver has it, in float64.

    >>> message, received = transmit(gradwire.from_spec("topk:k=1"), np.array([0.1, -4.0]), gradwire.Rng(0))
    >>> isinstance(message, bytes), received.tolist()
    (True, [0.0, -4.0])
    """
    message = gradwire.encode(codec, vector, rng)
    return message, gradwire.decode(message, len(vector)).astype(np.float64)
