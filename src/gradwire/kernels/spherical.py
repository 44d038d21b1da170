"""Spherical Compression: blocks of a vector as points of a sphere, to bytes and back, on the host."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.kernels import backends
from gradwire.kernels.backends import Vector

__all__ = ["SphericalBlocks", "add_spherical", "decode_spherical", "encode_spherical", "spherical_search"]

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.uint64]
Bytes = bytes | bytearray | memoryview


class SphericalBlocks(Protocol):
    """What m blocks of a vector are sent as; the native one takes about as much memory as the message."""

    @property
    def index(self) -> Longs:
        """The number of each block's point, below 2^40; 0 without one: uint64 (m,)."""

    @property
    def gain(self) -> Floats:
        """What a block's point is scaled by: 0 for a block of zeros, −1 for one that is sent as it is: float32 (m,)."""


def spherical_search(x: Floats, m: int, alpha: float, seed: int, pair_limit: int) -> SphericalBlocks:
    """For each of m blocks of x the first point that approximates it within α, and its gain."""
    return backends.active.spherical_search(x, m, alpha, seed, pair_limit)


def encode_spherical(x: Floats, found: SphericalBlocks) -> list[Bytes]:
    """The payload of Spherical behind its seed, in pieces; at least one gain is not 0."""
    return backends.active.encode_spherical(x, found)


def decode_spherical(data: Bytes, n: int, m: int) -> tuple[SphericalBlocks, int]:
    """The blocks of a vector of n entries from the front of data, and the bytes used."""
    return backends.active.decode_spherical(data, n, m)


def add_spherical(found: SphericalBlocks, seed: int, out: Vector, weight: float) -> None:
    """out ← out + weight·values, of blocks that :func:`decode_spherical` gave."""
    if isinstance(out, np.ndarray):
        return backends.active.add_spherical(found, seed, out, weight)
    values = np.empty(len(out), np.float32)
    backends.active.spherical_values(found, seed, values)
    return backends.of(out).add_dense(out, values, weight)
