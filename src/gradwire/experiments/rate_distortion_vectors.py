"""The vectors of the rate–distortion experiment, each drawn anew for a seed."""

import math
from functools import lru_cache

import numpy as np

from gradwire.codecs.base import Floats

__all__ = ["ADVERSARIAL", "VECTORS", "vector"]

VECTORS = {
    "gauss": "Gaussian",
    "laplace": "Laplace",
    "student": "Student-t (3)",
    "sparse": "Gaussian, 10 % of them",
    "constant": "constant",
    "midpoints": "adversarial: midpoints",
    "thresholds": "adversarial: 17 % zeros",
    "gradient": "real gradient",
}
"""Name → what to call it."""

ADVERSARIAL = ("midpoints", "thresholds")

NU = 0.1
"""The ν that the adversarial vectors are made against."""


def vector(kind: str, n: int, seed: int) -> Floats:
    """A vector of that kind: float32 (n,); the gradient has as many entries as its network.

    >>> vector("constant", 3, 0).tolist()
    [1.0, 1.0, 1.0]
    """
    g = np.random.Generator(np.random.Philox(seed))
    sign = g.choice([-1.0, 1.0], n)
    if kind == "gauss":
        x = g.standard_normal(n)
    elif kind == "laplace":
        x = g.laplace(size=n)
    elif kind == "student":
        x = g.standard_t(3, n)
    elif kind == "sparse":
        x = np.where(g.random(n) < 0.1, g.standard_normal(n), 0.0)
    elif kind == "constant":
        x = np.ones(n)
    elif kind == "midpoints":
        # Magnitudes (2j + 1)·h of a unit vector, h = √(ν/n): j = 0, 1, 2 in shares that make the norm 1.
        x = sign * _with_norm(n, (1.0, 3.0, 5.0), g) * math.sqrt(NU / n)
    elif kind == "thresholds":
        # The worst share of zeros, the rest in two magnitudes a hair above thresholds of rounding.
        zeros = g.random(n) < 0.17
        x = np.where(zeros, 0.0, sign * _with_norm(n, (3.0, 5.0), g, 0.17) * 1.001) * math.sqrt(NU / n)
    else:
        return _gradient(seed)
    return x.astype(np.float32)


def _with_norm(n: int, magnitudes: tuple[float, ...], g: np.random.Generator, zeros: float = 0.0) -> np.ndarray:
    """Magnitudes in units of h drawn so that n·h² of them make a unit vector, ν·Σ = n, as nearly as two shares can."""
    target = 1.0 / NU / (1.0 - zeros)  # the mean square that is wanted, in units of h²
    squares = [m * m for m in magnitudes]
    upper = next((i for i in range(1, len(squares)) if squares[i] >= target), len(squares) - 1)
    share = min(1.0, max(0.0, (target - squares[upper - 1]) / (squares[upper] - squares[upper - 1])))
    return np.where(g.random(n) < share, magnitudes[upper], magnitudes[upper - 1])


HIDDEN = 1400


@lru_cache(maxsize=8)
def _gradient(seed: int) -> Floats:
    """The gradient of a network with one hidden layer on scikit-learn's digits, after an epoch of training."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = data.data / 16.0, np.eye(10)[data.target]
    g = np.random.Generator(np.random.Philox(seed))
    w1 = g.standard_normal((64, HIDDEN)) * math.sqrt(2 / 64)
    w2 = g.standard_normal((HIDDEN, 10)) * math.sqrt(2 / HIDDEN)
    gradients = (np.zeros_like(w1), np.zeros_like(w2))
    for batch in np.array_split(g.permutation(len(images)), 56):
        hidden = np.maximum(images[batch] @ w1, 0.0)
        scores = hidden @ w2
        p = np.exp(scores - scores.max(1, keepdims=True))
        error = (p / p.sum(1, keepdims=True) - labels[batch]) / len(batch)
        gradients = (images[batch].T @ ((error @ w2.T) * (hidden > 0)), hidden.T @ error)
        w1 -= 0.05 * gradients[0]
        w2 -= 0.05 * gradients[1]
    return np.concatenate([part.reshape(-1) for part in gradients]).astype(np.float32)
