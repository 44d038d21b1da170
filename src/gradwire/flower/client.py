"""The client's side: a mod around the app."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from logging import WARNING

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore import log

import gradwire
from gradwire.errors import GradwireError, InputError, MessageError, ParameterError
from gradwire.flower import bundle
from gradwire.flower.arrays import bundle_array, from_record, to_record
from gradwire.flower.changes import changes
from gradwire.flower.protocol import BUNDLE, RECORD, Down, Up
from gradwire.flower.state import Arrays, ClientState

__all__ = ["compress"]

App = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, App], Message]

CLIPPING_NORM = "clipping_norm"
"""The key under which Flower's wrapper for clipping at the client sends its norm."""


def compress(codec: gradwire.Codec | str | None = None, *, error_feedback: bool = True, ahead: float = 0.5) -> Mod:
    """A mod that decodes what the server sends, runs the app, and sends back the compressed change.

    Put it first: ``ClientApp(mods=[gradwire.flower.compress("rtopk:k=0.01,r=0.03"), …])``, for the first mod is the
    outermost one. Messages of a server without :class:`~gradwire.flower.Compressed` pass unchanged.

    Definition: with r the decoded reference and e the residual of a tensor, the app trains from w = r + ahead·e and
    returns w'. The update is C(p), p = w' − w + e, and the new residual p − C(p): sent + new residual = change + old
    residual. It is committed when the server's next message says that the update was used, and dropped if not.

    Why ahead: a client's residual grows to several of its changes, so that what it learns arrives many rounds late, and
    meanwhile each round it learns the same again. Trained from where its residual leads, it asks for what is still
    missing. docs/flower.md has the measurements; 0 gives plain error feedback. Evaluation is always that of r.

    Args:
        codec: for updates, a codec or its text form; the server's ``uplink``, where it gives one, goes first.
        error_feedback: keep residuals, for the tensors on which the codec is contractive.
        ahead: share of the residual that training starts from, 0 to 1.

    Raises:
        ParameterError: no such codec, or ahead out of range.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> app = ClientApp(mods=[compress("rtopk:k=0.01,r=0.03")])

    Source: Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019, Algorithm 1. ahead = 1 is the step ahead of
    Xu, Huo, Huang, "Step-Ahead Error Feedback for Distributed Training with Compressed Gradient", AAAI 2021.
    """
    if not 0 <= ahead <= 1:
        raise ParameterError(f"ahead = {ahead} must lie in 0 … 1")
    own = gradwire.from_spec(codec) if isinstance(codec, str) else codec

    def mod(message: Message, context: Context, call_next: App) -> Message:
        told = message.content.get(RECORD) if message.has_content() else None
        if not isinstance(told, ConfigRecord):
            return call_next(message, context)
        state = ClientState.load(context.state, _integer(told, Down.SESSION))
        try:
            codec = _codec(told, own)
            _receive(state, told, message.content)
        except GradwireError as e:
            return _refuse(message, told, state, context, str(e))
        state.save(context.state)  # before the app, which may fail: what was received stays received
        start = state.start(ahead) if Down.TICKET in told and error_feedback else state.reference
        limit = _hand_over(message, told, state, start)
        reply = call_next(message, context)
        if not reply.has_content():
            return reply
        answer = ConfigRecord({Up.SESSION: state.session, Up.VERSION: state.version})
        if Down.TICKET in told:
            ticket = _integer(told, Down.TICKET)
            try:
                rng = gradwire.Rng(context.node_id % 2**64, stream=ticket)
                residuals = _send(reply.content, state, start, codec, rng, error_feedback, limit)
            except (GradwireError, TypeError) as e:
                return _refuse(message, told, state, context, str(e))
            answer[Up.TICKET] = ticket
            state.await_answer(ticket, residuals)
            state.save(context.state)
        reply.content[RECORD] = answer
        return reply

    return mod


def _codec(told: ConfigRecord, own: gradwire.Codec | None) -> gradwire.Codec:
    spec = told.get(Down.UPLINK)
    if spec:
        return gradwire.from_spec(str(spec))
    if own is None and Down.TICKET in told:
        raise ParameterError("no codec for the uplink: give compress(codec=…) at the client, or uplink= at the server")
    return own if own is not None else gradwire.Identity()


def _integer(record: Mapping[str, object], key: str) -> int:
    value = record.get(key)
    if not isinstance(value, int) or value < 0:
        raise MessageError(f"the server's record has {key} = {value!r} where a number from 0 is due")
    return value


def _receive(state: ClientState, told: ConfigRecord, content: RecordDict) -> None:
    """Settle the last update and bring the reference up to date."""
    state.settle(_integer(told, Down.ACCEPTED))
    sent = content.get(str(told.get(Down.ARRAYS)))
    if not isinstance(sent, ArrayRecord) or any(array.stype != BUNDLE for array in sent.values()):
        raise MessageError("the server's message has no bundles where its record says")
    state.advance({name: array.data for name, array in sent.items()}, _integer(told, Down.VERSION))


def _hand_over(message: Message, told: ConfigRecord, state: ClientState, start: Arrays) -> float:
    """Give the app the message that it would have without compression; the norm that its update may have."""
    content, limit = RecordDict(), math.inf
    for name, record in message.content.items():
        if name == told[Down.ARRAYS]:
            dtypes = ((t.name, t.dtype) for t in state.layout.tensors)
            content[name] = to_record({name: start[name].astype(dtype) for name, dtype in dtypes})
        elif name != RECORD:
            content[name] = record
            if isinstance(record, ConfigRecord) and isinstance(norm := record.get(CLIPPING_NORM), int | float):
                limit = float(norm)
    message.content = content
    return limit


def _send(
    content: RecordDict,
    state: ClientState,
    start: Arrays,
    codec: gradwire.Codec,
    rng: gradwire.Rng,
    error_feedback: bool,
    limit: float,
) -> dict[str, bundle.Array]:
    """Replace the app's arrays by the bundle of its changes; the residuals that hold if it arrives."""
    found = [name for name, record in content.items() if isinstance(record, ArrayRecord)]
    if len(found) != 1:
        raise InputError(f"the app's reply has {len(found)} ArrayRecords where one is due: {found}")
    record = content[found[0]]
    assert isinstance(record, ArrayRecord)
    made = changes(state.layout, start, from_record(record), state.residuals, codec, rng, error_feedback, limit)
    parts = (made.parts[t.name] for t in state.layout.tensors)
    data = bundle.write_changes(bundle.UPDATE, state.layout, parts)
    content[found[0]] = ArrayRecord({"update": bundle_array(data)})
    return made.residuals


def _refuse(message: Message, told: ConfigRecord, state: ClientState, context: Context, why: str) -> Message:
    """Tell the server why there is no answer; it goes on without this one."""
    log(WARNING, "gradwire: no answer to the server: %s", why)
    state.save(context.state)
    answer: dict[str, int | str] = {Up.VERSION: state.version, Up.SESSION: state.session, Up.REFUSED: why}
    return Message(RecordDict({RECORD: ConfigRecord(answer)}), reply_to=message)  # type: ignore[arg-type]
