"""The number of threads: where it comes from, that no byte depends on it, and that Python threads and fork bear it."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradwire
from gradwire import feedback, kernels
from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import limit_threads, reference
from gradwire.kernels.threads import default_threads

COUNTS = (1, 2, 3, 4)
N = 2_300_000  # three blocks, and parts of every size that threads share

CODECS = (
    "identity",
    "identity:dtype=float16",
    "identity:dtype=bfloat16",
    "topk:k=0.01",
    "topk:k=0.3",
    "rtopk:k=0.01,r=0.04",
    "randomk:k=0.01",
    "threshold:t=2.5",
    "sd:nu=0.1",
    "sd:alpha=0.1",
    "sd:nu=0.1,rounding=stochastic",
    "sd:nu=0.1,rounding=shared",
    "ud:omega=0.25",
    "ud:omega=0.0001",
    "qsgd:levels=4096",
    "qsgd:levels=16,bucket=512",
    "natural",
    "naturaldithering:levels=16",
    "ternary",
    "sign",
    "kashin:levels=4",
    "spherical:alpha=0.9,block=16",
)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = gradwire.get_threads()
    yield
    gradwire.set_threads(before)


def vector(n=N):
    """Of entries that plain levels hold, but for some pieces."""
    x = np.random.default_rng(3).standard_normal(n, np.float32)
    x[n // 2 : n // 2 + 5000] *= 300
    return x


def test_the_setting():
    for count in (1, 3, 256):
        gradwire.set_threads(count)
        assert gradwire.get_threads() == count
    for wrong in (0, -1, 257, 1.5, True, "2"):
        with pytest.raises(ParameterError, match="threads"):
            gradwire.set_threads(wrong)
    assert gradwire.get_threads() == 256


def test_the_default_comes_from_the_environment():
    assert default_threads({"GRADWIRE_THREADS": "3", "OMP_NUM_THREADS": "2"}) == (3, True)
    assert default_threads({"OMP_NUM_THREADS": "2"}) == (2, False)
    assert default_threads({"OMP_NUM_THREADS": "5,3,2"}) == (5, False)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for nonsense in ({}, {"OMP_NUM_THREADS": "many"}, {"OMP_NUM_THREADS": "0"}, {"GRADWIRE_THREADS": " "}):
        count, chosen = default_threads(nonsense)
        assert 1 <= count <= processors
        assert not chosen
    for wrong in ("0", "257", "two", "-1", "1.5"):
        with pytest.raises(ParameterError, match="GRADWIRE_THREADS"):
            default_threads({"GRADWIRE_THREADS": wrong})


def test_the_default_is_no_more_than_the_quota_of_the_control_group(tmp_path, monkeypatch):
    from gradwire.kernels import threads

    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    paths = ("own/cpu.max", "cpu.max")
    for own, above, expected in (("150000 100000", "max 100000", 2), ("max 100000", "50000 100000", 1), ("", "", None)):
        for path, text in zip(paths, (own, above), strict=True):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        monkeypatch.setattr(threads, "_groups", lambda: ["0::/own"])
        assert threads._quota() == expected


def test_an_engine_lowers_the_default_only():
    gradwire.set_threads(3)
    limit_threads(1)
    assert gradwire.get_threads() == 3
    code = (
        "import gradwire; from gradwire.kernels import limit_threads;"
        "limit_threads(2); a = gradwire.get_threads(); limit_threads(5); print(a, gradwire.get_threads())"
    )
    for environment, printed in (({"OMP_NUM_THREADS": "4"}, "2 2"), ({"GRADWIRE_THREADS": "4"}, "4 4")):
        clean = {k: v for k, v in os.environ.items() if k not in ("GRADWIRE_THREADS", "OMP_NUM_THREADS")}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**clean, **environment}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == printed


@pytest.mark.parametrize("spec", CODECS)
def test_no_byte_depends_on_it(spec):
    x = vector(N if "spherical" not in spec else 100_000)
    seen = set()
    for count in COUNTS:
        gradwire.set_threads(count)
        message = gradwire.encode(spec, x, 1)
        total = np.full(len(x), 0.5, np.float32)
        gradwire.add(message, total, 0.75)
        seen.add((message, total.tobytes()))
    assert len(seen) == 1


def test_every_codec_is_tried():
    assert {gradwire.from_spec(spec).name for spec in CODECS} == set(gradwire.CODECS)


@pytest.mark.parametrize(
    "spec", ["topk:k=0.01", "rtopk:k=0.01,r=0.04", "randomk:k=0.01,scale=false", "threshold:t=2.5", "sd:nu=0.1"]
)
def test_no_residual_depends_on_it(spec):
    x, before = vector(), vector()[::-1].copy()
    seen = set()
    for count in COUNTS:
        gradwire.set_threads(count)
        message, residual = feedback.step(gradwire.from_spec(spec), x, before, 1)
        seen.add((message, residual.tobytes()))
    assert len(seen) == 1


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "spec", ["sd:nu=0.1", "ud:omega=0.25", "natural", "qsgd:levels=16,bucket=512", "kashin", "identity"]
)
def test_what_breaks_in_any_block_leaves_the_sum_as_it_was(spec, count):
    gradwire.set_threads(count)
    x = vector(1_300_000)
    message = bytearray(gradwire.encode(spec, x, 1))
    total = np.ones(len(x), np.float32)
    message[-5] ^= 0xFF  # in the last block
    if spec == "identity":
        message[-8:-4] = np.float32(np.nan).tobytes()
    message[-4:] = kernels.crc32c(bytes(message[:-4])).to_bytes(4, "little")
    with pytest.raises(MessageError):
        gradwire.add(bytes(message), total)
    assert (total == 1).all()


def test_sums_of_long_vectors_are_exact_to_binary64():
    # In binary32 the sum stops at 2^24 ones; torch.norm(v, 1) was once 9 % off.
    n = 2**25 + 3
    x = np.ones(n, np.float32)
    for count in (1, 2):
        gradwire.set_threads(count)
        assert kernels.sum_squares(x) == n
        assert kernels.sum_abs(x) == n
        assert kernels.extent(x) == (1.0, n)
        assert kernels.level_sums(x, 3.0) == (3.0 * n, 9.0 * n, n)
        assert kernels.signs(x)[1] == n
        assert kernels.bucket_squares(x, n)[0] == n
    assert reference.sum_squares(x) == n
    assert reference.sum_abs(x) == n


def test_python_threads_at_once():
    gradwire.set_threads(2)
    x = vector(1_500_000)
    expected = gradwire.encode("sd:nu=0.1", x, 1)
    found = []

    def work():
        for _ in range(3):
            message = gradwire.encode("sd:nu=0.1", x, 1)
            found.append((message == expected, np.abs(gradwire.decode(message, len(x)) - x).max() < 1.0))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 12
    assert all(same for same, _ in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_has_threads_of_its_own():
    code = """
import os, numpy as np, gradwire
gradwire.set_threads(2)
x = np.random.default_rng(0).standard_normal(2_200_000, np.float32)
expected = gradwire.encode("sd:nu=0.1", x, 1)
child = os.fork()
if child == 0:
    os._exit(gradwire.encode("sd:nu=0.1", x, 1) != expected)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert gradwire.encode("sd:nu=0.1", x, 1) == expected
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
