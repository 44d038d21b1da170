"""Strongly convex problems whose constants and solution are known exactly."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.errors import InputError, ParameterError

__all__ = ["Logistic", "Problem", "Ridge", "Split", "Vector"]

Vector = npt.NDArray[np.float64]

NEWTON_STEPS = 200


class Problem(ABC):
    """f(x) = (1/m)·Σ_j loss(⟨a_j, x⟩, b_j) + (λ/2)‖x‖², over m rows of d features.

    Args:
        features: the a_j, float64 (m, d), a numpy array or a scipy CSR matrix.
        targets: the b_j, float64 (m,).
        lam: λ > 0.

    Raises:
        ParameterError: λ is not positive.
        InputError: shapes do not fit.
    """

    def __init__(self, features: Any, targets: Any, lam: float) -> None:
        if not lam > 0.0:
            raise ParameterError(f"lam is {lam}: give a positive number, so that there is one solution")
        self.features = features
        self.targets: Vector = np.asarray(targets, np.float64)
        self.lam = float(lam)
        if features.ndim != 2 or self.targets.shape != (features.shape[0],) or not features.shape[0]:
            raise InputError(
                f"features {features.shape} and targets {self.targets.shape} do not fit: give (m, d), (m,)"
            )

    @property
    def dim(self) -> int:
        """d."""
        return int(self.features.shape[1])

    @cached_property
    def transposed(self) -> Any:
        """Aᵀ, made once: scipy's takes as long as a product with it."""
        return self.features.T

    @cached_property
    def curvature(self) -> Vector:
        """Eigenvalues of AᵀA/m, ascending."""
        gram = self.transposed @ self.features / len(self.targets)
        return np.linalg.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L: the least Lipschitz constant of the gradient that is known."""

    @property
    @abstractmethod
    def convexity(self) -> float:
        """μ: f is μ-strongly convex."""

    @abstractmethod
    def gradient(self, x: Vector) -> Vector:
        """∇f(x), float64 (d,)."""

    @cached_property
    @abstractmethod
    def solution(self) -> Vector:
        """x*, to the precision of float64."""


class Ridge(Problem):
    """f(x) = (1/2m)‖Ax − b‖² + (λ/2)‖x‖²; L and μ are the extreme eigenvalues of AᵀA/m + λ.

    Example:
        >>> problem = Ridge(np.array([[2.0, 0.0], [0.0, 1.0]]), [2.0, 3.0], lam=0.5)
        >>> problem.smoothness, problem.convexity, problem.solution.round(12).tolist()
        (2.5, 1.0, [0.8, 1.5])
    """

    @property
    def smoothness(self) -> float:
        """λ_max(AᵀA/m) + λ."""
        return float(self.curvature[-1]) + self.lam

    @property
    def convexity(self) -> float:
        """λ_min(AᵀA/m) + λ."""
        return max(0.0, float(self.curvature[0])) + self.lam

    def gradient(self, x: Vector) -> Vector:
        """Aᵀ(Ax − b)/m + λx."""
        residual = self.features @ x - self.targets
        return np.asarray(self.transposed @ residual / len(residual) + self.lam * x)

    @cached_property
    def solution(self) -> Vector:
        """Least squares on [A/√m; √λ·I] and [b/√m; 0], which does not square the condition number, as AᵀA does."""
        root = len(self.targets) ** -0.5
        dense = self.features if isinstance(self.features, np.ndarray) else self.features.toarray()
        stacked = np.vstack([dense * root, np.sqrt(self.lam) * np.eye(self.dim)])
        right = np.concatenate([self.targets * root, np.zeros(self.dim)])
        return np.asarray(np.linalg.lstsq(stacked, right, rcond=None)[0], np.float64)


class Logistic(Problem):
    """f(x) = (1/m)·Σ log(1 + exp(−b_j⟨a_j, x⟩)) + (λ/2)‖x‖², b_j = ±1; L = λ_max(AᵀA/m)/4 + λ, μ = λ.

    Raises:
        InputError: a target is neither −1 nor 1.

    Example:
        >>> problem = Logistic(np.array([[1.0], [1.0], [-2.0]]), [1.0, -1.0, -1.0], lam=0.1)
        >>> bool(np.abs(problem.gradient(problem.solution)) < 1e-16)
        True
    """

    def __init__(self, features: Any, targets: Any, lam: float) -> None:
        super().__init__(features, targets, lam)
        if not np.all(np.abs(self.targets) == 1.0):
            raise InputError("a target of a logistic problem is neither -1 nor 1: map the two classes to these")

    @property
    def smoothness(self) -> float:
        """λ_max(AᵀA/m)/4 + λ."""
        return float(self.curvature[-1]) / 4.0 + self.lam

    @property
    def convexity(self) -> float:
        """λ."""
        return self.lam

    def value(self, x: Vector) -> float:
        """f(x)."""
        losses = np.logaddexp(0.0, -self.targets * (self.features @ x))
        return float(losses.mean() + 0.5 * self.lam * (x @ x))

    def gradient(self, x: Vector) -> Vector:
        """−(1/m)·Σ b_j·a_j/(1 + exp(b_j⟨a_j, x⟩)) + λx."""
        wrong = self._wrong(x)
        return np.asarray(self.lam * x - self.transposed @ (self.targets * wrong) / len(wrong))

    def _wrong(self, x: Vector) -> Vector:
        """The probability that the model gives to the other class, row by row; no overflow for any margin."""
        margins = self.targets * (self.features @ x)
        small = np.exp(-np.abs(margins))
        return np.asarray(np.where(margins > 0, small, 1.0) / (1.0 + small))

    @cached_property
    def solution(self) -> Vector:
        """Newton's method with halved steps, until the gradient is rounding noise and falls no more."""
        x = np.zeros(self.dim)
        least = np.inf
        for _ in range(NEWTON_STEPS):
            gradient = self.gradient(x)
            size = float(np.linalg.norm(gradient))
            if size >= least and size < 1e-12 * self.smoothness:
                break
            least = min(least, size)
            direction = np.linalg.solve(self._hessian(x), gradient)
            scale, value = 1.0, self.value(x)
            decrease = float(gradient @ direction)
            while decrease > 1e-12 * value and self.value(x - scale * direction) > value - 1e-4 * scale * decrease:
                scale /= 2.0
            x = x - scale * direction
        return x

    def _hessian(self, x: Vector) -> Vector:
        wrong = self._wrong(x)
        weights = (wrong * (1.0 - wrong))[:, None]
        weighted = self.features * weights if isinstance(self.features, np.ndarray) else self.features.multiply(weights)
        curvature = self.transposed @ weighted / len(wrong)
        dense = curvature if isinstance(curvature, np.ndarray) else curvature.toarray()
        return np.asarray(dense + self.lam * np.eye(self.dim))


