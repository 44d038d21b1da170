"""The state of all ranks as one, for checkpoints that one rank writes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gradwire.torch.ddp import DDPHook
from gradwire.torch.states import merge_states

__all__ = ["WholeState"]


class WholeState:
    """The state of a hook, with the parts of all ranks: for a framework that lets rank 0 alone write its checkpoints.

    `state_dict` is then collective: rank 0 returns the states of all ranks as one, the others return their own, which
    such a framework throws away. Rank 0 needs the memory for all of it: as many bytes as the residuals of all ranks
    have. Where that is too much, let each rank save its own `hook.state_dict()`.

    Args:
        hook: the registered hook, the same on all ranks of the default process group.
        timeout: how long to wait for the other ranks when saving.

    Example:
        >>> hook = gradwire.torch.compress(model)                                # doctest: +SKIP
        >>> accelerator.register_for_checkpointing(WholeState(hook))             # doctest: +SKIP
    """

    def __init__(self, hook: DDPHook, timeout: timedelta = timedelta(minutes=5)) -> None:
        self._hook = hook
        self._group = dist.new_group(backend="gloo", timeout=timeout)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all ranks as one on rank 0, this rank's own on the others; collective.

        Raises:
            RuntimeError: a rank does not take part in time.
        """
        state = self._hook.state_dict()
        if dist.get_rank() == 0:
            return merge_states([state, *(self._receive(rank) for rank in range(1, dist.get_world_size()))])
        self._send(state)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from such a state, at any number of ranks; see `DDPHook.load_state_dict`."""
        self._hook.load_state_dict(state)

    def _send(self, state: Mapping[str, Any]) -> None:
        file = io.BytesIO()
        torch.save(state, file)
        data = torch.frombuffer(file.getbuffer(), dtype=torch.uint8)
        with _with(0):
            dist.send(torch.tensor([data.numel()]), 0, group=self._group)
            dist.send(data, 0, group=self._group)

    def _receive(self, rank: int) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        with _with(rank):
            dist.recv(size, rank, group=self._group)
            data = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(data, rank, group=self._group)
        return torch.load(io.BytesIO(data.numpy().data), weights_only=True)


@contextmanager
def _with(rank: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            f"rank {rank} does not take part in collecting the state; every rank must make the checkpoint, at the same "
            f"place of its script. The transport said: {error}"
        ) from error
