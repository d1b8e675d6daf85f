# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Label and field selectors, as strings of a query and as objects of a spec."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.support.kubernetes.refusals import bad_request

Object = dict[str, Any]
Labels = dict[str, str]
Test = Callable[[Object], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")
_EQUAL = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)$")
_KEY = re.compile(r"^(!?)\s*([A-Za-z0-9][A-Za-z0-9._/-]*)$")
_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "events"): (
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "reason",
        "type",
    ),
    ("", "secrets"): ("type",),
    ("", "namespaces"): ("status.phase",),
}


def labels(selector: str) -> Callable[[Labels], bool]:
    """Return what says whether labels match a selector of a query.

    Raises:
        RefusedError: It cannot be parsed.
    """
    # Commas separate requirements, but not inside of parentheses.
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]
    tests = [_requirement(part) for part in parts]
    return lambda found: all(test(found) for test in tests)


def _requirement(text: str) -> Callable[[Labels], bool]:
    if match := _SET.match(text):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda found: found.get(key) in values
        return lambda found: found.get(key) not in values
    if match := _EQUAL.match(text):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda found: found.get(key) != value
        return lambda found: found.get(key) == value
    if match := _KEY.match(text):
        absent, key = match.groups()
        return lambda found: (key not in found) if absent else (key in found)
    raise bad_request(f"unable to parse requirement: {text!r}")


def fields(resource: tuple[str, str], selector: str) -> Test:
    """Return what says whether an object matches a field selector of a query.

    Raises:
        RefusedError: It cannot be parsed, or names a field that cannot be selected by.
    """
    allowed = ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ()))
    tests: list[Test] = []
    for part in filter(None, selector.split(",")):
        match = _EQUAL.match(part.strip())
        if match is None:
            raise bad_request(f"invalid selector: {selector!r}; can't understand {part!r}")
        path, operator, value = match.groups()
        if path not in allowed:
            raise bad_request(f"field label not supported: {path}")
        tests.append(_field(path.split("."), value, operator != "!="))
    return lambda one: all(test(one) for test in tests)


def _field(path: list[str], value: str, equal: bool) -> Test:
    def test(one: Any) -> bool:
        for part in path:
            one = one.get(part, {})
        found = {True: "true", False: "false"}.get(one, one) if one != {} else ""
        return bool((found == value) == equal)

    return test


def matches(selector: Object | None, found: Labels) -> bool:
    """Say whether labels match a LabelSelector; an empty one matches all, none at all nothing."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if found.get(key) != value:
            return False
    return all(expression(one, found) for one in selector.get("matchExpressions", ()))


def expression(one: Object, found: Labels) -> bool:
    """Say whether labels meet a requirement of a LabelSelector or a NodeSelector."""
    key, operator, values = one["key"], one["operator"], one.get("values", [])
    if operator == "In":
        return found.get(key) in values
    if operator == "NotIn":
        return found.get(key) not in values
    if operator == "Exists":
        return key in found
    if operator == "DoesNotExist":
        return key not in found
    if operator in ("Gt", "Lt") and found.get(key, "").lstrip("-").isdigit():
        number, bound = int(found[key]), int(values[0])
        return number > bound if operator == "Gt" else number < bound
    return False
