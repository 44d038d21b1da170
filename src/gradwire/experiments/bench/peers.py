"""What one would use without gradwire, by what it does: each the best that its library offers in few lines."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gradwire.codecs import RandomK, RTopK, SparseDithering, StandardDithering, TopK, UniversalDithering
from gradwire.codecs.base import Codec, Floats, count_of
from gradwire.experiments.bench.subjects import Subject

__all__ = ["LIBRARIES", "missing", "peer"]

LIBRARIES = ("torch", "numpy", "zstandard", "constriction")
"""Names of the packages, as ``--against`` takes them."""

NU = 0.1
"""Levels are those of ``sd:nu=0.1`` and of rounding to the nearest: the step is 2√ν times the root mean square."""


def missing(library: str) -> bool:
    """Whether it is not installed."""
    return importlib.util.find_spec(library) is None


@dataclass(frozen=True)
class _Picked:
    """Some entries: positions, of 32 bits, and values."""

    indices: Any
    values: Any


class _Picks(Subject):
    """Sends k entries as 8 bytes each; ``k`` is a count or a share, as in gradwire's codecs."""

    what: ClassVar[str]

    def __init__(self, k: int | float) -> None:
        self.k, self.name = k, f"{self.what}, k={k}"

    def size(self, message: _Picked) -> int:
        return 8 * len(message.indices)


class TorchTopK(_Picks):
    """The k largest, not sorted, and a gather."""

    what = "torch.topk + gather"

    def encode(self, x: Floats) -> _Picked:
        import torch

        t = torch.from_numpy(x)
        indices = torch.topk(t.abs(), count_of(self.k, len(x), "k"), sorted=False).indices
        return _Picked(indices.int(), t[indices])

    def add(self, message: _Picked, out: Floats, weight: float) -> None:
        import torch

        torch.from_numpy(out).index_add_(0, message.indices, message.values, alpha=weight)


class TorchRandomK(TorchTopK):
    """k random ones: the only draw without replacement that torch has is a permutation of all."""

    what = "torch.randperm + gather"

    def encode(self, x: Floats) -> _Picked:
        import torch

        indices = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: count_of(self.k, len(x), "k")]
        return _Picked(indices.int(), torch.from_numpy(x)[indices])


class NumpyTopK(_Picks):
    """The k largest by a partition."""

    what = "numpy argpartition"
    threaded = False

    def encode(self, x: Floats) -> _Picked:
        at = len(x) - count_of(self.k, len(x), "k")
        indices = np.argpartition(np.abs(x), at)[at:].astype(np.uint32)
        return _Picked(indices, x[indices])

    def add(self, message: _Picked, out: Floats, weight: float) -> None:
        out[message.indices] += np.float32(weight) * message.values


@dataclass(frozen=True)
class _Levels:
    """Multiples of a step; ``data`` is the array itself or a code for it."""

    step: float
    data: Any
    beside: Any = None


class TorchInt8(Subject):
    """Stochastic rounding to 255 levels between the extremes; a byte an entry."""

    name = "torch int8, stochastic"

    def encode(self, x: Floats) -> _Levels:
        import torch

        t = torch.from_numpy(x)
        least, most = torch.aminmax(t)  # 25 times as fast as t.abs().max()
        step = max(-float(least), float(most)) / 127 or 1.0
        u = torch.rand(len(x), generator=torch.Generator().manual_seed(0))
        return _Levels(step, u.add_(t, alpha=1 / step).floor_().clamp_(-127, 127).to(torch.int8))

    def size(self, message: _Levels) -> int:
        return 4 + len(message.data)

    def add(self, message: _Levels, out: Floats, weight: float) -> None:
        import torch

        torch.from_numpy(out).add_(message.data, alpha=weight * message.step)


class NumpyInt8(Subject):
    """The levels of ``sd:nu=0.1``, not coded: a byte an entry."""

    name = "numpy int8, nearest"
    threaded = False

    def encode(self, x: Floats) -> _Levels:
        step, levels = _levels(x)
        return _Levels(step, levels)

    def size(self, message: _Levels) -> int:
        return 4 + int(message.data.nbytes)

    def add(self, message: _Levels, out: Floats, weight: float) -> None:
        _add_levels(message.data, message.step, out, weight)


class Zstandard(Subject):
    """The same levels by zstd's fastest level."""

    name = "numpy int8 + zstd -1"
    threaded = False

    def __init__(self) -> None:
        zstandard = importlib.import_module("zstandard")
        self._compress = zstandard.ZstdCompressor(level=1).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def encode(self, x: Floats) -> _Levels:
        step, levels = _levels(x)
        return _Levels(step, self._compress(levels))

    def size(self, message: _Levels) -> int:
        return 4 + len(message.data)

    def add(self, message: _Levels, out: Floats, weight: float) -> None:
        _add_levels(np.frombuffer(self._decompress(message.data), np.int8), message.step, out, weight)


class Constriction(Subject):
    """The same levels by constriction's ANS coder, with their own frequencies, of 4 bytes each."""

    name = "numpy int8 + constriction ANS"
    threaded = False

    def __init__(self) -> None:
        self._stream = importlib.import_module("constriction").stream

    def encode(self, x: Floats) -> _Levels:
        step, levels = _levels(x)
        least = int(levels.min())
        symbols = levels.astype(np.int32) - least
        counts = np.bincount(symbols, minlength=2).astype(np.float32)
        coder = self._stream.stack.AnsCoder()
        coder.encode_reverse(symbols, self._model(counts))
        return _Levels(step, coder.get_compressed(), (least, counts, len(x)))

    def size(self, message: _Levels) -> int:
        _, counts, _ = message.beside
        return int(9 + counts.nbytes + message.data.nbytes)

    def add(self, message: _Levels, out: Floats, weight: float) -> None:
        least, counts, n = message.beside
        symbols = self._stream.stack.AnsCoder(message.data).decode(self._model(counts), n)
        _add_levels(symbols + np.int32(least), message.step, out, weight)

    def _model(self, counts: Floats) -> Any:
        return self._stream.model.Categorical(counts / counts.sum(), perfect=False)


def _levels(x: Floats) -> tuple[float, npt.NDArray[np.int8]]:
    step = 2.0 * float(np.sqrt(NU * float(np.dot(x, x)) / len(x))) or 1.0
    scaled = x * np.float32(1 / step)
    np.rint(scaled, out=scaled)
    return step, np.clip(scaled, -127, 127, out=scaled).astype(np.int8)


def _add_levels(levels: npt.NDArray[Any], step: float, out: Floats, weight: float) -> None:
    values = levels.astype(np.float32)
    values *= np.float32(weight * step)
    out += values


_INT8: dict[str, Callable[[], Subject]] = {
    "torch": TorchInt8,
    "numpy": NumpyInt8,
    "zstandard": Zstandard,
    "constriction": Constriction,
}


def peer(library: str, codec: Codec) -> Subject | None:
    """What the library offers that does what the codec does; None where it has nothing like that.

    Example:
        >>> peer("numpy", TopK(k=0.01)).name
        'numpy argpartition, k=0.01'
    """
    match library, codec:
        case "torch", TopK(k=k) | RTopK(k=k):
            return TorchTopK(k)
        case "numpy", TopK(k=k) | RTopK(k=k):
            return NumpyTopK(k)
        case "torch", RandomK(k=k):
            return TorchRandomK(k)
        case _, SparseDithering() | UniversalDithering() | StandardDithering():
            return _INT8[library]()
    return None
