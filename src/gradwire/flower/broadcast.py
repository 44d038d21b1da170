"""The server's side of the downlink: one reference that all clients hold, and the steps that lead to it."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

import gradwire
from gradwire.errors import InputError, ParameterError
from gradwire.flower import bundle
from gradwire.flower.arrays import bundle_array, from_record
from gradwire.flower.changes import same_bits
from gradwire.flower.layout import Layout, Rules

__all__ = ["Broadcast"]

NEW = 0
"""The version of a client that holds nothing, or of which nothing is known."""


class Broadcast:
    """What clients have been sent, and what each of them needs.

    Definition: version 1 of the reference is the model itself. For each later model w the reference r becomes
    r + C(w − r): what the message leaves out of w stays in w − r, and goes with a later one (error feedback in its
    plainest form). A client's update is added to w, not to r, so nothing of w is lost. All clients go through the same
    versions, so a step is encoded once, and a client that missed some gets all that it missed, as long as they are
    fewer bytes than the model; else, and if it is new, the model.

    Memory: the model, the reference, one list of steps of at most the same bytes, and a number for each client.

    Args:
        codec: for the steps; None sends every version whole.
        rules: which tensors are compressed.
        seed: of the codec's randomness, and of the session's number; None draws one.

    Raises:
        ParameterError: a codec that is not contractive on a tensor of the model.
    """

    def __init__(self, codec: gradwire.Codec | None, rules: Rules, seed: int | None = None) -> None:
        self.codec, self.rules = codec, rules
        self.session = gradwire.Rng(secrets.randbits(63) if seed is None else seed).child(0).seed >> 1
        self.version = NEW
        self.layout = Layout(())
        self.model: dict[str, np.ndarray[Any, Any]] = {}
        self.reference: dict[str, np.ndarray[Any, Any]] = {}
        self._source: dict[str, Array] = {}
        self._steps: deque[tuple[int, Array]] = deque()
        self._whole: Array | None = None
        self._held: dict[int, int] = {}

    def advance(self, record: ArrayRecord) -> None:
        """Make a version for a model, unless it is the model of the last one.

        Raises:
            InputError: the model is not finite.
            ParameterError: its names, shapes or dtypes are not those of the first model, or cannot be sent.
        """
        if self.version and self._is_last(record):
            return
        arrays = from_record(record)
        if self.version == NEW:
            self.layout = Layout.of(arrays, self.rules)
            self._check_codec()
        self.layout.check_names(arrays)
        kept = {t.name: t.keep(arrays[t.name]) for t in self.layout.tensors}
        for name, array in kept.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"the model that the strategy gave has NaN or infinity in {name}")
        if self.version == NEW or self.codec is None:
            self.reference = kept
            self._steps.clear()
        else:
            self._step(kept)
        self.model = kept
        self.version += 1
        self._whole = None
        self._source = dict(record.items())

    def bundles(self, node: int) -> ArrayRecord:
        """What a client needs to hold the present version; nothing if it holds it."""
        held = self._held.get(node, NEW)
        if held == self.version:
            return ArrayRecord()
        record = ArrayRecord()
        if held != NEW and self._steps and self._steps[0][0] <= held + 1:
            for version, step in self._steps:
                if version > held:
                    record[str(version)] = step
            return record
        if self._whole is None:
            self._whole = bundle_array(bundle.write_model(self.layout, self.reference))
        record["model"] = self._whole
        return record

    def holds(self, node: int, version: object) -> None:
        """A client has said which version it holds; what it cannot hold counts as none."""
        self._held[node] = version if isinstance(version, int) and NEW <= version <= self.version else NEW

    def _is_last(self, record: ArrayRecord) -> bool:
        same = len(record) == len(self._source)
        return same and all(
            array is (last := self._source.get(name)) or array == last for name, array in record.items()
        )

    def _check_codec(self) -> None:
        for tensor in self.layout.tensors:
            if tensor.compressed and self.codec is not None:
                n = min(tensor.size, bundle.PIECE)
                self.codec.check(n)
                if self.codec.guarantee(n).error >= 1:
                    raise ParameterError(
                        f"downlink={self.codec} is not contractive on the {n} entries of {tensor.name}: the clients' "
                        "reference would run away from the model; give a contractive codec, such as sd:alpha=0.1"
                    )

    def _step(self, model: Mapping[str, np.ndarray[Any, Any]]) -> None:
        assert self.codec is not None
        generator = gradwire.Rng(self.session, stream=self.version + 1)
        parts: list[bundle.Part] = []
        reference = dict(self.reference)  # replies being decoded may still need the present arrays
        for index, tensor in enumerate(self.layout.tensors):
            new, old = model[tensor.name], self.reference[tensor.name]
            part: bundle.Part = None
            if tensor.compressed:
                difference = (new - old).reshape(-1)
                if difference.any():
                    part = bundle.encode_pieces(self.codec, difference, generator.child(index))
            elif not same_bits(new, old):
                part = new.reshape(-1).view(np.uint8).data
            reference[tensor.name] = bundle.apply(tensor, old, part)
            parts.append(part)
        self.reference = reference
        step = bundle_array(bundle.write_changes(bundle.STEP, self.layout, iter(parts)))
        self._steps.append((self.version + 1, step))
        while self._steps and sum(len(step.data) for _, step in self._steps) >= self.layout.nbytes:
            self._steps.popleft()
