"""The largest step whose measured error is within a given α: what makes Sparse Dithering fit the vector at hand."""

import math

import numpy as np

from gradwire import kernels
from gradwire.kernels import Vector

__all__ = ["largest_step"]

SAMPLE = 2**18
PASSES = 12
CLOSE = 1.0 - 2.0**-9


def largest_step(x: Vector, energy: float, largest: float, alpha: float) -> float:
    """A step, nearly the largest, at which nearest rounding with the optimal gain has an error of at most α‖x‖².

    Definition: the error of step γ is 1 − S1²/(S2·‖x‖²), S1 = Σ x·k, S2 = Σ k², k = round(x/γ). From a bracket – the
    paper's step, which is within α for every x, and twice the largest entry, where all levels are 0 – the step moves
    by √(α/error), as the error grows like γ², or to the bracket's geometric middle where that leaves it. It ends at
    an error within 2^−9 below α, or after 12 measurements. Every step that is returned was measured, or is the
    paper's. Only exactly rounded operations, so that all machines find the same one. Long vectors are searched on
    every m-th entry first.

    Args:
        x: float32 (n,), not all zero.
        energy: ‖x‖².
        largest: max|x_i|.
        alpha: in (0, 1).

    Returns:
        The step, a binary32.
    """
    target = (math.sqrt(alpha) - 2.0**-21) ** 2  # what rounding in binary32 may add is taken off
    safe = 2.0 * math.sqrt(target / len(x) * energy) * (1.0 - 2.0**-20 / math.sqrt(alpha))
    start = math.sqrt(3.0) * safe  # the error of a smooth density at the step 2h is ν/3
    if len(x) > SAMPLE:
        sample = kernels.thinned(x, -(-len(x) // SAMPLE))
        sample_energy = kernels.sum_squares(sample)
        if sample_energy > 0.0:
            start = _search(sample, sample_energy, 0.0, 4.0 * largest, start, target)
    return _search(x, energy, safe, 4.0 * largest, start, target)


def _search(x: Vector, energy: float, low: float, high: float, start: float, target: float) -> float:
    step = start
    for _ in range(PASSES):
        if not low < step < high:
            step = math.sqrt(max(low, high * 2.0**-20) * high)
        step = float(np.float32(step))
        error = _error(x, energy, step)
        if error <= target:
            low = step
            if error >= target * CLOSE:
                break
        else:
            high = step
        if high <= low * (1.0 + 2.0**-12):
            break
        step *= math.sqrt(target * (1.0 + CLOSE) / 2.0 / error) if error > 0.0 else 2.0
    return float(np.float32(low)) if low > 0.0 else start


def _error(x: Vector, energy: float, step: float) -> float:
    products, squares, _ = kernels.level_sums(x, float(np.float32(1.0) / np.float32(step)))
    return 1.0 - products * products / (squares * energy) if squares > 0.0 else 1.0
