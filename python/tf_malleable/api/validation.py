# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Validation of requests against the message types.

A refusal names the field, the allowed values and the value sent. The allowed values are
read from the types, so the sentence always agrees with the check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import inspect

from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.model.units import SIZE_PATTERN

_Message = TypeVar("_Message", bound=msgspec.Struct)

_PLACE = re.compile(r" - at `\$\.(?P<field>\w+)(?P<item>\[\d+\])?")
_MISSING = re.compile(r"missing required field `(?P<field>\w+)`")
_UNKNOWN = re.compile(r"unknown field `(?P<field>.*)`$", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}")
_SHOWN = 60
_LONGEST_COMPLAINT = 300


def decode_body(body: bytes, kind: type[_Message]) -> _Message:
    """Return the message in a request's body.

    Raises:
        Refusal: 400; the body is not JSON, or not a message of this kind.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(400, _sentence(str(error), body, kind, "field")) from None
    # The last one if it is nested too deeply, in a field that is ignored.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ") if body else "it is empty"
        wanted = f"the body must be a JSON object with {_listing(_fields(kind))}"
        raise Refusal(400, f"{wanted}: {reason[:1].lower()}{reason[1:]}") from None


def decode_json(text: bytes | str | msgspec.Raw, kind: type[_Message]) -> _Message:
    """Return the message in JSON that another program has written.

    Raises:
        ValueError: The text is not JSON, or not a message of this kind; the error is one sentence.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    # The last one as in decode_body().
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(cut(str(error), _LONGEST_COMPLAINT)) from None


def decode_query(query: Iterable[tuple[str, str]], kind: type[_Message]) -> _Message:
    """Return the message in the query parameters of a request.

    Raises:
        Refusal: 400; a parameter is unknown, given twice or invalid.
    """
    values: dict[str, object] = {}
    for name, text in query:
        if name in values:
            raise Refusal(400, f"the parameter {_shown(name)} is given twice")
        values[name] = _literal(text)
    body = msgspec.json.encode(values)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(400, _sentence(str(error), body, kind, "parameter")) from None


def cut(text: str, most: int = _SHOWN) -> str:
    """Return the text for use in a message: on one line, and shortened if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _literal(text: str) -> object:
    """Return a parameter's value: a number or a bool if it looks like one."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def _sentence(complaint: str, body: bytes, kind: type[msgspec.Struct], what: str) -> str:
    """Return a sentence about an invalid body, from msgspec's message."""
    fields = _fields(kind)
    if place := _PLACE.search(complaint):
        field, allowed = place["field"], fields[place["field"]]
        if place["item"] and isinstance(allowed, inspect.ListType):
            return f"{field}{place['item']} must be {_allowed(allowed.item_type)}"
        return f"{field} must be {_allowed(allowed)}{_given(body, field)}"
    if missing := _MISSING.search(complaint):
        field = missing["field"]
        return f"{field} is missing; it must be {_allowed(fields[field])}"
    if unknown := _UNKNOWN.search(complaint):
        return f"there is no {what} {_shown(unknown['field'])}; there are {_listing(fields)}"
    sent = cut(body.decode(errors="replace"))
    return f"the body must be a JSON object with {_listing(fields)}, not {sent}"


def _fields(kind: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def _listing(fields: Mapping[str, object]) -> str:
    return ", ".join(fields)


def _given(body: bytes, field: str) -> str:
    """Return the value sent for a field, as the end of a sentence; "" if it cannot be read."""
    try:
        sent = msgspec.json.decode(body, type=dict[str, msgspec.Raw])[field]
    except (ValueError, RecursionError):
        return ""
    return f", not {cut(bytes(sent).decode())}"


def _shown(text: str) -> str:
    return cut(msgspec.json.encode(text).decode())


def _allowed(kind: inspect.Type) -> str:
    """Return a description of the values that a type allows."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_allowed(one) for one in kind.types)
    if isinstance(kind, inspect.IntType):
        return f"an integer{_range(kind)}"
    if isinstance(kind, inspect.FloatType):
        return f"a number{_range(kind)}"
    if isinstance(kind, inspect.StrType):
        if kind.pattern == SIZE_PATTERN:
            return "a size such as 512M or 4G"
        # The only other pattern in use excludes control characters.
        characters = "characters" if kind.pattern is None else "printable characters"
        return f"a string{_length(kind, characters)}"
    if isinstance(kind, inspect.ListType):
        return f"a list{_length(kind, 'entries')}"
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(map(str, kind.values))
    if isinstance(kind, inspect.StructType):
        return f"an object with {_listing(_fields(kind.cls))}"
    return {inspect.BoolType: "true or false", inspect.NoneType: "null"}[type(kind)]


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    low = f" above {kind.gt}" if kind.gt is not None else ""
    high = f" up to {kind.le}" if kind.le is not None else ""
    return low + high


def _length(kind: inspect.StrType | inspect.ListType, unit: str) -> str:
    if kind.max_length is None:
        return ""
    low = f"{kind.min_length} to " if kind.min_length else "at most "
    return f" of {low}{kind.max_length} {unit}"
