"""The data sets of `gradwire compare`: read as they are, refused when damaged, and how to get them when missing."""

import argparse
import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from gradwire import MissingError
from gradwire.errors import InputError
from gradwire.experiments import compare
from gradwire.experiments.compare import datasets


def parse(*words):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return parser.parse_args(words)


def test_digits_are_split_once_and_for_all():
    digits = datasets.load("digits", None)
    assert digits.train_x.shape == (1297, 1, 8, 8)
    assert digits.test_x.shape == (500, 1, 8, 8)
    assert digits.train_x.dtype == np.uint8
    assert set(digits.test_y) == set(range(10))


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(head + array.tobytes())


def test_fashion_mnist_is_read_from_idx_files(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (7, 28, 28)).astype(np.uint8)
    y = np.arange(7, dtype=np.uint8)
    for name in ("train", "t10k"):
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(x))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(y))
    data = datasets.load("fashion-mnist", str(tmp_path))
    np.testing.assert_array_equal(data.train_x[:, 0], x)
    np.testing.assert_array_equal(data.test_y, y)


DAMAGED = [b"no gzip", gzip.compress(b"\0\0\x0d\x03 not bytes"), idx(np.zeros((3, 5)))[:-4]]


@pytest.mark.parametrize("content", DAMAGED, ids=["no gzip", "no bytes", "cut short"])
def test_damaged_fashion_mnist_is_an_input_error(tmp_path, content):
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        datasets.load("fashion-mnist", str(tmp_path))


@pytest.mark.parametrize(("name", "text"), [("fashion-mnist", "apt-get install"), ("cifar10", "--data-dir")])
def test_missing_data_says_how_to_get_it(tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(datasets, "FASHION_FOLDER", tmp_path / "nowhere")
    with pytest.raises(MissingError, match=text) as error:
        compare.run(parse("--data", name, "--data-dir", str(tmp_path)))
    assert "\n" not in str(error.value)


def cifar_batch(path, x, y):
    content = {b"data": x.reshape(len(x), -1), b"labels": y.tolist(), b"batch_label": b"one"}
    path.write_bytes(pickle.dumps(content, protocol=2))


def test_cifar10_is_read_from_the_python_batches(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    x, y = np.random.default_rng(0).integers(0, 256, (20, 3, 32, 32)).astype(np.uint8), np.arange(20) % 10
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        cifar_batch(folder / name, x, y)
    data = datasets.load("cifar10", str(tmp_path))
    assert data.train_x.shape == (100, 3, 32, 32)
    np.testing.assert_array_equal(data.test_x, x)
    np.testing.assert_array_equal(data.train_y[20:40], y)


def test_a_cifar10_batch_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, ("touch " + str(tmp_path / "ran"),)

    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="damaged"):
        datasets.load("cifar10", str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_cifar10_jpegs_are_decoded_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "cifar10_jpg.tar.xz", "w:xz") as tar:
        for part_name, count in (("train", 2), ("test", 1)):
            for label in range(10):
                for i in range(count):
                    pixels = io.BytesIO()
                    Image.new("RGB", (32, 32), (20 * label, 100 * i, 7)).save(pixels, "JPEG")
                    member = tarfile.TarInfo(f"{part_name}/class{label}/{i:04}.jpg")
                    member.size = pixels.tell()
                    pixels.seek(0)
                    tar.addfile(member, pixels)
    data = datasets.load("cifar10", str(tmp_path))
    assert data.train_x.shape == (20, 3, 32, 32)
    assert data.train_y.tolist() == [label for label in range(10) for _ in range(2)]
    assert abs(int(data.test_x[9, 0].mean()) - 180) <= 3
    datasets._cifar10.cache_clear()
    monkeypatch.setattr(datasets, "_decode_jpegs", lambda _: pytest.fail("decoded twice"))
    np.testing.assert_array_equal(datasets.load("cifar10", str(tmp_path)).train_x, data.train_x)
