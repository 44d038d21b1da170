"""The laws that every codec keeps. Each raises AssertionError; test_laws_catch.py has a wrong codec for each."""

from collections.abc import Iterator

import numpy as np
import torch

import gradwire
from gradwire import kernels
from gradwire.errors import MessageError
from gradwire.theory.guarantee import Guarantee

TINY = np.float32(1e-42)
HUGE = np.float32(3.4e38)


def vectors(n: int = 300) -> Iterator[tuple[str, np.ndarray]]:
    """Named vectors that break careless codecs."""
    g = np.random.default_rng(5)
    gauss = g.standard_normal(n).astype(np.float32)
    yield "one", np.array([-2.5], np.float32)
    yield "gauss", gauss
    yield "heavy", g.standard_t(1.5, n).astype(np.float32)
    yield "zero", np.zeros(n, np.float32)
    yield "negative zero", -np.zeros(n, np.float32)
    yield "denormal", TINY * np.sign(gauss)
    yield "huge", HUGE * np.sign(gauss)
    yield "huge and tiny", np.where(gauss > 0, HUGE, TINY).astype(np.float32)
    yield "sparse", np.where(g.random(n) < 0.03, gauss, 0).astype(np.float32)
    yield "single", np.where(np.arange(n) == n - 1, 1, 0).astype(np.float32)
    yield "constant", np.full(n, 0.1, np.float32)
    yield "spread", np.exp2(np.arange(n) % 250 - 125).astype(np.float32)


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """Named tensors of every dtype that is taken, in one piece and not."""
    x = torch.from_numpy(np.random.default_rng(7).standard_t(2, (500, 2)))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        yield str(dtype), x[:, 0].to(dtype).contiguous()
        yield f"strided {dtype}", x.to(dtype)[:, 1]


def nmse(y: np.ndarray, x: np.ndarray) -> float:
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    energy = float(x64 @ x64)
    return float((y64 - x64) @ (y64 - x64)) / energy if energy else float(np.any(y64 != 0))


def same_seed_same_bytes(codec: gradwire.Codec) -> None:
    for name, x in vectors():
        before = x.copy()
        state = repr(np.random.get_state(legacy=False))
        first = gradwire.encode(codec, x, 3)
        assert gradwire.encode(codec, x, 3) == first, name
        assert np.array_equal(x.view(np.uint32), before.view(np.uint32)), f"{name}: x was changed"
        assert repr(np.random.get_state(legacy=False)) == state, f"{name}: the global generator was touched"


def no_longer_than_guaranteed(codec: gradwire.Codec) -> None:
    for name, x in [*vectors(), *vectors(5000)]:
        size, most = len(gradwire.encode(codec, x, 3)), codec.guarantee(len(x)).max_bytes
        assert size <= most, f"{name}: {size} bytes, {most} are guaranteed"


def finite_floats_back(codec: gradwire.Codec) -> None:
    for name, x in [("empty", np.zeros(0, np.float32)), *vectors()]:
        y = gradwire.decode(gradwire.encode(codec, x, 4), len(x))
        assert y.shape == x.shape, name
        assert y.dtype == np.float32, name
        assert np.isfinite(y).all(), name
        if not np.any(x):
            assert not np.any(y), f"{name}: zero is exact"


def truncation_raises(codec: gradwire.Codec) -> None:
    for name, x in vectors(40):
        message = gradwire.encode(codec, x, 5)
        for size in range(len(message)):
            _raises(message[:size], len(x), f"{name}: cut to {size} bytes")
        # The same with a checksum that fits, so that the payload's own reading is what refuses.
        for size in range(5, len(message) - 4):
            _raises(reseal(message[:size]), len(x), f"{name}: cut to {size} bytes and sealed again")
        _raises(reseal(message[:-4] + b"\0"), len(x), f"{name}: a byte too many")


