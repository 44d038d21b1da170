"""What a rank keeps of a parameter of which it may hold only a part, as a state, and how other ranks take it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwire.errors import ParameterError

__all__ = ["Kept"]


@dataclass(frozen=True)
class Kept:
    """A rank's residuals of one parameter.

    Attributes:
        name: of the parameter.
        size: entries of the whole parameter.
        replica: which of the ranks this is that have a residual of these same entries.
        replicas: how many of those there are.
        sent_from: the first entry of the whole parameter of which this rank has a residual as a sender.
        sent: that residual, a view of what the seat keeps.
        owned_from: the same as an owner.
        owned: empty if nobody owns.
        owners: whether anybody owns.
    """

    name: str
    size: int
    replica: int
    replicas: int
    sent_from: int
    sent: torch.Tensor
    owned_from: int
    owned: torch.Tensor
    owners: bool

    def state(self) -> dict[str, Any]:
        """Tensors and numbers."""
        return {
            "replica": self.replica,
            "sent_from": self.sent_from,
            "sent": self.sent.clone(),
            "owned_from": self.owned_from,
            "owned": self.owned.clone(),
        }

    def check(self, states: Sequence[Mapping[str, Any]], same: bool) -> None:
        """Refuse states that are not of this parameter.

        Args:
            states: this rank's own one, or those of all old ranks.
            same: whether the number of ranks is the same.

        Raises:
            ParameterError: they are of other entries, lack some, or are not of the same kind of seat.
        """
        if same:
            theirs = [states[0][key] if key.endswith("from") else states[0][key].numel() for key in _RANGES]
            mine = [self.sent_from, self.sent.numel(), self.owned_from, self.owned.numel()]
            if theirs != mine or states[0]["replica"] != self.replica:
                raise ParameterError(
                    f"the state's residuals of {self.name} do not fit the model and its mesh; load the state of this "
                    "model, on a mesh of the same shape, over the same kind of seat"
                )
            return
        due = dict.fromkeys(range(_replicas(states)), self.size)
        held = dict.fromkeys(due, 0)
        for state in states:
            held[state["replica"]] += state["sent"].numel()
        owned = sum(state["owned"].numel() for state in states)
        if held != due or owned != (self.size if self.owners else 0):
            raise ParameterError(
                f"the states' residuals of {self.name} do not make up its {self.size} entries; load those of all ranks "
                "of this model, over the same kind of seat"
            )

    def load(self, states: Sequence[Mapping[str, Any]], same: bool, keep: str) -> None:
        """Overwrite the residuals with those of the states, which `check` has seen."""
        if same:
            self.sent.copy_(states[0]["sent"])
            self.owned.copy_(states[0]["owned"])
            return
        heirs = [state for state in states if state["replica"] % self.replicas == self.replica]
        _add(heirs, "sent", self.sent_from, self.sent.zero_())
        if keep == "mean":
            self.sent.mul_(self.replicas / _replicas(states))
        _add(states, "owned", self.owned_from, self.owned.zero_())


_RANGES = ("sent_from", "sent", "owned_from", "owned")


def _replicas(states: Sequence[Mapping[str, Any]]) -> int:
    return 1 + max(int(state["replica"]) for state in states)


def _add(states: Sequence[Mapping[str, Any]], kind: str, start: int, out: torch.Tensor) -> None:
    """Add to `out`, entries start … of the parameter, what the states have of them."""
    for state in states:
        first, theirs = int(state[f"{kind}_from"]), state[kind].detach().to("cpu", torch.float32)
        begin, end = max(start, first), min(start + out.numel(), first + theirs.numel())
        if begin < end:
            out[begin - start : end - start] += theirs[begin - first : end - first]
