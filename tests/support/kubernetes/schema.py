# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a structural openAPIV3Schema does to an object: pruning, defaults, validation."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from tests.support.kubernetes import rules
from tests.support.kubernetes.refusals import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tests.support.kubernetes.rules import Rule, RuleError

Object = dict[str, Any]
Schema = dict[str, Any]
_OWN = ("apiVersion", "kind", "metadata")
_ANY = "x-kubernetes-preserve-unknown-fields"
_EITHER = "x-kubernetes-int-or-string"
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
# After one of these, rules are not looked at.
_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
_RULE = lru_cache(maxsize=None)(rules.parse)


def prune(
    value: Any, schema: Schema, path: str = "", *, root: bool = True
) -> tuple[Any, list[str]]:
    """Return a value without the fields that its schema has not, and the paths of these."""
    if isinstance(value, list):
        pairs = [
            prune(one, schema.get("items", {}), f"{path}[{index}]", root=False)
            for index, one in enumerate(value)
        ]
        return [one for one, _ in pairs], [path for _, paths in pairs for path in paths]
    if not isinstance(value, dict) or not schema:
        return value, []
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    kept: Object = {}
    unknown: list[str] = []
    embedded = root or schema.get("x-kubernetes-embedded-resource")
    for name, one in value.items():
        inner = f"{path}.{name}" if path else name
        below = properties.get(name, others if isinstance(others, dict) else None)
        if embedded and name in _OWN:
            kept[name] = one
        elif below is not None:
            kept[name], more = prune(one, below, inner, root=False)
            unknown += more
        elif schema.get(_ANY) or others is True:
            kept[name] = one
        else:
            unknown.append(inner)
    return kept, unknown


