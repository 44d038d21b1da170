"""Replies are hostile until they are decoded and checked: a bad one is told apart from a good one here, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from gradwire.errors import MessageError
from gradwire.flower import bundle
from gradwire.flower.arrays import DecodedArray, from_record, to_record
from gradwire.flower.changes import squared_norm
from gradwire.flower.layout import Layout, Tensor
from gradwire.flower.protocol import BUNDLE, RECORD, Up

__all__ = ["Update", "answer_of", "check_metrics", "in_line", "inner_record", "read_update"]

Array = np.ndarray[Any, Any]

WEIGHT_MAX = 2.0**53
"""Largest weight of a reply; the sum of all weights must stay finite."""


KINDS = (ArrayRecord, MetricRecord)
"""The records that strategies average."""


@dataclass(frozen=True)
class Update:
    """A client's update that has passed every check; still as compact as it came."""

    layout: Layout
    model: Mapping[str, Array]
    parts: Mapping[str, bundle.Part]
    record: str
    norm: float

    def content(self, of: RecordDict) -> RecordDict:
        """The reply that the app gave, for the strategy: its arrays are decoded when they are read."""
        arrays = ArrayRecord()
        for tensor in self.layout.tensors:
            arrays[tensor.name] = DecodedArray(_inner_dtype(tensor.dtype), tensor.shape, self._decoder(tensor))
        return RecordDict({k: arrays if k == self.record else v for k, v in of.items() if k != RECORD})

    def _decoder(self, tensor: Tensor) -> Any:
        before, part = self.model[tensor.name], self.parts[tensor.name]
        return lambda: bundle.apply(tensor, before, part)


def inner_record(record: ArrayRecord) -> ArrayRecord:
    """A model as the strategy inside gets it: integers as float64, half precision as float32, the rest as it is.

    A mean of integers is no integer, and clipping or adding noise in place, as the wrappers for differential privacy
    do, fails on them.
    """
    other = {name: array for name, array in record.items() if _inner_dtype(array.dtype) != array.dtype}
    if not other:
        return record
    converted = to_record({n: np.asarray(a, _inner_dtype(other[n].dtype)) for n, a in from_record(other).items()})
    inner = ArrayRecord()
    for name, array in record.items():
        inner[name] = converted.get(name, array)
    return inner


def answer_of(message: Message, session: int) -> ConfigRecord:
    """The client's record in a reply.

    Raises:
        MessageError: there is none, it is of another session, or the client refused.
    """
    answer = message.content.get(RECORD)
    if not isinstance(answer, ConfigRecord):
        raise MessageError("it has no gradwire record: put gradwire.flower.compress(…) first among the client's mods")
    if answer.get(Up.SESSION) != session:
        raise MessageError("it belongs to another session")
    if Up.REFUSED in answer:
        raise MessageError(f"the client refused: {str(answer[Up.REFUSED])[:300]!r}")
    return answer


def read_update(
    content: RecordDict, answer: ConfigRecord, layout: Layout, model: Mapping[str, Array], due: Mapping[str, int]
) -> Update:
    """The update in a reply: decoded once to check it, tensor by tensor, and not kept decoded.

    Args:
        content: the reply's.
        answer: the client's record.
        layout, model: the model, as both sides keep it, that the update is added to.
        due: the version and ticket that it must have.

    Raises:
        MessageError: anything is not as it must be.
    """
    for key, value in due.items():
        if answer.get(key) != value:
            raise MessageError(f"it is for {key} {answer.get(key)!r} where {value} is due")
    records = [(name, record) for name, record in content.items() if isinstance(record, ArrayRecord)]
    if len(records) != 1 or list(records[0][1]) != ["update"] or records[0][1]["update"].stype != BUNDLE:
        raise MessageError("it has no update in the one ArrayRecord that is due")
    name, record = records[0]
    parts = bundle.read_changes(bundle.UPDATE, layout, record["update"].data)
    total = 0.0
    for tensor in layout.tensors:
        if (part := parts[tensor.name]) is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            after = bundle.apply(tensor, model[tensor.name], part)
            if after.dtype.kind in "fc":
                if not np.isfinite(after).all():
                    raise MessageError(f"its {tensor.name} is not finite")
                total += squared_norm(np.abs(after - model[tensor.name]))
    return Update(layout, model, parts, name, math.sqrt(total))


def check_metrics(content: RecordDict, weight: str | None) -> None:
    """Raises MessageError where metrics, or the weight that the strategy averages by, would spoil the round."""
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    for record in records:
        for key, value in record.items():
            if not all(math.isfinite(v) for v in (value if isinstance(value, list) else [value])):
                raise MessageError(f"its metric {key} is not finite")
    if weight is None:
        return
    if len(records) != 1:
        raise MessageError(f"it has {len(records)} MetricRecords where one is due")
    given = records[0].get(weight)
    if not isinstance(given, int | float) or not 0 < given <= WEIGHT_MAX:
        raise MessageError(f"its weight {weight} is {given!r} where a number in (0, 2^53] is due")


def in_line(contents: Sequence[RecordDict], usual: object = None) -> tuple[list[RecordDict | None], object]:
    """Replies that a strategy can average: one client with other records or metrics would end the round.

    Definition: the form of a reply is the names and types of its records, the names of its metrics, and the lengths of
    those that are lists. What most have is in line; of equally frequent forms ``usual``. Where that does not decide, as
    between two clients in a first round, nobody can tell who is right: then no reply is out of line, and all of them
    are cut down to what they have in common, the update, the weight and the metrics that all report.

    Args:
        contents: of checked replies.
        usual: the form of the round before.

    Returns:
        For each reply its content, or None if it is out of line; and what is usual from now on.
    """
    forms = [_form(content) for content in contents]
    counts = Counter(forms)
    best = [form for form, count in counts.items() if count == max(counts.values())]
    if len(best) > 1 and usual not in best:
        return list(_in_common(contents)), usual
    due = usual if usual in best else next(iter(best), usual)
    return [content if form == due else None for content, form in zip(contents, forms, strict=True)], due


def _in_common(contents: Sequence[RecordDict]) -> Iterator[RecordDict]:
    """The one ArrayRecord and the one MetricRecord of each, under the first one's names, with the metrics all have."""
    found: list[dict[type, list[tuple[str, Any]]]] = []
    for content in contents:
        found.append({kind: [(k, r) for k, r in content.items() if type(r) is kind] for kind in KINDS})
    kinds = [kind for kind in KINDS if all(len(of[kind]) == 1 for of in found)]
    shared = set.intersection(*(_metrics(of[MetricRecord][0][1]) for of in found)) if MetricRecord in kinds else set()
    for of in found:
        made = RecordDict()
        for kind in kinds:
            (name, _), (_, record) = found[0][kind][0], of[kind][0]
            if kind is MetricRecord:
                record = MetricRecord({key: record[key] for key, _ in sorted(shared)})
            made[name] = record
        yield made


def _form(content: RecordDict) -> object:
    return frozenset(
        (k, type(v), frozenset(_metrics(v)) if isinstance(v, MetricRecord) else None) for k, v in content.items()
    )


def _metrics(record: MetricRecord) -> set[tuple[str, int]]:
    """The names of metrics and the lengths of those that are lists."""
    return {(key, len(value) if isinstance(value, list) else -1) for key, value in record.items()}


def _inner_dtype(dtype: str) -> str:
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return "float64" if np.dtype(dtype).kind in "biu" else dtype
