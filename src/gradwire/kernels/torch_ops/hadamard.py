"""The Walsh–Hadamard transform and Kashin's representation in a frame made of it (wire format 7.11)."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradwire.kernels.torch_ops.crossing import CHUNK, down, indices_up, numbers_up, up

__all__ = ["add_frames", "hadamard", "in_rows", "put_rows", "represent", "take_rows"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Frames = dict[int, tuple[Words, Floats]]

LARGEST = float(np.finfo(np.float32).max)
INSIDE = 1.0 - 2.0**-8


def hadamard(x: Tensor, log2n: int) -> Tensor:
    """H times each run of 2^log2n entries, not normalised.

    Example:
        >>> hadamard(torch.tensor([1.0, 2, 3, 5]), 2)
        tensor([11., -3., -5.,  1.])
    """
    for stage in range(log2n):
        pairs = x.reshape(-1, 2, 1 << stage)
        a, b = pairs[:, 0], pairs[:, 1]
        x = torch.stack([a + b, a - b], 1)
    return x.reshape(-1)


def represent(
    y: Tensor, positions: Words, signs: Floats, log2n: int, goals: Floats, rounds: int
) -> tuple[Tensor, Floats]:
    """Coefficients of each row of y in a frame, within the row's goal if ``rounds`` rounds reach that.

    Returns:
        p, float32 (rows·2^log2n,), on y's device; each row's largest magnitude, float32 (rows,), on the host.
    """
    rows, n, device = len(goals), 1 << log2n, y.device
    y = y.view(rows, -1)
    at, sign = _on_device(positions, signs, device)
    goal = up(goals, device)[:, None]
    limit = goal * INSIDE

    def embedded(entries: Tensor) -> Tensor:
        spread = entries.new_zeros(len(entries), n).index_copy_(1, at, entries * sign)
        return hadamard(spread.view(-1), log2n).view(-1, n)

    p = embedded(y)
    z = p.clone()
    for _ in range(rounds):
        going = torch.nonzero(p.abs().amax(1) > goal[:, 0]).view(-1)
        if not len(going):
            break
        b = torch.minimum(torch.maximum(z[going], -limit[going]), limit[going])
        w = (b + b) - z[going]
        represented = hadamard(w.view(-1), log2n).view(-1, n)[:, at]
        p[going] = embedded(y[going] - represented * (sign * 2.0**-log2n)) + w
        z[going] = (z[going] - b) + p[going]
    return p.view(-1), down(p.abs().amax(1))


def in_rows(x: Tensor, rows: int, length: int) -> Tensor:
    """x and the zeros that make it ``rows`` rows of ``length``."""
    return torch.nn.functional.pad(x, (0, rows * length - len(x)))


def take_rows(x: Tensor, length: int, which: npt.NDArray[np.intp]) -> Tensor:
    """The rows ``which`` of a vector of rows."""
    return x.view(-1, length).index_select(0, up(which, x.device)).view(-1)


def put_rows(x: Tensor, length: int, which: npt.NDArray[np.intp], rows: Tensor) -> None:
    """Writes rows over the rows ``which`` of x."""
    x.view(-1, length).index_copy_(0, up(which, x.device), rows.view(-1, length))


def add_frames(
    out: Tensor,
    numbers: Words,
    levels: int,
    frame_of: Words,
    frames: Frames,
    steps: Floats,
    power: float,
    weight: float,
) -> None:
    """out ← out + weight·(what rounded coefficients stand for), saturating."""
    device, order = out.device, len(numbers) // len(steps)
    bases = {number: _on_device(*frame, device) for number, frame in frames.items()}
    length = len(next(iter(frames.values()))[0])
    group = max(1, CHUNK // order)
    for first in range(0, len(steps), group):
        part = out[first * length : (first + group) * length]
        some = numbers_up(numbers[first * order : (first + group) * order], device).to(torch.float32)
        sums = hadamard(some * 2.0 - float(levels - 1), order.bit_length() - 1).view(-1, order)
        values = sums.new_empty(len(sums), length)
        chosen = frame_of[first : first + group]
        for number in np.unique(chosen).tolist():
            at, signs = bases[number]
            rows = up(np.flatnonzero(chosen == number), device)
            values[rows] = sums[rows][:, at] * signs
        values = values * up(steps[first : first + group], device)[:, None] * power
        part += values.view(-1)[: len(part)].clamp(-LARGEST, LARGEST) * weight


def _on_device(positions: Words, signs: Floats, device: torch.device) -> tuple[Tensor, Tensor]:
    """A frame's positions and signs: int64 and float32 (c,)."""
    negative = numbers_up((signs < 0).astype(np.uint32), device)
    return indices_up(positions, device), negative.to(torch.float32) * -2.0 + 1.0
