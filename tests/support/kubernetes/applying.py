# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server-side apply: who owns which field, what is merged, what conflicts.

Owners are those that have applied. A field that somebody has written otherwise belongs to "an
update", whoever that was: a real server knows its manager, too, and shows all in managedFields.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.kubernetes import patching
from tests.support.kubernetes.refusals import RefusedError, bad_request
from tests.support.kubernetes.resources import Resource

Object = dict[str, Any]
Path = tuple[str, ...]
Fields = dict[Path, Any]
Keys = Callable[[Path], tuple[str, ...] | None]

CONTENT_TYPE = "application/apply-patch+yaml"
_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


class Owners:
    """What was applied, by objects and by those that applied it."""

    def __init__(self) -> None:
        self._applied: dict[str, dict[str, Fields]] = {}

    def of(self, uid: str) -> dict[str, Fields]:
        """Return the fields that each manager has applied of an object."""
        return self._applied.setdefault(uid, {})


def check(body: Any, manager: str) -> None:
    """Check what any apply must have.

    Raises:
        RefusedError: It has not.
    """
    if not manager:
        why = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required '
        raise RefusedError(422, "Invalid", why + "for apply patch")
    if not isinstance(body, dict) or not (body.get("apiVersion") and body.get("kind")):
        raise bad_request("an apply patch must have apiVersion and kind")
    if "managedFields" in body.get("metadata", {}):
        raise bad_request("metadata.managedFields must be nil")
    if not body.get("metadata", {}).get("name"):
        raise bad_request("an apply patch must have metadata.name")


def merged(
    resource: Resource, live: Object, body: Object, owned: dict[str, Fields], manager: str
) -> Object:
    """Return an object with what is applied, and without what its manager applies no longer."""
    keys = _keys(resource)
    mine = fields(resource, body)
    result = _merge(copy.deepcopy(live), copy.deepcopy(body), (), keys)
    others = [path for name, found in owned.items() if name != manager for path in found]
    kept = {path[:end] for path in (*mine, *others) for end in range(1, len(path) + 1)}
    for path in owned.get(manager, {}):
        # With the last that owns something of a list's element, all of that goes.
        elements = [end for end, part in enumerate(path, 1) if part.startswith("[")]
        gone = [path[:end] for end in (*elements, len(path)) if path[:end] not in kept]
        if gone:
            _remove(result, gone[0])
    return result


def conflicts(
    resource: Resource, live: Object, body: Object, owned: dict[str, Fields], manager: str
) -> dict[Path, str]:
    """Return whose fields a manager would change."""
    now = fields(resource, live)
    found: dict[Path, str] = {}
    for path, value in fields(resource, body).items():
        if path not in now or now[path] == value:
            continue
        others = [name for name, theirs in owned.items() if name != manager and path in theirs]
        if others:
            found[path] = f'"{others[0]}"'
        elif owned.get(manager, {}).get(path) != now[path]:
            found[path] = '"an update"'
    return found


def refusal(found: dict[Path, str]) -> RefusedError:
    """Return the 409 that names all conflicts."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": _text(path)}
        for path, who in found.items()
    ]
    said = ", ".join(f"conflict with {who}: {_text(path)}" for path, who in found.items())
    count = f"{len(found)} conflict{'s' if len(found) > 1 else ''}"
    message = f"Apply failed with {count}: {said}"
    return RefusedError(409, "Conflict", message, {"causes": causes})


def fields(resource: Resource, item: Object) -> Fields:
    """Return the values of all leaves of an object, by their paths, but for its identity."""
    keys = _keys(resource)
    return {path: value for path, value in _leaves(item, (), keys) if path not in _IDENTITY}


def _leaves(value: Any, path: Path, keys: Keys) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _leaves(one, (*path, f".{name}" if path else name), keys)
    elif isinstance(value, list) and keys(path) is not None:
        for one in value:
            yield from _leaves(one, (*path, _element(one, keys(path) or ())), keys)
    else:
        yield path, value


def _element(one: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"[={json.dumps(one)}]"
    if any(key not in one for key in keys[:1]):
        raise bad_request(f"associative list with keys has an element that omits key {keys[0]!r}")
    return "[" + ",".join(f"{key}={json.dumps(one.get(key))}" for key in keys) + "]"


def _text(path: Path) -> str:
    return "." + "".join(path)


def _keys(resource: Resource) -> Keys:
    """Return what says by which keys a list is merged; by none if it is a set; None: it is not."""

    def built_in(path: Path) -> tuple[str, ...] | None:
        names = tuple(part.lstrip(".") for part in path if not part.startswith("["))
        if names[:2] == ("spec", "template") and resource.group == "apps":
            names = names[2:]
        if names not in patching.PATCH_KEYS:
            return None
        key = patching.PATCH_KEYS[names]
        return () if key is None else (key,)

    def custom(path: Path) -> tuple[str, ...] | None:
        assert resource.custom is not None
        schema = resource.custom.schema
        if path[0] == "metadata":
            return built_in(path)
        for part in path:
            if part.startswith("["):
                schema = schema.get("items", {})
            else:
                properties = schema.get("properties", {})
                others = schema.get("additionalProperties")
                below = properties.get(part.lstrip("."), others)
                schema = below if isinstance(below, dict) else {}
        kind = schema.get("x-kubernetes-list-type", "atomic")
        if kind == "atomic":
            return None
        return tuple(schema["x-kubernetes-list-map-keys"]) if kind == "map" else ()

    return built_in if resource.custom is None else custom


def _merge(live: Any, applied: Any, path: Path, keys: Keys) -> Any:
    if isinstance(live, dict) and isinstance(applied, dict):
        for name, one in applied.items():
            inner = (*path, f".{name}" if path else name)
            live[name] = _merge(live.get(name), one, inner, keys)
        return live
    found = keys(path) if path else None
    if isinstance(live, list) and isinstance(applied, list) and found is not None:
        names = {_element(one, found): index for index, one in enumerate(live)}
        for one in applied:
            name = _element(one, found)
            if name in names:
                live[names[name]] = _merge(live[names[name]], one, (*path, name), keys)
            else:
                live.append(one)
        return live
    return applied


def _remove(holder: Any, path: Path) -> None:
    """Take away what is at a path, if it is there, and what is empty then."""
    first, rest = path[0], path[1:]
    if isinstance(holder, dict):
        name = first.lstrip(".")
        if name in holder and rest:
            _remove(holder[name], rest)
        if name in holder and (not rest or holder[name] in ({}, [])):
            del holder[name]
    elif isinstance(holder, list):
        for one in [each for each in holder if _is(each, first)]:
            if rest:
                _remove(one, rest)
            else:
                holder.remove(one)


def _is(one: Any, element: str) -> bool:
    """Say whether this is the element of a list that a part of a path names."""
    if element.startswith("[="):
        return element == _element(one, ())
    keys = tuple(part.partition("=")[0] for part in element.strip("[]").split(","))
    return all(key in one for key in keys) and element == _element(one, keys)