@dataclass(frozen=True)
class Split:
    """f = (1/n)·Σ f_i: one problem's rows dealt out to n workers, equally many to each.

    Attributes:
        whole: f, on all rows that were dealt out.
        parts: the f_i.
    """

    whole: Problem
    parts: Sequence[Problem]

    @classmethod
    def deal(cls, problem: Problem, workers: int, order: npt.NDArray[np.int64] | None = None) -> "Split":
        """Deals the rows in ``order`` to the workers, in runs of ⌊m/n⌋; the last m mod n rows are left out.

        Raises:
            ParameterError: there are fewer rows than workers.

        Example:
            >>> split = Split.deal(Ridge(np.eye(5), np.arange(5.0), 1.0), workers=2)
            >>> [part.targets.tolist() for part in split.parts], len(split.whole.targets)
            ([[0.0, 1.0], [2.0, 3.0]], 4)
        """
        size = len(problem.targets) // workers
        if not size:
            raise ParameterError(f"{len(problem.targets)} rows are too few for {workers} workers")
        order = np.arange(len(problem.targets)) if order is None else order

        def of(rows: npt.NDArray[np.int64]) -> Problem:
            return type(problem)(problem.features[rows], problem.targets[rows], problem.lam)

        parts = tuple(of(order[i * size : (i + 1) * size]) for i in range(workers))
        return cls(of(order[: size * workers]), parts)

    @property
    def smoothness_of_parts(self) -> Vector:
        """L_1 … L_n."""
        return np.array([part.smoothness for part in self.parts])
