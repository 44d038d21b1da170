"""What a client keeps between messages: in Flower's ``context.state``, which lasts as long as the node and the run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from gradwire.errors import MessageError
from gradwire.flower import bundle
from gradwire.flower.arrays import from_record, to_record
from gradwire.flower.layout import Layout, Tensor
from gradwire.flower.protocol import RECORD

__all__ = ["Arrays", "ClientState"]

Arrays = dict[str, np.ndarray[Any, Any]]

REFERENCE, RESIDUAL, PENDING = f"{RECORD}.reference", f"{RECORD}.residual", f"{RECORD}.pending"


@dataclass
class ClientState:
    """The reference of this client and its residuals.

    Attributes:
        session: the server's strategy object that all of this belongs to.
        version: the version of the reference, 0 for none.
        layout, reference: the model as the server believes this client to have it.
        residuals: what all acknowledged updates left out, float32 by tensor name.
        pending: the residuals that hold if the update with ``ticket`` arrived; ``ticket`` 0: none is on its way.
    """

    session: int = 0
    version: int = 0
    layout: Layout = field(default_factory=lambda: Layout(()))
    reference: Arrays = field(default_factory=dict)
    residuals: Arrays = field(default_factory=dict)
    pending: Arrays = field(default_factory=dict)
    ticket: int = 0

    @staticmethod
    def load(records: RecordDict, session: int) -> ClientState:
        """What :meth:`save` has put there; the state of a new client if nothing is there, or from another session."""
        record = records.get(RECORD)
        if not isinstance(record, ConfigRecord) or record["session"] != session:
            return ClientState(session)
        tensors = (Tensor(name, tuple(shape), *rest) for name, shape, *rest in json.loads(str(record["layout"])))
        return ClientState(
            session=session,
            version=_integer(record["version"]),
            layout=Layout(tuple(tensors)),
            reference=_arrays(records, REFERENCE),
            residuals=_arrays(records, RESIDUAL),
            pending=_arrays(records, PENDING),
            ticket=_integer(record["ticket"]),
        )

    def save(self, records: RecordDict) -> None:
        """Put it into ``context.state``; nothing of it leaves the node."""
        tensors = [(t.name, t.shape, t.dtype, t.compressed) for t in self.layout.tensors]
        numbers = {"session": self.session, "version": self.version, "ticket": self.ticket}
        records[RECORD] = ConfigRecord({"layout": json.dumps(tensors), **numbers})
        records[REFERENCE] = to_record(self.reference)
        records[RESIDUAL] = to_record(self.residuals)
        records[PENDING] = to_record(self.pending)

    def settle(self, accepted: int) -> None:
        """Commit the residuals of the update on its way if the server accepted it; else go back to those before."""
        if self.ticket and self.ticket == accepted:
            self.residuals = self.pending
        self.pending, self.ticket = {}, 0

    def start(self, ahead: float) -> Arrays:
        """Where training starts: the reference, and of what has not been sent yet a share."""
        if ahead == 0:
            return self.reference
        arrays = dict(self.reference)
        for name, residual in self.residuals.items():
            arrays[name] = arrays[name] + np.float32(ahead) * residual.reshape(arrays[name].shape)
        return arrays

    def await_answer(self, ticket: int, residuals: Arrays) -> None:
        """Remember the residuals that hold if the update with this ticket arrives."""
        self.pending, self.ticket = residuals, ticket

    def advance(self, bundles: dict[str, bytes], version: int) -> None:
        """Bring the reference to a version.

        Args:
            bundles: what came: a whole model under "model", or steps under the version that each leads to.
            version: the version due.

        Raises:
            MessageError: the steps do not lead there from the version held, or a bundle is not valid; nothing was
                changed.
        """
        if "model" in bundles:
            layout, reference = bundle.read_model(bundles["model"])
            if layout.digest != self.layout.digest:
                self.residuals, self.pending, self.ticket = {}, {}, 0
            self.layout, self.reference, self.version = layout, reference, version
            return
        reference = self.reference
        for step in range(self.version + 1, version + 1):
            if not self.version or str(step) not in bundles:
                raise MessageError(f"this client holds version {self.version}, and the step to {step} is not here")
            parts = bundle.read_changes(bundle.STEP, self.layout, bundles[str(step)])
            reference = {t.name: bundle.apply(t, reference[t.name], parts[t.name]) for t in self.layout.tensors}
        if version < self.version or not self.version:
            raise MessageError(f"this client holds version {self.version}, and the server asks for {version}")
        self.reference, self.version = reference, version


def _arrays(records: RecordDict, key: str) -> Arrays:
    record = records.get(key)
    return from_record(record) if isinstance(record, ArrayRecord) else {}


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0
