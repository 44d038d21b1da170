"""Vectors in files: .npy, .safetensors and .pt in; .npy out."""

from pathlib import Path
from typing import Any

import numpy as np

from gradwire.codecs.base import Floats
from gradwire.errors import InputError, MissingError

__all__ = ["read_vector", "write_vector"]

SUFFIXES = (".npy", ".safetensors", ".pt")


def read_vector(path: Path, tensor: str | None = None) -> Any:
    """The vector in a file, flattened in C order.

    Args:
        path: .npy; .safetensors; .pt (a tensor, or a dict of tensors such as a state_dict; loaded with weights_only).
        tensor: name of one tensor of a file that holds several; without it all are joined, ordered by name.

    Returns:
        numpy array or torch tensor (n,), of the file's dtype.

    Raises:
        InputError: no such file or tensor, or a file that cannot be read.
        MissingError: the package that reads this kind of file is not installed.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there: give a file that exists")
    read = {".npy": _read_npy, ".safetensors": _read_safetensors, ".pt": _read_pt}.get(path.suffix)
    if read is None:
        raise InputError(f"{path} has an unknown ending: give one of {', '.join(SUFFIXES)}")
    named = read(path)
    if tensor is not None:
        if tensor not in named:
            raise InputError(f"{path} has no tensor {tensor!r}: it has {', '.join(sorted(named))}")
        return named[tensor].reshape(-1)
    flat = [named[name].reshape(-1) for name in sorted(named)]
    if not flat:
        raise InputError(f"{path} holds no tensor")
    if len(flat) == 1:
        return flat[0]
    from gradwire.codecs.arrays import as_input

    return np.concatenate([as_input(one) for one in flat])


def write_vector(path: Path, x: Floats) -> None:
    """Writes x as .npy."""
    if path.suffix != ".npy":
        raise InputError(f"{path} must end in .npy: decoded vectors are written in that form")
    with path.open("wb") as file:
        np.save(file, x, allow_pickle=False)


def _read_npy(path: Path) -> dict[str, Any]:
    try:
        return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
    except (ValueError, OSError, EOFError) as e:
        raise InputError(f"{path} is not a readable .npy file of numbers: {_first_line(e)}") from None


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingError("reading .safetensors needs a package: pip install safetensors") from None
    try:
        # numpy has no bfloat16: torch reads them where it is installed.
        import torch  # noqa: F401

        framework = "pt"
    except ImportError:
        framework = "numpy"
    try:
        with safe_open(path, framework) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as e:
        raise InputError(f"{path} is not a readable .safetensors file: {_first_line(e)}") from None


def _read_pt(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        raise MissingError("reading .pt needs torch: pip install 'gradwire[torch]'") from None
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # torch.load raises whatever its parts raise
        raise InputError(f"{path} is not a readable .pt file of tensors: {_first_line(e)}") from None
    if isinstance(loaded, torch.Tensor):
        return {"": loaded}
    if isinstance(loaded, dict):
        return {str(k): v for k, v in loaded.items() if isinstance(v, torch.Tensor) and v.is_floating_point()}
    raise InputError(f"{path} holds {type(loaded).__name__}: a tensor or a dict of tensors is due")


def _first_line(e: BaseException) -> str:
    lines = str(e).splitlines()
    return lines[0] if lines else type(e).__name__
