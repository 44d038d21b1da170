"""Data sets of the convex experiments: the user's file if there is one, else a stand-in that is named as such."""

import hashlib
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.errors import InputError, MissingError

__all__ = ["LIBSVM", "Dataset", "bodyfat", "breast_cancer", "digits", "libsvm", "load"]

LIBSVM = ("a9a", "w8a", "mushrooms", "phishing")
"""Data sets with two classes, of https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html."""

ARCHIVE = "libsvm.tar.xz"


@dataclass(frozen=True)
class Dataset:
    """Rows with a target.

    Attributes:
        name: as shown; a stand-in says so.
        features: float64 (m, d), numpy, or scipy CSR where most entries are 0.
        targets: float64 (m,).
        digest: of the content: equal data, equal digest.
        stand_in: whether it takes the place of the paper's.
    """

    name: str
    features: Any
    targets: "np.ndarray[Any, np.dtype[np.float64]]"
    digest: str
    stand_in: bool


def bodyfat(data_dir: Path) -> Dataset:
    """Body-Fat: density from bodyfat and 13 measurements, 252 × 14, all standardised (mean 0, variance 1).

    Reads ``bodyfat.csv`` (a line of names, density first) or LIBSVM's ``bodyfat``; else scikit-learn's diabetes,
    442 × 10.

    Raises:
        InputError: the file is not as said.
    """
    found = _first(data_dir, "bodyfat.csv", "bodyfat")
    if found is None:
        from sklearn.datasets import load_diabetes

        features, targets = load_diabetes(return_X_y=True)
        return _dataset("diabetes (stand-in for Body-Fat)", _standard(features), _standard(targets), stand_in=True)
    if found.suffix == ".csv":
        try:
            table = np.loadtxt(found, delimiter=",", skiprows=1, ndmin=2)
        except ValueError as error:
            raise InputError(f"{found} is no table of numbers below a line of names: {error}") from None
        features, targets = table[:, 1:], table[:, 0]
    else:
        sparse, targets = _svmlight(found)
        features = sparse.toarray()
    if features.shape[1] != 14:
        raise InputError(f"{found} has {features.shape[1]} features besides the density: 14 are due")
    return _dataset("Body-Fat", _standard(features), _standard(targets), stand_in=False)


def breast_cancer(data_dir: Path) -> Dataset:
    """Breast-Cancer (Wisconsin, original), 683 × 10, scaled to [−1, 1], two classes.

    Reads LIBSVM's ``breast-cancer_scale``; else scikit-learn's breast_cancer (Wisconsin, diagnostic), 569 × 30.

    Raises:
        InputError: the file is not as said.
    """
    found = _first(data_dir, "breast-cancer_scale")
    if found is None:
        from sklearn.datasets import load_breast_cancer

        features, targets = load_breast_cancer(return_X_y=True)
        low, high = features.min(axis=0), features.max(axis=0)
        scaled = 2.0 * (features - low) / (high - low) - 1.0
        name = "breast_cancer of scikit-learn (stand-in for Breast-Cancer)"
        return _dataset(name, scaled, _two_classes(targets, "scikit-learn's breast_cancer"), stand_in=True)
    sparse, targets = _svmlight(found)
    return _dataset("Breast-Cancer", sparse.toarray(), _two_classes(targets, str(found)), stand_in=False)


def libsvm(name: str, data_dir: Path) -> Dataset:
    """One of ``LIBSVM``: a file of that name in ``data_dir``, or in ``libsvm.tar.xz`` there.

    Features are as in the file (0 … 1), targets −1 and 1.

    Raises:
        MissingError: there is none.
        InputError: the file is not as said.
    """
    path, archive = data_dir / name, data_dir / ARCHIVE
    if path.exists():
        features, targets = _svmlight(path)
    elif archive.exists():
        with tarfile.open(archive) as files:
            try:
                member = files.extractfile(next(m for m in files if Path(m.name).name == name and m.isfile()))
            except StopIteration:
                raise MissingError(f"{archive} holds no file {name}") from None
            features, targets = _svmlight(member)
    else:
        raise MissingError(
            f"{name} is not in {data_dir}: download it from https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/ "
            "and name its folder by --data-dir"
        )
    return _dataset(name, features, _two_classes(targets, name), stand_in=False)


def digits() -> Dataset:
    """scikit-learn's digits, 1,797 × 64, 0 … 4 against 5 … 9: a stand-in for the data sets of ``LIBSVM``."""
    from sklearn.datasets import load_digits

    features, targets = load_digits(return_X_y=True)
    name = "digits of scikit-learn, 0–4 against 5–9 (stand-in for a9a, w8a, mushrooms, phishing)"
    return _dataset(name, features / 16.0, np.where(targets < 5, -1.0, 1.0), stand_in=True)


@cache
def load(name: str, data_dir: Path) -> Dataset:
    """``bodyfat``, ``breast-cancer``, ``digits`` or one of ``LIBSVM``; read once in a process."""
    if name in LIBSVM:
        return libsvm(name, data_dir)
    if name == "digits":
        return digits()
    return {"bodyfat": bodyfat, "breast-cancer": breast_cancer}[name](data_dir)


def _first(data_dir: Path, *names: str) -> Path | None:
    return next((data_dir / name for name in names if (data_dir / name).exists()), None)


def _svmlight(source: Any) -> tuple[Any, "np.ndarray[Any, np.dtype[np.float64]]"]:
    from sklearn.datasets import load_svmlight_file

    try:
        features, targets = load_svmlight_file(source if not isinstance(source, Path) else str(source))
    except ValueError as error:
        raise InputError(f"{source} is not in LIBSVM's format (label index:value …): {error}") from None
    return features.tocsr(), np.asarray(targets, np.float64)


def _standard(values: Any) -> Any:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _two_classes(targets: Any, where: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    classes = np.unique(targets)
    if len(classes) != 2:
        raise InputError(f"{where} has {len(classes)} classes: two are due")
    return np.where(targets == classes[1], 1.0, -1.0)


def _dataset(name: str, features: Any, targets: Any, stand_in: bool) -> Dataset:
    digest = hashlib.sha256()
    parts = (features,) if isinstance(features, np.ndarray) else (features.data, features.indices, features.indptr)
    for part in (*parts, targets):
        digest.update(np.ascontiguousarray(part).tobytes())
    return Dataset(name, features, np.asarray(targets, np.float64), digest.hexdigest()[:12], stand_in)
