"""The data sets: images as bytes, labels, and where to get them."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import pickle
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire import Rng
from gradwire.errors import InputError, MissingError

__all__ = ["Dataset", "load"]

DAMAGE = (
    ValueError,
    LookupError,
    AttributeError,
    EOFError,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    pickle.UnpicklingError,
)
"""What reading a file that is cut or altered raises."""

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Images (N, channels, height, width) of uint8 and labels (N,) of int64, for training and for testing."""

    title: str
    train_x: Images
    train_y: Labels
    test_x: Images
    test_y: Labels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.train_x.shape[1], self.train_x.shape[2], self.train_x.shape[3]


def load(name: str, data_dir: str | None) -> Dataset:
    """Return a data set by name, from data_dir if it is there.

    Raises:
        MissingError: the files are not there; the message says how to get them.
        InputError: a file is not what its name says.
    """
    loader = LOADERS[name]
    try:
        return loader(None if data_dir is None else Path(data_dir))
    except DAMAGE as error:
        raise InputError(f"the files of {name} are damaged ({error}); get them anew") from None


@cache
def _digits(data_dir: Path | None) -> Dataset:
    """1,797 images of 8×8, bundled with scikit-learn; 500 of them, the same ones always, are the test set."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingError(
            "the digits come with scikit-learn; install it with: pip install 'gradwire[experiments]'"
        ) from None
    digits = load_digits()
    x = (digits.images * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    y = digits.target.astype(np.int64)
    # In the file one writer's digits follow each other: mixed, once and for all, every writer is on both sides.
    order = np.argsort(Rng(0).words(len(y)), kind="stable")
    train, test = order[500:], order[:500]
    return Dataset("scikit-learn digits", x[train], y[train], x[test], y[test])


FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")


@cache
def _fashion_mnist(data_dir: Path | None) -> Dataset:
    """60,000 + 10,000 images of 28×28 in the four idx files."""
    for folder in (data_dir, FASHION_FOLDER):
        if folder is not None and (folder / "train-images-idx3-ubyte.gz").exists():
            parts = [
                _idx(folder / f"{part}-{kind}-ubyte.gz")
                for part in ("train", "t10k")
                for kind in ("images-idx3", "labels-idx1")
            ]
            train_x, train_y, test_x, test_y = parts
            return Dataset(
                "Fashion-MNIST",
                train_x.reshape(-1, 1, 28, 28),
                train_y.astype(np.int64),
                test_x.reshape(-1, 1, 28, 28),
                test_y.astype(np.int64),
            )
    raise MissingError(
        "Fashion-MNIST is not here: apt-get install dataset-fashion-mnist, or name the folder of its four "
        "*-ubyte.gz files with --data-dir"
    )


def _idx(path: Path) -> Images:
    """Read a gzipped idx file of bytes."""
    if not path.exists():
        raise MissingError(f"{path} is not there; Fashion-MNIST is four files, get all of them")
    data = gzip.decompress(path.read_bytes())
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is not an idx file of bytes")
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


@cache
def _cifar10(data_dir: Path | None) -> Dataset:
    """50,000 + 10,000 images of 3×32×32, from the python batches or from cifar10_jpg.tar.xz."""
    if data_dir is not None:
        for folder in (data_dir, data_dir / "cifar-10-batches-py"):
            if (folder / "data_batch_1").exists():
                return _cifar10_batches(folder)
        if (data_dir / "cifar10_jpg.tar.xz").exists():
            return _cifar10_jpeg(data_dir / "cifar10_jpg.tar.xz")
    raise MissingError(
        "CIFAR-10 is not here: name with --data-dir the folder that holds cifar-10-batches-py (unpacked from "
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz) or cifar10_jpg.tar.xz"
    )


class _ArraysOnly(pickle.Unpickler):
    """Unpickles what the CIFAR batches hold, numpy arrays of bytes, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: text.encode("latin1")
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in (
            "ndarray",
            "dtype",
            "_reconstruct",
        ):
            return np.ndarray.__reduce__(np.empty(0))[0] if name == "_reconstruct" else getattr(np, name)
        raise ValueError(f"a CIFAR-10 batch asks for {module}.{name}")


def _cifar10_batches(folder: Path) -> Dataset:
    def batch(name: str) -> tuple[Images, Labels]:
        content = _ArraysOnly(io.BytesIO((folder / name).read_bytes()), encoding="bytes").load()
        return content[b"data"].reshape(-1, 3, 32, 32), np.array(content[b"labels"], np.int64)

    parts = [batch(f"data_batch_{i}") for i in range(1, 6)]
    train_x, train_y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Dataset("CIFAR-10", train_x, train_y, *batch("test_batch"))


def _cifar10_jpeg(archive: Path) -> Dataset:
    """Decode the archive once; later runs and the workers read the arrays from the cache."""
    status = archive.stat()
    key = hashlib.sha256(f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire" / f"cifar10-{key}"
    names = ("train_x", "train_y", "test_x", "test_y")
    if not all((root / f"{name}.npy").exists() for name in names):
        root.mkdir(parents=True, exist_ok=True)
        decoded: tuple[npt.NDArray[Any], ...] = _decode_jpegs(archive)
        for name, array in zip(names, decoded, strict=True):
            partial = root / f"{name}.{os.getpid()}.part"
            with partial.open("wb") as file:
                np.save(file, array)
            partial.replace(root / f"{name}.npy")  # at once: another process never sees half a file
    arrays = [np.load(root / f"{name}.npy", mmap_mode="r") for name in names]
    return Dataset("CIFAR-10 (JPEG)", *arrays)


def _decode_jpegs(archive: Path) -> tuple[Images, Labels, Images, Labels]:
    try:
        from PIL import Image
    except ImportError:
        raise MissingError(
            "decoding CIFAR-10's JPEGs needs Pillow; install it with: pip install 'gradwire[experiments]'"
        ) from None
    images: dict[str, list[tuple[str, str, Images]]] = {"train": [], "test": []}
    with tarfile.open(archive, "r:xz") as tar:
        for member in tar:
            parts = member.name.split("/")[-3:]
            if member.isfile() and len(parts) == 3 and parts[0] in images and parts[2].endswith(".jpg"):
                file = tar.extractfile(member)
                assert file is not None  # it is a regular file
                pixels = np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))
                images[parts[0]].append((parts[1], parts[2], pixels.transpose(2, 0, 1)))
    classes = sorted({label for label, _, _ in images["train"]})
    if len(classes) != 10:
        raise ValueError(f"{archive.name} holds {len(classes)} classes of training images, not 10")

    def arrays(part: str) -> tuple[Images, Labels]:
        items = sorted(images[part], key=lambda item: item[:2])
        labels = np.array([classes.index(label) for label, _, _ in items], np.int64)
        return np.stack([pixels for _, _, pixels in items]), labels

    return *arrays("train"), *arrays("test")


LOADERS: dict[str, Callable[[Path | None], Dataset]] = {
    "digits": _digits,
    "fashion-mnist": _fashion_mnist,
    "cifar10": _cifar10,
}