def bit_flip_is_safe(codec: gradwire.Codec) -> None:
    for name, x in vectors(40):
        message = gradwire.encode(codec, x, 6)
        for bit in range(8 * len(message)):
            flipped = bytearray(message)
            flipped[bit // 8] ^= 1 << bit % 8
            _raises(bytes(flipped), len(x), f"{name}: bit {bit} flipped")
            out = np.full(len(x), 0.25, np.float32)
            try:
                gradwire.add(reseal(bytes(flipped[:-4])), out)
            except MessageError:
                assert np.all(out == 0.25), f"{name}: bit {bit}: an error, and yet the output changed"
            else:
                assert np.isfinite(out).all() or np.abs(x).max() > 1e30, f"{name}: bit {bit}"
                assert np.isfinite(gradwire.decode(reseal(bytes(flipped[:-4])), len(x))).all(), f"{name}: bit {bit}"


def messages_add_up(codec: gradwire.Codec) -> None:
    for name, x in vectors():
        if np.abs(x).max() > 1e30:
            continue
        total = np.linspace(-1, 1, len(x), dtype=np.float32)
        expected = total.copy()
        for seed, weight in enumerate((1.0, 0.25, -0.5)):
            message = gradwire.encode(codec, x, seed)
            y = gradwire.decode(message, len(x))
            gradwire.add(message, total, weight)
            expected += np.float32(weight) * y
        assert np.array_equal(total, expected), name


def backends_agree(codec: gradwire.Codec) -> None:
    for name, x in [*vectors(), *vectors(3000)]:
        with kernels.backend("reference"):
            expected = gradwire.encode(codec, x, 8)
            decoded = gradwire.decode(expected, len(x))
        for level in ("portable", "avx2", "avx512"):
            kernels._core.set_simd(level)
            try:
                assert gradwire.encode(codec, x, 8) == expected, f"{name}: {level} differs from the reference"
                got = gradwire.decode(expected, len(x))
            finally:
                kernels._core.set_simd("avx512")
            assert np.array_equal(got.view(np.uint32), decoded.view(np.uint32)), f"{name}: {level} decodes otherwise"
        _torch_agrees(codec, x, expected, name)
    for name, t in tensors():
        expected = gradwire.encode(codec, t.to(torch.float32).numpy().copy(), 8)
        assert gradwire.encode(codec, t, 8) == expected, f"{name}: differs from an array of the same numbers"
        _torch_agrees(codec, t, expected, name)


def _torch_agrees(codec: gradwire.Codec, x: np.ndarray | torch.Tensor, expected: bytes, name: str) -> None:
    """Torch operations give the same bytes, and add the same numbers to a sum that has zeros of either sign."""
    before = np.linspace(-1, 1, len(x), dtype=np.float32)
    before[::3] = -0.0
    total, other = before.copy(), torch.from_numpy(before.copy())
    gradwire.add(expected, total, 0.3)
    with kernels.backend("torch"):
        assert gradwire.encode(codec, x, 8) == expected, f"{name}: torch operations give other bytes"
        gradwire.add(expected, other, 0.3)
    assert np.array_equal(total.view(np.uint32), other.numpy().view(np.uint32)), f"{name}: torch adds otherwise"


RUNS = 1500
SLACK = 5.0
"""Standard errors: a true bound fails once in 3 million; an error 5 % off, or a bias of 0.2 deviations, is caught."""


def guarantee_is_kept(codec: gradwire.Codec) -> None:
    n = 32
    for name, x in vectors(n):
        if len(x) != n or name in ("denormal", "huge", "huge and tiny", "spread"):
            continue  # beyond what the guarantees speak of: float32 rounds there
        g = codec.guarantee(n)
        deterministic = len({gradwire.encode(codec, x, s) for s in range(30)}) == 1
        runs = 1 if deterministic and not g.unbiased else RUNS
        decoded = [gradwire.decode(gradwire.encode(codec, x, s), n) for s in range(runs)]
        errors = np.array([nmse(y, x) for y in decoded])
        if g.strict:
            assert errors.max() <= g.error + 1e-6, f"{name}: error {errors.max()} where at most {g.error} is certain"
        margin = SLACK * errors.std() / np.sqrt(runs) + 1e-6
        assert errors.mean() <= g.error + margin, f"{name}: mean error {errors.mean()}, guaranteed {g.error}"
        if g.unbiased:
            _unbiased(np.array(decoded, np.float64), x.astype(np.float64), g, name)


def _unbiased(decoded: np.ndarray, x: np.ndarray, g: Guarantee, name: str) -> None:
    bias = np.abs(decoded.mean(0) - x)
    most = SLACK * decoded.std(0) / np.sqrt(len(decoded)) + 1e-5 * np.linalg.norm(x)
    assert (bias <= most).all(), f"{name}: bias {bias.max()} at {bias.argmax()}, where {most[bias.argmax()]} is chance"


def reseal(body: bytes) -> bytes:
    """The body under a checksum that fits."""
    return body + gradwire.kernels.crc32c(body).to_bytes(4, "little")


def _raises(message: bytes, n: int, what: str) -> None:
    out = np.full(n, 0.25, np.float32)
    try:
        gradwire.add(message, out)
    except MessageError:
        assert np.all(out == 0.25), f"{what}: an error, and yet the output changed"
        return
    raise AssertionError(f"{what}: no MessageError")


LAWS = (
    same_seed_same_bytes,
    no_longer_than_guaranteed,
    finite_floats_back,
    truncation_raises,
    bit_flip_is_safe,
    messages_add_up,
    backends_agree,
    guarantee_is_kept,
)
