"""Which backend works on what: torch operations on tensors, native code or the numpy reference on arrays."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire import _core
from gradwire.errors import MissingError, ParameterError

__all__ = ["Vector", "active", "backend", "of", "placed", "tensors_only", "zeros"]

Vector = Any
"""float32 (n,), contiguous: a numpy array, or a torch tensor on an accelerator (with the backend torch: any tensor)."""


def _load(name: str) -> tuple[ModuleType, bool]:
    if name == "reference":
        from gradwire.kernels import reference

        return reference, False
    if name in ("native", "torch"):
        return _core, name == "torch"
    raise ParameterError(f"the backend is native, reference or torch, not {name!r} (see GRADWIRE_BACKEND)")


active, tensors_only = _load(os.environ.get("GRADWIRE_BACKEND", "native"))
"""Works on arrays; whether vectors in the host's memory become tensors."""


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Runs the kernels of another backend inside a with-block; for the whole process, so for tests.

    Args:
        name: "native"; "reference"; or "torch": torch operations on vectors in the host's memory as well, as if that
            were an accelerator's, and native code on what crosses to the host.

    Example:
        >>> from gradwire.kernels import top
        >>> with backend("reference"):
        ...     int(top(np.array([1, -3, 2], np.float32), 1)[0])
        1
    """
    global active, tensors_only
    before = active, tensors_only
    active, tensors_only = _load(name)
    try:
        yield
    finally:
        active, tensors_only = before


def of(x: Vector) -> ModuleType:
    """The backend that works on a vector."""
    return active if isinstance(x, np.ndarray) else _torch_ops()


def placed(x: npt.NDArray[np.generic]) -> Vector:
    """An array of the host where its backend wants it: itself, or with the backend torch a tensor of its memory."""
    return _torch_ops().on_host(x) if tensors_only else x


def zeros(n: int, device: Any) -> Any:
    """n zeros, float32: a torch tensor on a device, given by itself or its name; a numpy array if that is None.

    Raises:
        MissingError: torch is not installed.
    """
    return np.zeros(n, np.float32) if device is None else _torch_ops().zeros(n, device)


def _torch_ops() -> ModuleType:
    try:
        from gradwire.kernels import torch_ops
    except ImportError:
        raise MissingError("devices and the backend torch need torch: pip install 'gradwire[torch]'") from None
    return torch_ops
