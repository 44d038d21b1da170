"""Vectors as callers have them: numpy arrays and torch tensors, without importing torch."""

import sys
from typing import Any

import numpy as np

from gradwire.codecs.base import Floats
from gradwire.errors import InputError

__all__ = ["as_input", "as_output"]

DTYPES = ("float32", "float64", "float16", "bfloat16")


def as_input(x: Any) -> Floats:
    """x as contiguous float32 (n,); without a copy if it is that already.

    Args:
        x: a numpy array or torch tensor (n,) of float32, float64, float16 or bfloat16, on any device, or a list of
            floats.

    Raises:
        InputError: another dtype or number of dimensions, or a float64 beyond float32's range.
    """
    if _is_tensor(x):
        x = x.detach()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.cpu().resolve_neg().numpy()
    elif isinstance(x, list | tuple | float | int):
        x = np.asarray(x, dtype=np.float64)
    elif isinstance(x, np.generic):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        raise InputError(f"a numpy array or torch tensor is due, not {type(x).__name__}")
    if x.dtype.name not in DTYPES or not x.dtype.isnative:
        raise InputError(f"x has dtype {x.dtype}: give one of {', '.join(DTYPES)} in the machine's byte order")
    if x.ndim != 1:
        shape = f"shape {x.shape}" if x.ndim else "no dimension"
        raise InputError(f"x has {shape}: a vector is due, give x.reshape(-1)")
    if x.dtype == np.float32:
        return np.ascontiguousarray(x)
    with np.errstate(over="ignore"):
        y = x.astype(np.float32)
    if x.dtype == np.float64:
        lost = np.isinf(y) & np.isfinite(x)
        if lost.any():
            i = int(np.argmax(lost))
            raise InputError(f"x[{i}] = {x[i]} is beyond float32's range: scale x first")
    return y


def as_output(out: Any) -> Floats:
    """A view of ``out`` to add to: numpy array or CPU torch tensor, float32 (n,), contiguous, writable.

    Raises:
        InputError: anything else, for a copy would lose the sum.
    """
    if _is_tensor(out):
        if out.device.type != "cpu":
            raise InputError(f"out is on {out.device}: a CPU tensor is due")
        out = out.detach().numpy()
    if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.dtype.isnative:
        what = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"out is {what}: a float32 array or tensor is due")
    if out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
        raise InputError("out must be one-dimensional, contiguous and writable, for it is changed in place")
    return out


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever holds a tensor has imported it
    return torch is not None and isinstance(x, torch.Tensor)
