"""Tensors on an accelerator: the same bytes, the same sums, and little that crosses to the host.

Where the machine has an accelerator the tests that do not count run on it as well; PretendDevice stands in elsewhere.
"""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gradwire
from examples import EXAMPLES
from gradwire import InputError, MessageError, feedback, kernels
from laws import tensors
from pretend_device import DEVICE, PretendDevice

PAGE = (Path(__file__).parents[1] / "docs/torch-backend.md").read_text()


class RealDevice(contextlib.nullcontext):
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None

    def put(self, tensor):
        return tensor.to(self.device)

    def back(self, tensor):
        return tensor.cpu()


class Pretended(PretendDevice):
    device = DEVICE

    def back(self, tensor):
        return tensor.host


# Apple's has no float64: vectors are encoded on the host.
DEVICES = [Pretended] + ([RealDevice] if RealDevice.device and RealDevice.device.type != "mps" else [])


@pytest.fixture(params=DEVICES, ids=lambda kind: kind.__name__)
def device(request):
    with request.param() as device:
        yield device


@pytest.mark.parametrize("spec", EXAMPLES)
def test_encode_and_add_are_those_of_the_host(spec, device):
    codec = gradwire.from_spec(spec)
    for name, x in tensors():
        message = gradwire.encode(codec, x, 3)
        total = np.linspace(-1, 1, len(x), dtype=np.float32)
        total[::3] = -0.0
        other = device.put(torch.from_numpy(total))
        gradwire.add(message, total, 0.3)
        # A strided tensor is one there as well.
        there = device.put(x) if x.is_contiguous() else device.put(torch.stack([x, x], 1))[:, 1]
        assert gradwire.encode(codec, there, 3) == message, name
        gradwire.add(message, other, 0.3)
        assert np.array_equal(device.back(other).numpy().view(np.uint32), total.view(np.uint32)), name


@pytest.mark.parametrize("spec", ["topk:k=0.1", "rtopk:k=0.1,r=0.2,values=bfloat16", "sd:alpha=0.1", "sign"])
def test_error_feedback_is_that_of_the_host(spec, device):
    g = torch.Generator().manual_seed(0)
    here = torch.zeros(2000)
    there = device.put(here)
    for seed in range(3):
        x = torch.randn(2000, generator=g)
        expected = feedback.step(gradwire.from_spec(spec), x, here, seed)
        got = feedback.step(gradwire.from_spec(spec), device.put(x), there, seed)
        here, there = expected.residual, got.residual
        assert got.message == expected.message
        assert there.device.type == device.device.type
        assert device.back(there).equal(here)


def test_decode_to_a_device(device):
    x = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    message = gradwire.encode("sd:nu=0.1", x, 0)
    y = gradwire.decode(message, 500, device=device.device)
    assert y.device.type == device.device.type
    assert device.back(y).numpy().tolist() == gradwire.decode(message, 500).tolist()


def test_decode_to_a_tensor_of_the_host():
    y = gradwire.decode(gradwire.encode("identity", [1.5, -2.0], 0), 2, device="cpu")
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [1.5, -2.0]


@pytest.mark.parametrize("codec", [name for name in EXAMPLES if "values" not in name])
def test_non_finite_is_refused_with_its_position(codec, device):
    for bad in (float("nan"), float("inf")):
        x = torch.ones(300)
        x[7] = bad
        with pytest.raises(InputError, match=rf"x\[7\] is {bad}"):
            gradwire.encode(codec, device.put(x), 0)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (torch.ones(()), "no dimension"),
        (torch.ones(2, 5), r"shape \(2, 5\)"),
        (torch.arange(10), "dtype int64"),
        (torch.ones(10, dtype=torch.complex64), "dtype complex64"),
        (torch.tensor([1.0, 1e39], dtype=torch.float64), r"x\[1\] = 1e\+39 is beyond float32"),
    ],
)
def test_bad_inputs(x, says, device):
    with pytest.raises(InputError, match=says):
        gradwire.encode("identity", device.put(x), 0)


def test_tensors_without_numbers_are_refused():
    with pytest.raises(InputError, match="no numbers"):
        gradwire.encode("identity", torch.ones(3, device="meta"), 0)


@pytest.mark.parametrize("out", [torch.zeros(10, dtype=torch.float64), torch.zeros(2, 5)])
def test_an_output_that_would_lose_the_sum_is_refused(out, device):
    with pytest.raises(InputError, match="out"):
        gradwire.add(gradwire.encode("identity", np.ones(10), 0), device.put(out))
    with pytest.raises(InputError, match="out"):
        gradwire.add(gradwire.encode("identity", np.ones(5), 0), device.put(torch.zeros(10))[::2])


