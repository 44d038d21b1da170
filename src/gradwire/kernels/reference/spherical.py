"""Spherical Compression (docs/wire-format.md, 7.12): random points of a sphere, and the search for one near a block."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError
from gradwire.kernels.reference.random import philox, philox_words
from gradwire.kernels.reference.values import add_dense

__all__ = ["SphericalBlocks", "add_spherical", "block_bounds", "spherical_search", "spherical_values"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]

RADIUS = np.float32(16.0)
"""Of the sphere that points lie on: then a gain is finite for every finite block."""

LONGEST = 256
"""Entries that a block may have."""

RAW = np.float32(-1.0)
"""The gain that marks a block sent as it is."""

LEAST_ENERGY = 2.0**-224
"""Blocks with less are sent as they are: their points would round to denormals."""

MARGIN = 1.0 - 2.0**-40
"""Keeps the promise from the rounding of the sums that test it."""

LARGEST = np.finfo(np.float32).max
TILE = 256  # pairs tested at a time; has no influence on what is found


@dataclass(frozen=True)
class SphericalBlocks:
    """What the m blocks of a vector of n entries are sent as."""

    index: Longs  # (m,), the point of each, below 2^40; 0 where nothing was searched
    gain: Floats  # (m,): 0 for a block of zeros, −1 for one that is sent as it is
    n: int
    raw: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """Entries of the blocks that a message sends as they are."""


def block_bounds(n: int, m: int) -> npt.NDArray[np.int64]:
    """The first entry of each of m blocks, and n: int64 (m + 1,).

    The first n mod m blocks have ⌈n/m⌉ entries, the others ⌊n/m⌋.
    """
    short, longer = divmod(n, m)
    numbers = np.arange(m + 1)
    return numbers * short + np.minimum(numbers, longer)


def pair_points(seed: int, pairs: Longs, d: int) -> Floats:
    """Point 2j of every pair j (point 2j + 1 is its opposite): float32 (pairs, d), of length 16.

    Coordinates come in twos: an exponential E and an angle φ give √E·(cos φ, sin φ); then all are scaled. Binary32
    throughout, exactly rounded operations only.
    """
    twos = -(-d // 2)
    blocks = -(-twos // 2)
    numbers: Longs = np.add.outer(pairs * np.uint64(blocks), np.arange(blocks, dtype=np.uint64)).ravel()
    counters = np.zeros((len(numbers), 4), np.uint32)
    counters[:, 0], counters[:, 1] = numbers & np.uint64(0xFFFFFFFF), numbers >> np.uint64(32)
    words = philox(counters, (seed & 0xFFFFFFFF, seed >> 32)).reshape(len(pairs), 2 * blocks, 2)[:, :twos]
    radius, turn = np.sqrt(_exponential(words[..., 0])), _circle(words[..., 1])
    z = (radius[..., None] * turn).reshape(len(pairs), 2 * twos)[:, :d]
    total = z[:, 0] * z[:, 0]
    for i in range(1, d):
        total = total + z[:, i] * z[:, i]
    points: Floats = z * (RADIUS / np.sqrt(total))[:, None]
    return points


def _exponential(words: Words) -> Floats:
    """−ln U of U = (2·(w >> 9) + 1)·2^−24."""
    u = ((words >> 9) * 2 + 1).astype(np.float32) * np.float32(2.0**-24)
    bits = u.view(np.int32)
    e = (bits - 0x3F400000) >> 23  # u = m·2^e with m in [¾, 3/2)
    m = (bits - (e << 23)).view(np.float32)
    t = (m - np.float32(1)) / (m + np.float32(1))
    log_m = t * _polynomial(t * t, 2, 2 / 3, 2 / 5, 2 / 7, 2 / 9)
    return -(e.astype(np.float32) * np.float32(0.693147180559945309) + log_m)


def _circle(words: Words) -> Floats:
    """A uniform point of the unit circle from each word: float32 (…, 2)."""
    odd = 2 * (words.view(np.int32) >> 8) + 1
    phi = odd.astype(np.float32) * np.float32(0.785398163397448310 * 2.0**-24)
    y = phi * phi
    sine = phi * _polynomial(y, 1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880)
    cosine = _polynomial(y, 1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320)
    cosine = np.where(words & 2, -cosine, cosine)
    swap = (words & 1).astype(np.bool_)
    return np.stack([np.where(swap, sine, cosine), np.where(swap, cosine, sine)], axis=-1)


def _polynomial(y: Floats, *coefficients: float) -> Floats:
    """Horner's rule in binary32; the coefficients by ascending power of y."""
    total = np.full_like(y, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = np.float32(c) + y * total
    return total


def flips(seed: int, first: int, count: int, d: int) -> npt.NDArray[np.bool_]:
    """Which coordinates change sign in blocks first … first + count − 1: bool (count, d)."""
    words = philox_words(seed, 1, 8 * first, 8 * count)
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return bits.reshape(count, LONGEST)[:, :d].astype(np.bool_)


def spherical_values(found: SphericalBlocks, seed: int, out: Floats) -> None:
    """Writes the values of all blocks, as they came with a message, to out.

    Args:
        found: of decode_spherical.
        seed: of the message.
        out: float32 (n,).
    """
    index, gain, raw = found.index, found.gain, found.raw
    out[:] = 0
    out[np.repeat(gain == RAW, np.diff(block_bounds(len(out), len(gain))))] = raw
    for first, begin, d, count in _groups(len(out), len(index)):
        chosen = np.flatnonzero(gain[first : first + count] > 0)
        points = pair_points(seed, index[first + chosen] >> np.uint64(1), d)
        negative = (index[first + chosen] & np.uint64(1)).astype(np.bool_)
        values = _scaled(points, gain[first + chosen])
        turned = flips(seed, first, count, d)[chosen] ^ negative[:, None]
        out[begin : begin + count * d].reshape(count, d)[chosen] = np.where(turned, -values, values)


def add_spherical(found: SphericalBlocks, seed: int, out: Floats, weight: float) -> None:
    """out ← out + weight·values."""
    values = np.empty_like(out)
    spherical_values(found, seed, values)
    add_dense(out, values, weight)


def _scaled(points: Floats, gain: Floats) -> Floats:
    with np.errstate(over="ignore"):
        values: Floats = np.clip(points * gain[:, None], -LARGEST, LARGEST)
    return values


def _groups(n: int, m: int) -> list[tuple[int, int, int, int]]:
    """The blocks of equal length: first block, first entry, length, number of blocks."""
    short, longer = divmod(n, m)
    groups = [(0, 0, short + 1, longer), (longer, longer * (short + 1), short, m - longer)]
    return [group for group in groups if group[3]]


def spherical_search(x: Floats, m: int, alpha: float, seed: int, pair_limit: int) -> SphericalBlocks:
    """For each block the first point that approximates it within α, and the gain to scale it by.

    Definition: section 7.12 of docs/wire-format.md, "the encoder".

    Args:
        x: float32 (n,), finite, n ≥ 1.
        m: number of blocks, ⌈n/256⌉ … n.
        alpha: α, 2^−12 … 0.999.
        seed: of the message.
        pair_limit: pairs that are tried for a block; it is sent as it is when none serves.
    """
    if not 0 < m <= len(x) <= m * LONGEST:
        raise ParameterError(f"{len(x)} entries do not make {m} blocks of 1 … {LONGEST} entries")
    index, gain = np.zeros(m, np.uint64), np.zeros(m, np.float32)
    for first, begin, d, count in _groups(len(x), m):
        blocks = x[begin : begin + count * d].reshape(count, d)
        turned = np.where(flips(seed, first, count, d), -blocks, blocks)
        found = _search_group(turned, alpha, seed, pair_limit)
        index[first : first + count], gain[first : first + count] = found
    return SphericalBlocks(index, gain, len(x))


def _search_group(x: Floats, alpha: float, seed: int, pair_limit: int) -> tuple[Longs, Floats]:
    count, d = x.shape
    index, gain = np.zeros(count, np.uint64), np.zeros(count, np.float32)
    energy = _ordered_sum(x.astype(np.float64) ** 2)
    gain[(energy > 0) & (energy < LEAST_ENERGY)] = RAW
    active = np.flatnonzero(energy >= LEAST_ENERGY)
    inverse = np.divide(1.0, np.sqrt(energy), out=np.zeros(count), where=energy > 0)
    unit = (x.astype(np.float64) * inverse[:, None]).astype(np.float32)
    threshold = np.float32(float(RADIUS) * np.sqrt(1.0 - alpha) * (1.0 - 2.0**-20))
    for start in range(0, pair_limit, TILE):
        if not len(active):
            break
        pairs = np.arange(start, min(start + TILE, pair_limit), dtype=np.uint64)
        points = pair_points(seed, pairs, d)
        products = unit[active, :1] * points[None, :, 0]
        for i in range(1, d):
            products = products + unit[active, i : i + 1] * points[None, :, i]
        done = np.zeros(len(active), np.bool_)
        for row, lane in np.argwhere(np.abs(products) >= threshold):  # by ascending lane within a row
            b = active[row]
            if not done[row]:
                g, negative = _fitting_gain(x[b], points[lane], float(energy[b]), alpha)
                if g > 0:
                    done[row], gain[b] = True, g
                    index[b] = 2 * (start + lane) + negative
        active = active[~done]
    gain[active] = RAW
    return index, gain


def _fitting_gain(x: Floats, point: Floats, energy: float, alpha: float) -> tuple[np.float32, bool]:
    """The roundest gain with which the point approximates x within α, 0 if there is none; and whether it is turned."""
    x64, p64 = x.astype(np.float64), point.astype(np.float64)
    c, w = float(_ordered_sum(x64 * p64)), float(_ordered_sum(p64 * p64))
    negative = c < 0
    c = abs(c)
    # The error of the gain g is N − 2cg + wg²: at most αN between the roots.
    rest = c * c - w * ((1.0 - alpha) * energy)
    if rest < 0:
        return np.float32(0), negative
    root = float(np.sqrt(rest))
    g = _roundest((c - root) / w, (c + root) / w)
    values = _scaled(point[None], np.array([g]))[0]
    difference = x64 - np.where(negative, -values, values).astype(np.float64)
    return (g if _ordered_sum(difference * difference) <= alpha * energy * MARGIN else np.float32(0)), negative


def _roundest(low: float, high: float) -> np.float32:
    """The binary32 in [low, high], 0 < low, whose mantissa ends in the most zeros; the largest such; 0 if none."""
    with np.errstate(over="ignore"):
        a, b = np.float32(low), np.float32(min(high, float(LARGEST)))
    a_bits = int(a.view(np.uint32)) + (float(a) < low)
    b_bits = int(b.view(np.uint32)) - (float(b) > high)
    if a_bits > b_bits:
        return np.float32(0)
    k = min(23, ((a_bits - 1) ^ b_bits).bit_length() - 1)
    return np.uint32(b_bits >> k << k).view(np.float32)


def _ordered_sum(terms: Doubles) -> Doubles:
    """Sum along the last axis, first to last."""
    total = np.zeros(terms.shape[:-1])
    for i in range(terms.shape[-1]):
        total = total + terms[..., i]
    return total
