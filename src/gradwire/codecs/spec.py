"""Codecs as text: ``rtopk:k=0.001,r=0.004``; the same in commands, configurations and logs."""

import dataclasses
import functools
import re
from typing import Any

from gradwire.codecs.base import Codec
from gradwire.errors import ParameterError

__all__ = ["from_spec", "to_spec"]

NAME = re.compile(r"[a-z][a-z0-9]*")


def to_spec(codec: Codec) -> str:
    """The text form of a codec; fields at their defaults are left out."""
    fields = _fields_text(codec)
    return f"{codec.name}:{fields}" if fields else codec.name


def _fields_text(codec: Codec) -> str:
    parts = []
    for field in dataclasses.fields(codec):
        value = getattr(codec, field.name)
        if value != field.default or type(value) is not type(field.default):
            parts.append(f"{field.name}={_value_text(value)}")
    return ",".join(parts)


def _value_text(value: Any) -> str:
    if isinstance(value, Codec):
        fields = _fields_text(value)
        return f"{value.name}({fields})" if fields else value.name
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def from_spec(spec: str) -> Codec:
    """The codec that a text names.

    Definition: ``name`` or ``name:field=value,…``; a value is an int, a float, true, false, a word, or an inner codec
    as ``name(field=value,…)`` or ``name``.

    Raises:
        ParameterError: no such codec or field, or a value that the codec refuses.

    Example:
        >>> from_spec("rtopk:k=0.001,r=0.004")
        RTopK(k=0.001, r=0.004, values='float32')
        >>> str(from_spec("topk:values=bfloat16,k=10"))
        'topk:k=10,values=bfloat16'
    """
    if not isinstance(spec, str):
        raise ParameterError(f"a codec's text is due, not {spec!r}")
    return _parsed(spec)


@functools.lru_cache(maxsize=256)  # codecs do not change, and a step names the same one each time
def _parsed(spec: str) -> Codec:
    name, _, fields = spec.strip().partition(":")
    return _build(name, fields, spec)


def _build(name: str, fields: str, spec: str) -> Codec:
    from gradwire.codecs import CODECS

    codec = CODECS.get(name)
    if codec is None:
        raise ParameterError(f"{name!r} in {spec!r} is no codec: take one of {', '.join(sorted(CODECS))}")
    known = {field.name: field for field in dataclasses.fields(codec)}
    given: dict[str, Any] = {}
    for part in _split(fields, spec):
        key, equals, text = part.partition("=")
        key = key.strip()
        if not equals or key not in known:
            has = ", ".join(known) or "none"
            raise ParameterError(f"{part!r} in {spec!r} is no field of {name}: write field=value, its fields are {has}")
        if key in given:
            raise ParameterError(f"{key} stands twice in {spec!r}")
        given[key] = _value(text.strip(), spec)
    for field in known.values():
        if field.name not in given and field.default is dataclasses.MISSING:
            raise ParameterError(f"{spec!r} lacks {field.name}: write {name}:{field.name}=…")
    return codec(**given)


def _split(fields: str, spec: str) -> list[str]:
    """Splits at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(fields):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(fields[start:i])
            start = i + 1
    if depth != 0:
        raise ParameterError(f"the parentheses in {spec!r} do not match")
    return [*parts, fields[start:]] if fields.strip() else []


def _value(text: str, spec: str) -> Any:
    from gradwire.codecs import CODECS

    if text in CODECS:
        return _build(text, "", spec)
    if text.endswith(")") and "(" in text:
        name, _, fields = text[:-1].partition("(")
        return _build(name.strip(), fields, spec)
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    if NAME.fullmatch(text):
        return text
    raise ParameterError(f"{text!r} in {spec!r} is no value: give a number, true, false, a word or a codec")
