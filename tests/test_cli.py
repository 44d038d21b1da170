"""The commands as a user runs them: real processes, real files."""

import json
import subprocess
import sys

import numpy as np
import pytest

import gradwire


def run(*args, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "gradwire", *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs
    )


@pytest.fixture
def vector(tmp_path):
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    return x


def test_encode_inspect_decode(tmp_path, vector):
    spec = "rtopk:k=0.05,r=0.2"
    encoded = run("encode", tmp_path / "x.npy", tmp_path / "x.gw", "--codec", spec, "--seed", 3, "--json")
    assert encoded.returncode == 0, encoded.stderr
    message = (tmp_path / "x.gw").read_bytes()
    assert message == gradwire.encode(spec, vector, 3)
    result = json.loads(encoded.stdout)
    assert result["bytes"] == len(message)
    y = gradwire.decode(message, 1000).astype(np.float64)
    assert result["nmse"] == pytest.approx(((y - vector) ** 2).sum() / (vector.astype(np.float64) ** 2).sum())

    inspected = json.loads(run("inspect", tmp_path / "x.gw", "--json").stdout)
    assert inspected["codec"] == "rtopk"
    assert inspected["details"]["k"] == 50
    shown = run("inspect", tmp_path / "x.gw").stdout
    assert "bits per coordinate" in shown

    decoded = run("decode", tmp_path / "x.gw", tmp_path / "y.npy")
    assert decoded.returncode == 0, decoded.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), y)


def test_torch_and_safetensors_files(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    model = {"b": torch.arange(4.0).reshape(2, 2), "a": torch.tensor([9.0, 8.0], dtype=torch.bfloat16)}
    torch.save(model, tmp_path / "m.pt")
    save_file(model, tmp_path / "m.safetensors")
    for name in ("m.pt", "m.safetensors"):
        done = run("encode", tmp_path / name, tmp_path / "m.gw", "--codec", "identity")
        assert done.returncode == 0, done.stderr
        assert gradwire.decode((tmp_path / "m.gw").read_bytes(), 6).tolist() == [9, 8, 0, 1, 2, 3]
        done = run("encode", tmp_path / name, tmp_path / "m.gw", "--codec", "identity", "--tensor", "b")
        assert done.returncode == 0, done.stderr
        assert gradwire.decode((tmp_path / "m.gw").read_bytes(), 4).tolist() == [0, 1, 2, 3]


def test_a_pickle_is_not_run(tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save(Evil(), tmp_path / "evil.pt")
    done = run("encode", tmp_path / "evil.pt", tmp_path / "x.gw", "--codec", "identity")
    assert done.returncode == 2
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["encode", "none.npy", "o.gw", "--codec", "identity"], "none.npy is not there"),
        (["encode", "x.txt", "o.gw", "--codec", "identity"], "unknown ending"),
        (["encode", "bad.npy", "o.gw", "--codec", "identity"], "not a readable .npy"),
        (["encode", "bad.pt", "o.gw", "--codec", "identity"], "not a readable .pt"),
        (["encode", "bad.safetensors", "o.gw", "--codec", "identity"], "not a readable .safetensors"),
        (["encode", "nan.npy", "o.gw", "--codec", "identity"], "x[1] is nan"),
        (["encode", "x.npy", "o.gw", "--codec", "topk:k=0"], "k = 0 sends nothing"),
        (["encode", "x.npy", "o.gw", "--codec", "wat"], "no codec"),
        (["encode", "x.npy", "o.gw", "--codec", "topk:k=5000"], "k = 5000 is more"),
        (["encode", "x.npy", "o.gw", "--codec", "identity", "--seed", "-1"], "seed must lie"),
        (["encode", "x.npy", "nowhere/o.gw", "--codec", "identity"], "nowhere"),
        (["decode", "none.gw", "y.npy"], "none.gw is not there"),
        (["decode", "x.npy", "y.npy"], "not a gradwire message"),
        (["decode", "x.gw", "y.txt"], "must end in .npy"),
        (["decode", "x.gw", "y.npy", "--n", "5"], "for 1000 entries, but 5"),
        (["decode", "cut.gw", "y.npy"], "checksum"),
        (["inspect", "x.npy"], "not a gradwire message"),
        (["vectors", "check"], "no golden files"),
        (["vectors", "add", "nothing"], "is no codec"),
        (["bounds", "--alpha", "1.5", "--dim", "10"], "alpha = 1.5 must lie"),
        (["bounds", "--alpha", "0.1", "--dim", "1"], "dim = 1 must lie"),
        (["bench", "--codec", "topk:k=0"], "k = 0 sends nothing"),
        (["bench", "--size", "0"], "no number of entries"),
        (["bench", "--source", "none.npy"], "none.npy is not there"),
        (["bench", "--source", "nan.npy", "--codec", "sign", "--threads", "1"], "x[1] is nan"),
        (["reproduce", "nothing"], "no experiment"),
        (["wat"], "invalid choice"),
        ([], "required"),
        (["encode", "x.npy"], "required"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, vector, args, says):
    np.save(tmp_path / "nan.npy", np.array([1, np.nan], np.float32))
    for suffix in ("npy", "pt", "safetensors"):
        (tmp_path / f"bad.{suffix}").write_bytes(b"not what it says")
    (tmp_path / "x.txt").write_text("1 2 3")
    message = gradwire.encode("topk:k=10", vector, 0)
    (tmp_path / "x.gw").write_bytes(message)
    (tmp_path / "cut.gw").write_bytes(message[:-1])
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o.gw").exists()


def test_bounds():
    result = json.loads(run("bounds", "--alpha", "0.1", "--dim", "1000", "--json").stdout)
    assert result["average_case_bits"] == pytest.approx(1665.5355, abs=1e-4)
    assert result["uncertainty_bits"] == pytest.approx(500 * np.log2(10))
    assert result["average_case_bits"] < result["worst_case_bits"] < result["average_case_bits"] + 20
    by_name = {row["codec"]: row for row in result["codecs"]}
    assert set(by_name) == set(gradwire.CODECS)
    sd = by_name["sd"]
    assert sd["measured_nmse"] <= 0.1
    assert result["average_case_bits"] < sd["measured_bits"] <= sd["guaranteed_bits"]
    shown = run("bounds", "--alpha", "0.1", "--dim", "1000").stdout
    assert "1,665.5 bits" in shown
    assert "sd:alpha=0.1" in shown


def test_a_huge_claim_is_not_decoded_unasked(tmp_path):
    w = gradwire.wire.Writer()
    w.varint(0)
    (tmp_path / "huge.gw").write_bytes(gradwire.wire.seal_frame(2, 2**32 - 1, w))
    done = run("decode", tmp_path / "huge.gw", tmp_path / "y.npy")
    assert done.returncode == 2
    assert "repeat it with --n 4294967295" in done.stderr


@pytest.mark.parametrize("command", ["encode", "decode", "inspect", "compare", "bounds", "reproduce", "vectors"])
def test_help_has_an_example(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"example:\n  gradwire {command}" in done.stdout
