"""Golden vectors both ways, on every backend and instruction set."""

import json
from pathlib import Path

import pytest

import gradwire
from gradwire import kernels
from gradwire.vectors import check_file

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))
LEVELS = ("reference", "torch", "portable", "avx2", "avx512")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path, level):
    if level in ("reference", "torch"):
        with kernels.backend(level):
            assert list(check_file(path)) == []
        return
    kernels._core.set_simd(level)
    try:
        assert list(check_file(path)) == []
    finally:
        kernels._core.set_simd("avx512")


def test_a_changed_message_is_noticed(tmp_path):
    golden = json.loads(FILES[0].read_text())
    entry = golden["vectors"][-1]
    other = gradwire.encode(entry["spec"], gradwire.vectors.vector("heavy-100"), 0)
    entry["message"], entry["input"] = other.hex(), "heavy-100"
    (tmp_path / "x.json").write_text(json.dumps(golden))
    assert list(check_file(tmp_path / "x.json"))