def default(value: Any, schema: Schema) -> Any:
    """Return a value with what its schema has as defaults where it has nothing."""
    if isinstance(value, list):
        return [default(one, schema.get("items", {})) for one in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, below in schema.get("properties", {}).items():
        nothing = name in filled and filled[name] is None and not below.get("nullable")
        if "default" in below and (name not in filled or nothing):
            filled[name] = copy.deepcopy(below["default"])
        if name in filled:
            filled[name] = default(filled[name], below)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in filled.keys() - schema.get("properties", {}).keys():
            filled[name] = default(filled[name], others)
    return filled


def validate(value: Any, schema: Schema, old: Any = None, path: str = "") -> Iterator[Cause]:
    """Tell what is wrong with a value.

    Args:
        value: The new value.
        schema: What it is held against.
        old: The value before; None for what is new, of which no transition is checked.
        path: Where it is.
    """
    causes = list(_causes(value, schema, path))
    yield from causes
    if not _has_rules(schema):
        return
    if any(cause.reason in _BLOCKING for cause in causes):
        why = "some validation rules were not checked because the object was invalid; correct the "
        yield invalid("<nil>", None, why + "existing errors to complete validation")
    else:
        yield from _all_rule_causes(value, schema, old, path)


def _has_rules(schema: Schema) -> bool:
    if "x-kubernetes-validations" in schema:
        return True
    others = [schema.get(name) for name in ("items", "additionalProperties")]
    below = [*schema.get("properties", {}).values(), *others]
    return any(_has_rules(one) for one in below if isinstance(one, dict))


def _causes(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """Tell what is wrong with a value, rules left out."""
    if value is None and schema.get("nullable"):
        return
    wrong = list(_type_causes(value, schema, path))
    yield from wrong
    if wrong:  # Anything else said of it would only confuse.
        return
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _text_causes(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_causes(value, schema, path)
    elif isinstance(value, list):
        yield from _list_causes(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_causes(value, schema, path)
    yield from _combined(value, schema, path)


def _type_causes(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get(_EITHER):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _of_other_type(path, value, "integer,string")
        return
    wanted = schema.get("type")
    if wanted is None:
        return
    good = isinstance(value, _TYPES[wanted]) and (
        wanted == "boolean" or not isinstance(value, bool)
    )
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        good = True
    if not good:
        yield _of_other_type(path, value, wanted)


def _of_other_type(path: str, value: Any, wanted: str) -> Cause:
    found = "null" if value is None else _name_of_type(value)
    return Cause(
        path,
        "FieldValueTypeInvalid",
        f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"',
    )


def _name_of_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next(name for name, types in _TYPES.items() if isinstance(value, types))


def _text_causes(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        yield invalid(path, value, f"{path} in body should be at least {least} chars long")
    if len(value) > schema.get("maxLength", len(value)):
        yield Cause(
            path, "FieldValueTooLong", f"Too long: may not be more than {schema['maxLength']}"
        )
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not is_time(value):
        yield invalid(path, value, f"{path} in body must be of type date-time: {json.dumps(value)}")


def is_time(text: Any) -> bool:
    """Say whether a text is a time as RFC 3339 has it."""
    if not isinstance(text, str) or not re.search(r"^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$", text):
        return False
    try:
        # Python 3.10 takes neither a Z nor other than three or six digits.
        datetime.fromisoformat(re.sub(r"(\.\d+)?(Z|[+-]\d\d:\d\d)$", "", text))
    except ValueError:
        return False
    return True


def _number_causes(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {than} {least}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {than} {most}")
    if value % schema.get("multipleOf", value or 1):
        yield invalid(path, value, f"{path} in body should be a multiple of {schema['multipleOf']}")


def _list_causes(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minItems", 0):
        least = schema["minItems"]
        yield invalid(path, len(value), f"{path} in body should have at least {least} items")
    if len(value) > schema.get("maxItems", len(value)):
        most = schema["maxItems"]
        yield Cause(
            path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items"
        )
    keys = schema.get("x-kubernetes-list-map-keys", [])
    named = schema.get("x-kubernetes-list-type")
    seen = []
    for index, one in enumerate(value):
        key = _map_key(one, keys) if named == "map" else one
        if named in ("map", "set") and key in seen:
            yield duplicate(f"{path}[{index}]", one)
        seen.append(key)
        yield from _causes(one, schema.get("items", {}), f"{path}[{index}]")


def _map_key(one: Any, keys: list[str]) -> tuple[Any, ...]:
    return tuple(one.get(key) for key in keys) if isinstance(one, dict) else (None,)


def _object_causes(value: Object, schema: Schema, path: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    if len(value) > schema.get("maxProperties", len(value)):
        yield invalid(path, len(value), f"must have at most {schema['maxProperties']} properties")
    for name, inner, below in _below(value, schema, path):
        yield from _causes(value[name], below, inner)


def _below(value: Object, schema: Schema, path: str) -> Iterator[tuple[str, str, Schema]]:
    """Return the names, paths and schemas of an object's fields that have a schema."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in value:
        below = properties.get(name, others if isinstance(others, dict) else None)
        if below is not None:
            yield name, f"{path}.{name}" if path else name, below


def _all_rule_causes(value: Any, schema: Schema, old: Any, path: str) -> Iterator[Cause]:
    """Tell which rules fail of a value and all that is in it."""
    if isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys", [])
        named = schema.get("x-kubernetes-list-type") == "map"
        known = old if named and isinstance(old, list) else []
        before = {_map_key(one, keys): one for one in known}
        for index, one in enumerate(value):
            was = before.get(_map_key(one, keys))
            yield from _all_rule_causes(one, schema.get("items", {}), was, f"{path}[{index}]")
    elif isinstance(value, dict):
        was = old if isinstance(old, dict) else {}
        for name, inner, below in _below(value, schema, path):
            yield from _all_rule_causes(value[name], below, was.get(name), inner)
    if not (value is None and schema.get("nullable")):
        yield from _rule_causes(value, schema, old, path)


def _combined(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for below in schema.get("allOf", ()):
        yield from _causes(value, below, path)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            fitting = sum(not list(_causes(value, below, path)) for below in schema[name])
            if fitting == 0 or (name == "oneOf" and fitting > 1):
                yield invalid(path, value, f"{path} in body must validate {name} of the schemas")
    if "not" in schema and not list(_causes(value, schema["not"], path)):
        yield invalid(path, value, f"{path} in body must not validate the schema (not)")


def _rule_causes(value: Any, schema: Schema, old: Any, path: str) -> Iterator[Cause]:
    for one in schema.get("x-kubernetes-validations", ()):
        rule: Rule = _RULE(one["rule"])
        if rule.transition and old is None:
            continue
        try:
            if rule.evaluate(value, old):
                continue
            said = one.get("message") or f"failed rule: {one['rule']}"
            if "messageExpression" in one:
                said = _RULE(one["messageExpression"]).evaluate(value, old)
        except RuleError as error:
            told = one.get("message") or f"failed rule: {one['rule']}"
            yield invalid(path, schema.get("type"), f"{error} evaluating rule: {told}")
            continue
        at = path + one.get("fieldPath", "")
        if one.get("reason") == "FieldValueForbidden":
            yield forbidden(at, said)
        elif one.get("reason") == "FieldValueRequired":
            yield required(at, said)
        else:
            yield invalid(at, value, said)


def structural(schema: Schema, path: str, *, root: bool = True) -> Iterator[Cause]:
    """Tell why a server would not take a schema: not structural, or with a rule that is none."""
    if not (schema.get("type") or schema.get(_EITHER) or schema.get(_ANY)):
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if root and schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type"), "must be object at the root")
    if "default" in schema:
        yield from _default_causes(schema["default"], schema, f"{path}.default")
    if "properties" in schema and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "mutually exclusive with properties")
    for one in schema.get("x-kubernetes-validations", ()):
        at = f"{path}.x-kubernetes-validations[0]"
        try:
            rules.check(_RULE(one["rule"]), schema)
        except RuleError as error:
            yield invalid(f"{at}.rule", one["rule"], f"compilation failed: ERROR: {error}")
        if not _is_field(one.get("fieldPath", ""), schema):
            yield invalid(f"{at}.fieldPath", one["fieldPath"], "fieldPath must be a valid path")
    for name, below in schema.get("properties", {}).items():
        if root and name == "metadata":
            yield from _metadata_causes(below, f"{path}.properties[metadata]")
        elif not (root and name in _OWN):
            yield from structural(below, f"{path}.properties[{name}]", root=False)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from structural(schema[name], f"{path}.{name}", root=False)
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")


def _default_causes(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """Tell why a default cannot be one.

    It is held against its schema as it is written, without the defaults that are nested in it, and
    it is its own old value. Seen on Kubernetes 1.36.2: a default of {} is refused where a rule
    reads a field that only a nested default has ("no such key: min evaluating rule: ...").
    """
    _, unknown = prune(value, schema, root=False)
    for name in unknown:
        yield invalid(path, value, f"must not have unknown fields: {name}")
    yield from validate(value, schema, value, path)


def _metadata_causes(schema: Schema, path: str) -> Iterator[Cause]:
    """Tell what a schema says of the metadata that it may not: only names can be restricted."""
    others = set(schema) - {"type", "description", "properties"}
    if others or set(schema.get("properties", {})) - {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicit"
        yield forbidden(path, why)


def _is_field(path: str, schema: Schema) -> bool:
    """Say whether a path such as .a.b is one of a schema; places in lists cannot be named."""
    for name in path.split(".")[1:]:
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return path == "" or path.startswith(".")
