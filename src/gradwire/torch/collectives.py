"""Small collectives on the CPU: numbers and texts of every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

__all__ = ["all_gather", "gather_bytes", "gather_numbers"]

# torch 2.13 renamed it; the signature is the same.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def all_gather(received: torch.Tensor, sent: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Put every rank's tensor into one, in rank order."""
    _all_gather(received, sent, group=group)


def gather_numbers(numbers: list[int], group: dist.ProcessGroup) -> list[list[int]]:
    """Every rank's numbers, in rank order; the ranks give equally many."""
    world = dist.get_world_size(group)
    received = torch.empty(world * len(numbers), dtype=torch.int64)
    all_gather(received, torch.tensor(numbers, dtype=torch.int64), group)
    return received.reshape(world, len(numbers)).tolist()


def gather_bytes(data: bytes, group: dist.ProcessGroup) -> list[bytes]:
    """Every rank's bytes, of any length, in rank order."""
    sizes = [size for (size,) in gather_numbers([len(data)], group)]
    longest = max(sizes)
    sent = torch.zeros(longest, dtype=torch.uint8)
    sent[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    received = torch.empty(len(sizes) * longest, dtype=torch.uint8)
    all_gather(received, sent, group)
    flat = received.numpy().tobytes()
    return [flat[r * longest : r * longest + size] for r, size in enumerate(sizes)]
