"""Exponents of power laws, fitted on logarithms, with a confidence interval."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gradwire.errors import ParameterError

__all__ = ["Slope", "power_law"]


@dataclass(frozen=True)
class Slope:
    """y ∝ x^value, and the 95 % confidence interval of the exponent."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})".replace("-", "−")


def power_law(x: ArrayLike, y: ArrayLike) -> Slope:
    """The exponent of y ∝ x^p by least squares of ln y on ln x; the interval is Student's, n − 2 degrees of freedom.

    Args:
        x, y: positive, shape (n,), n ≥ 3, x of at least two values.

    Raises:
        ParameterError: they are not.

    >>> str(power_law([1, 2, 4, 8], [1, 4, 16, 64]))
    '2.000 (2.000 to 2.000)'
    """
    from scipy.stats import t

    u, v = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if u.ndim != 1 or u.shape != v.shape or u.size < 3 or not ((u > 0).all() and (v > 0).all()):
        raise ParameterError("a power law needs at least three points with positive coordinates")
    u, v = np.log(u), np.log(v)
    u, v = u - u.mean(), v - v.mean()
    spread = float(u @ u)
    if spread == 0.0:
        raise ParameterError("all x are equal: no exponent can be fitted")
    value = float(u @ v) / spread
    rest = v - value * u
    half = float(t.ppf(0.975, u.size - 2)) * float(np.sqrt(rest @ rest / (u.size - 2) / spread))
    return Slope(value, value - half, value + half)
