"""Which tensors a model has, and which of them are compressed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from gradwire.errors import ParameterError

__all__ = ["DTYPES", "LOSSLESS", "Layout", "Rules", "Tensor"]

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
"""What a tensor may be; a bundle names a dtype by its place here, so the order is for ever. bfloat16 is read as
float32, which holds it exactly."""

LOSSLESS = ("*running_mean", "*running_var")
"""Names that are never compressed: a running variance below zero would make every output NaN."""


@dataclass(frozen=True)
class Rules:
    """Which tensors are compressed: floats of at least ``min_size`` entries whose name fits no pattern of ``lossless``.

    Example:
        >>> rules = Rules(min_size=256)
        >>> rules.compresses("fc.weight", (10, 100), "float32"), rules.compresses("fc.bias", (10,), "float32")
        (True, False)
    """

    min_size: int = 256
    lossless: tuple[str, ...] = LOSSLESS

    def __post_init__(self) -> None:
        if self.min_size < 1:
            raise ParameterError(f"min_size = {self.min_size} must be 1 or more")

    def compresses(self, name: str, shape: tuple[int, ...], dtype: str) -> bool:
        """Whether a tensor is compressed; all others go as they are, bit for bit."""
        return (
            dtype in ("float16", "float32", "float64")
            and math.prod(shape) >= self.min_size
            and not any(fnmatchcase(name, pattern) for pattern in self.lossless)
        )


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model: what the app has."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    compressed: bool

    @property
    def size(self) -> int:
        """Entries."""
        return math.prod(self.shape)

    @property
    def kept(self) -> np.dtype[Any]:
        """The little-endian dtype in which both sides keep it: float32 if it is compressed, else its own."""
        return np.dtype("float32" if self.compressed else self.dtype).newbyteorder("<")

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor as both sides keep it."""
        return self.size * self.kept.itemsize

    def keep(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array as both sides keep it: a copy or not, never a change; integers are rounded to the nearest.

        Raises:
            ParameterError: its shape is another.
        """
        if array.shape != self.shape:
            raise ParameterError(f"{self.name} has shape {array.shape} where {self.shape} is due")
        if self.kept.kind in "biu" and array.dtype.kind == "f":
            array = np.rint(array)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, self.kept).reshape(self.shape)


@dataclass(frozen=True)
class Layout:
    """All tensors of a model in order."""

    tensors: tuple[Tensor, ...]

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray[Any, Any]], rules: Rules) -> Layout:
        """The layout of a model.

        Raises:
            ParameterError: a tensor has a dtype that is not in DTYPES.
        """
        tensors = []
        for name, array in arrays.items():
            if array.dtype.name not in DTYPES:
                raise ParameterError(f"{name} has dtype {array.dtype}: give one of {', '.join(DTYPES)}, bfloat16")
            compressed = rules.compresses(name, array.shape, array.dtype.name)
            tensors.append(Tensor(name, array.shape, array.dtype.name, compressed))
        return Layout(tuple(tensors))

    @cached_property
    def digest(self) -> int:
        """A 64-bit fingerprint; both sides compare it before they read on."""
        text = "\n".join(f"{t.name!r} {t.shape} {t.dtype} {t.compressed}" for t in self.tensors)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    @property
    def nbytes(self) -> int:
        """Bytes of the whole model as both sides keep it."""
        return sum(t.nbytes for t in self.tensors)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises ParameterError unless these are the model's names, in any order."""
        have, due = set(names), {t.name for t in self.tensors}
        if have != due:
            missing, extra = sorted(due - have), sorted(have - due)
            raise ParameterError(f"the model's tensors differ: {missing or 'none'} missing, {extra or 'none'} unknown")
