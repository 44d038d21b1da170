"""Vectors as callers have them: numpy arrays and torch tensors, without importing torch."""

import sys
from typing import Any

import numpy as np

from gradwire import kernels
from gradwire.codecs.base import Floats
from gradwire.errors import InputError
from gradwire.kernels import backends
from gradwire.kernels.backends import Vector

__all__ = ["as_input", "as_output", "as_vector"]

DTYPES = ("float32", "float64", "float16", "bfloat16")

FLOAT32 = np.dtype(np.float32)  # of the machine's byte order

HOSTED = ("cpu", "mps")
"""Kinds of devices whose vectors are encoded on the host."""


def as_input(x: Any) -> Floats:
    """:func:`as_vector`, in the host's memory."""
    return kernels.to_host(as_vector(x))


def as_vector(x: Any) -> Vector:
    """x as contiguous float32 (n,), where it is; without a copy if it is that already.

    Args:
        x: a numpy array or torch tensor (n,) of float32, float64, float16 or bfloat16, on any device, or a list of
            floats.

    Returns:
        A numpy array in place of what is in the host's memory, else a tensor. A device that has no binary64 (Apple's
        MPS) cannot work on a vector as the format says: its vectors are copied to the host.

    Raises:
        InputError: another dtype or number of dimensions, or a float64 beyond float32's range.
    """
    if isinstance(x, np.ndarray):
        pass  # the usual case asks nothing about torch
    elif _is_tensor(x):
        x = x.detach()
        if x.device.type not in HOSTED or backends.tensors_only:
            return _as_tensor(x)
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.cpu().resolve_neg().numpy()
    elif isinstance(x, list | tuple | float | int):
        x = np.asarray(x, dtype=np.float64)
    elif isinstance(x, np.generic):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        raise InputError(f"a numpy array or torch tensor is due, not {type(x).__name__}")
    if x.dtype == FLOAT32 and x.ndim == 1:  # the usual case first: a dtype's name takes microseconds
        return backends.placed(np.ascontiguousarray(x))
    if x.dtype.name not in DTYPES or not x.dtype.isnative:
        raise InputError(f"x has dtype {x.dtype}: give one of {', '.join(DTYPES)} in the machine's byte order")
    if x.ndim != 1:
        shape = f"shape {x.shape}" if x.ndim else "no dimension"
        raise InputError(f"x has {shape}: a vector is due, give x.reshape(-1)")
    with np.errstate(over="ignore"):
        y = x.astype(np.float32)
    if x.dtype == np.float64:
        lost = np.isinf(y) & np.isfinite(x)
        if lost.any():
            i = int(np.argmax(lost))
            raise InputError(f"x[{i}] = {x[i]} is beyond float32's range: scale x first")
    return backends.placed(y)


def _as_tensor(x: Any) -> Vector:
    if x.device.type == "meta":
        raise InputError("x is on meta, where tensors hold no numbers: give one that does")
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise InputError(f"x has dtype {dtype}: give one of {', '.join(DTYPES)}")
    if x.ndim != 1:
        shape = f"shape {tuple(x.shape)}" if x.ndim else "no dimension"
        raise InputError(f"x has {shape}: a vector is due, give x.reshape(-1)")
    y = x.resolve_neg().float().contiguous()
    if dtype == "float64":
        lost = y.isinf() & x.isfinite()
        if bool(lost.any()):
            i = int(lost.nonzero()[0])
            raise InputError(f"x[{i}] = {float(x[i])} is beyond float32's range: scale x first")
    return y


def as_output(out: Any) -> Vector:
    """A view of ``out`` to add to: numpy array or torch tensor on any device, float32 (n,), contiguous, writable.

    Raises:
        InputError: anything else, for a copy would lose the sum.
    """
    if _is_tensor(out):
        out = out.detach()
        if out.device.type == "cpu" and not out.is_neg():
            out = out.numpy()
        elif str(out.dtype) == "torch.float32" and out.ndim == 1 and out.is_contiguous() and not out.is_neg():
            return out
        else:
            raise InputError("out must be a one-dimensional and contiguous float32 tensor, for it is changed in place")
    if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.dtype.isnative:
        what = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"out is {what}: a float32 array or tensor is due")
    if out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
        raise InputError("out must be one-dimensional, contiguous and writable, for it is changed in place")
    return backends.placed(out)


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever holds a tensor has imported it
    return torch is not None and isinstance(x, torch.Tensor)
