"""Flower's arrays and numpy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from gradwire.errors import InputError
from gradwire.flower.protocol import BUNDLE

__all__ = ["DecodedArray", "array_record", "bundle_array", "from_record", "to_record"]

NUMPY = "numpy.ndarray"
"""The ``stype`` that Flower itself can read."""


def from_record(record: Mapping[str, Array]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of one's own record as numpy arrays; bfloat16 becomes float32, which holds it exactly.

    For what this side's own app or strategy made. What a peer sent is read by bundle.py, which trusts no header.

    Raises:
        InputError: an array is in a serialisation that is neither numpy's nor that of array_record.
    """
    return {name: _read(name, array) for name, array in record.items()}


def to_record(arrays: Mapping[str, np.ndarray[Any, Any]]) -> ArrayRecord:
    """Numpy arrays as a record in Flower's own serialisation."""
    record = ArrayRecord()
    for name, array in arrays.items():
        record[name] = Array(np.asarray(array))
    return record


def array_record(state_dict: Mapping[str, Any]) -> ArrayRecord:
    """A torch state_dict as an ArrayRecord, bfloat16 included, which Flower's own constructor refuses.

    A bfloat16 tensor becomes an Array of dtype "bfloat16" that holds float32 values, twice the bytes in this process
    only: on the wire it is compressed like any other.

    Args:
        state_dict: names and tensors on any device.

    Example:
        >>> import torch
        >>> record = array_record({"w": torch.ones(3, dtype=torch.bfloat16)})
        >>> record["w"].dtype, record["w"].numpy().dtype.name
        ('bfloat16', 'float32')
    """
    record = ArrayRecord()
    for name, tensor in state_dict.items():
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            wide = Array(tensor.float().numpy())
            record[name] = Array("bfloat16", wide.shape, NUMPY, wide.data)
        else:
            record[name] = Array(tensor.numpy())
    return record


def bundle_array(data: bytes) -> Array:
    """A bundle as an Array."""
    return Array("uint8", (len(data),), BUNDLE, data)


class DecodedArray(Array):
    """An Array whose values are computed when they are asked for, and not kept.

    So a strategy that goes through the replies one tensor at a time, as FedAvg does, holds one dense tensor at a time,
    and not one dense model for each client.
    """

    def __init__(self, dtype: str, shape: tuple[int, ...], compute: Callable[[], np.ndarray[Any, Any]]) -> None:
        self.dtype, self.shape, self.stype = dtype, shape, NUMPY
        self.__dict__["_compute"] = compute

    def numpy(self) -> np.ndarray[Any, Any]:
        """Computes the values."""
        return np.array(self.__dict__["_compute"](), self.dtype)

    @property
    def data(self) -> bytes:  # type: ignore[override]
        """The values in numpy's serialisation."""
        return bytes(Array(self.numpy()).data)


def _read(name: str, array: Array) -> np.ndarray[Any, Any]:
    if array.stype != NUMPY:
        raise InputError(f"{name} is serialised as {array.stype!r}: give Array(ndarray), or use array_record")
    found: np.ndarray[Any, Any] = np.load(BytesIO(array.data), allow_pickle=False)
    if array.dtype == "bfloat16" and found.dtype.itemsize == 2:
        # numpy has no bfloat16: packages that add one save its bits, the upper half of a float32.
        return (found.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return found
