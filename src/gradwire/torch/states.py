"""The state of a seat: plain tensors and numbers, one part a rank, and how the parts become those of other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradwire.errors import ParameterError

__all__ = ["merge_states", "part_of", "parts", "redraw"]


def part_of(rank: int) -> str:
    """The key of a rank's part: each rank has a key of its own, so that a checkpoint of all ranks keeps all parts."""
    return f"rank{rank}"


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the states that several ranks saved into one, for `load_state_dict` at another number of ranks.

    Raises:
        ParameterError: states of different runs or steps.

    Example:
        >>> files = [torch.load(f"rank{r}.pt", weights_only=True) for r in range(4)]      # doctest: +SKIP
        >>> hook.load_state_dict(merge_states(files))                                     # doctest: +SKIP
    """
    merged: dict[str, Any] = {}
    for state in states:
        for key, value in state.items():
            if key in merged and not key.startswith("rank") and merged[key] != value:
                raise ParameterError(f"the states differ in {key}: {merged[key]} and {value}; give those of one step")
            merged[key] = value
    return merged


def parts(state: Mapping[str, Any], rank: int, world: int) -> list[Mapping[str, Any]]:
    """The parts that a rank needs: its own one if the number of ranks is the same, else those of all old ranks.

    Raises:
        ParameterError: parts are missing.
    """
    old = int(state["world_size"])
    wanted = [rank] if old == world else list(range(old))
    missing = [r for r in wanted if part_of(r) not in state]
    if missing:
        raise ParameterError(
            f"the state of {old} ranks lacks the part of {', '.join(part_of(r) for r in missing)}; "
            + (
                "load on each rank the state that the same rank saved"
                if old == world
                else f"for {world} ranks, load the states of all of them as one: merge_states([…])"
            )
        )
    return [state[part_of(r)] for r in wanted]


def redraw(parts: Sequence[torch.Tensor], old: Sequence[Sequence[slice]], new: Sequence[slice], n: int) -> torch.Tensor:
    """Hand entries to new owners: part i lies at the places old[i] of a vector of n entries.

    Raises:
        ParameterError: a part does not have the entries of its places.

    >>> redraw([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [[slice(0, 2)], [slice(2, 3)]], [slice(1, 3)], 3)
    tensor([2., 3.])
    """
    whole = torch.zeros(n)
    for part, places in zip(parts, old, strict=True):
        due = sum(place.stop - place.start for place in places)
        if part.numel() != due:
            raise ParameterError(
                f"the state owns {part.numel()} entries, {due} are due; load it in the topology and with the `small` "
                "that it was saved with"
            )
        start = 0
        for place in places:
            stop = start + place.stop - place.start
            whole[place] = part[start:stop]
            start = stop
    return torch.cat([whole[place] for place in new]) if new else torch.zeros(0)