@pytest.mark.parametrize(
    "spec", ["identity", "topk:k=0.1", "sd:nu=0.1", "sign", "kashin", "natural", "qsgd:levels=4,bucket=9"]
)
def test_an_invalid_message_leaves_the_sum_as_it_was(spec, device):
    message = bytearray(gradwire.encode(spec, np.random.default_rng(0).standard_normal(50), 0)[:-4])
    out = device.put(torch.full((50,), 0.25))
    refused = 0
    for bit in range(24, 8 * len(message)):
        message[bit // 8] ^= 1 << bit % 8
        before = device.back(out).clone()
        try:
            gradwire.add(message + kernels.crc32c(message).to_bytes(4, "little"), out)
        except MessageError:
            refused += 1
            assert device.back(out).equal(before), bit
        message[bit // 8] ^= 1 << bit % 8
    assert refused > 10


class TestWhatCrosses:
    """Counted on PretendDevice: bytes down when encoding, bytes up when adding."""

    def crossed(self, spec, x):
        with PretendDevice() as device:
            there, out = device.put(x), device.put(torch.zeros(len(x)))
            message = gradwire.encode(spec, there, 0)
            down, up = device.down, device.up
            device.up = 0
            gradwire.add(message, out)
        return len(message), down, up, device.up

    @pytest.mark.parametrize("spec", ["topk:k=0.01", "rtopk:k=0.01,r=0.04", "randomk:k=0.01", "threshold:t=2.6"])
    def test_one_per_cent_of_a_million(self, spec):
        """Four bytes of the value and hardly more than one of the index, for a vector of 4 MB."""
        x = torch.randn(10**6, generator=torch.Generator().manual_seed(1))
        size, down, up, added = self.crossed(spec, x)
        assert size < 60_000
        assert down < 60_000
        assert up < 20_000
        assert added < 60_000

    @pytest.mark.parametrize("spec", ["topk:k=0.01", "randomk:k=0.01"])
    def test_a_step_of_error_feedback(self, spec):
        with PretendDevice() as device:
            x, residual = device.put(torch.linspace(-1, 1, 10**5)), device.put(torch.zeros(10**5))
            feedback.step(gradwire.from_spec(spec), x, residual, 0)
        assert device.down < 6_000
        assert device.up < 8_000

    @pytest.mark.parametrize(
        ("spec", "bits"),
        [
            ("sd:nu=0.1", 4),
            ("ud:omega=1", 3),
            ("ternary", 2),
            ("sign", 1),
            ("qsgd:levels=8", 2),
            ("natural", 7),
            ("kashin", 2),
        ],
    )
    def test_levels_cross_in_few_bits(self, spec, bits):
        n = 20_000
        x = torch.randn(n, generator=torch.Generator().manual_seed(2))
        size, down, _, added = self.crossed(spec, x)
        assert size <= down + 100
        assert down <= n * (bits + 0.5) / 8 + 1000
        assert added <= n * (bits + 0.5) / 8 + 1000

    def test_an_outlier_does_not_widen_all(self):
        x = torch.randn(20_000, generator=torch.Generator().manual_seed(3))
        x[7] = 100.0
        assert self.crossed("ud:omega=1", x)[1] < 20_000 * 3.5 / 8 + 1000

    def test_the_page_tells_of_every_codec(self):
        """And that exactly those cross whole that do."""
        x = torch.randn(5000, generator=torch.Generator().manual_seed(4))
        rows = dict(re.findall(r"^\| (\w+) \| (.*?) \|", PAGE, re.MULTILINE))
        for name, codec in gradwire.CODECS.items():
            assert name in rows, f"docs/torch-backend.md lacks {name}"
            spec = next(s for s in EXAMPLES if gradwire.from_spec(s).name == name)
            copied = self.crossed(spec, x)[1] >= 4 * len(x)
            assert copied == ("the whole vector" in rows[name]), name
            assert copied == (not codec.on_device or name == "identity"), name


class TestPretendDevice:
    """It refuses what it is there to refuse."""

    def test_operations_that_differ_between_devices(self):
        with PretendDevice() as device:
            x = device.put(torch.ones(8))
            for wrong in (
                lambda: x.sum(),
                lambda: x / 3.0,
                lambda: torch.add(x, x, alpha=0.5),
                lambda: torch.addcmul(x, x, x),
                lambda: x.exp(),
                lambda: x.index_put_((device.put(torch.zeros(1, dtype=torch.int64)),), x[:1], accumulate=True),
            ):
                with pytest.raises(RuntimeError):
                    wrong()

    def test_host_and_device_do_not_mix(self):
        with PretendDevice() as device:
            x = device.put(torch.ones(8))
            for wrong in (lambda: x + torch.ones(8), lambda: x.numpy(), lambda: x[torch.zeros(1, dtype=torch.int64)]):
                with pytest.raises((RuntimeError, TypeError)):
                    wrong()
            assert device.down == 0
            assert (x * 2.0).cpu().tolist() == [2.0] * 8
            assert device.down == 32


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_torchs_default_dtype_is_of_no_consequence(dtype):
    x = np.random.default_rng(1).standard_normal(3000).astype(np.float32)
    try:
        for spec in ("topk:k=0.1", "sd:alpha=0.1", "qsgd:levels=3,bucket=9", "natural", "sign", "kashin", "ud:omega=1"):
            message, total = gradwire.encode(spec, x, 0), x.copy()
            gradwire.add(message, total, 0.3)
            torch.set_default_dtype(dtype)
            with kernels.backend("torch"):
                other = x.copy()
                assert gradwire.encode(spec, x, 0) == message, spec
                gradwire.add(message, other, 0.3)
            assert np.array_equal(other, total), spec
            torch.set_default_dtype(torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)


def run(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_arrays_do_not_load_torch():
    code = (
        "import sys, numpy as np, gradwire\n"
        "x = np.arange(100, dtype=np.float32)\n"
        "for spec in ('topk:k=0.1', 'sd:nu=0.1', 'kashin'): gradwire.decode(gradwire.encode(spec, x, 0), 100)\n"
        "print('torch' in sys.modules, 'gradwire.kernels.torch_ops' in sys.modules)"
    )
    assert run(code) == "False False"


def test_a_process_can_be_forced_to_torch_operations():
    code = (
        "import sys, numpy as np, gradwire\n"
        "x = np.random.default_rng(0).standard_normal(100)\n"
        "print(gradwire.encode('sd:nu=0.1', x, 0).hex(), 'gradwire.kernels.torch_ops' in sys.modules)"
    )
    message, forced = run(code, GRADWIRE_BACKEND="torch").split()
    assert forced == "True"
    assert [message, "False"] == run(code).split()
