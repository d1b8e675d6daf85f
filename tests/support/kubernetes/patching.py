# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Patches: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.

A strategic merge goes into lists whose elements have a key: PATCH_KEYS, from the
patchMergeKey tags of the API's types.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.support.kubernetes.refusals import RefusedError, bad_request

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

# Where a list is merged, by which key; None for lists of plain values. All others are replaced.
PATCH_KEYS: dict[tuple[str, ...], str | None] = {
    ("metadata", "finalizers"): None,
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "containers", "env"): "name",
    ("spec", "containers", "ports"): "containerPort",
    ("spec", "containers", "volumeMounts"): "mountPath",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "ports"): "port",
    ("spec", "schedulingGates"): "name",
    ("spec", "template", "spec", "containers"): "name",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "volumes"): "name",
    ("status", "addresses"): "type",
    ("status", "conditions"): "type",
    ("status", "podIPs"): "ip",
}
_ORDER, _DELETE, _RETAIN = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


def apply(content_type: str, target: Any, patch: Any) -> Any:
    """Return a patched copy.

    Raises:
        RefusedError: The patch is malformed, or a test of it fails.
    """
    if content_type == JSON:
        if not isinstance(patch, list):
            raise bad_request("a JSON patch is a list of operations")
        return json_patch(target, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch is an object")
    if content_type == MERGE:
        return merge(target, patch)
    return strategic(target, patch, ())


def merge(target: Any, patch: Any) -> Any:
    """Return a copy with a merge patch applied."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic(target: Any, patch: Any, path: tuple[str, ...]) -> Any:
    """Return a copy with a strategic merge patch applied to what is at a path."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return merge({}, patch) if isinstance(patch, dict) else copy.deepcopy(patch)
    patch = dict(patch)
    directive = patch.pop("$patch", "merge")
    if directive == "replace":
        return copy.deepcopy(patch)
    if directive == "delete":
        return {}
    merged = dict(target)
    if _RETAIN in patch:
        kept = patch.pop(_RETAIN)
        merged = {name: value for name, value in merged.items() if name in kept}
    for name, value in patch.items():
        if name.startswith((_ORDER, _DELETE)):
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, list) and (*path, name) in PATCH_KEYS:
            merged[name] = _merge_list(merged.get(name, []), value, (*path, name))
        else:
            merged[name] = strategic(merged.get(name), value, (*path, name))
    for name, value in patch.items():
        if name.startswith(_DELETE):
            plain = name.removeprefix(_DELETE)
            merged[plain] = [one for one in merged.get(plain, []) if one not in value]
        elif name.startswith(_ORDER):
            plain = name.removeprefix(_ORDER)
            merged[plain] = _ordered(merged.get(plain, []), value, PATCH_KEYS.get((*path, plain)))
    return merged


def _merge_list(target: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    key = PATCH_KEYS[path]
    if key is None:
        return [*target, *(one for one in patch if one not in target)]
    if any(one.get("$patch") == "replace" for one in patch):
        return [copy.deepcopy(one) for one in patch if "$patch" not in one]
    merged = {one[key]: one for one in target}
    for one in patch:
        if key not in one:
            raise bad_request(f"map: {one} does not contain declared merge key: {key}")
        if one.get("$patch") == "delete":
            merged.pop(one[key], None)
        else:
            merged[one[key]] = strategic(merged.get(one[key], {}), one, path)
    return list(merged.values())


def _ordered(found: list[Any], order: list[Any], key: str | None) -> list[Any]:
    def place(one: Any) -> int:
        wanted = [item[key] for item in order] if key else order
        value = one[key] if key else one
        return wanted.index(value) if value in wanted else len(wanted)

    return sorted(found, key=place)


def json_patch(target: Any, operations: list[Any]) -> Any:
    """Return a copy with the operations of a JSON patch applied, all or none."""
    patched = {"": copy.deepcopy(target)}
    for operation in operations:
        try:
            _operate(patched, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            why = f"the server rejected our request due to an error in our request: {error}"
            raise RefusedError(422, "Invalid", why) from error
    return patched[""]


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _operate(root: Any, operation: dict[str, Any]) -> None:
    name, path = operation["op"], _pointer(operation["path"])
    if name == "add":
        _add(root, path, copy.deepcopy(operation["value"]))
    elif name == "remove":
        _remove(root, path)
    elif name == "replace":
        _remove(root, path)
        _add(root, path, copy.deepcopy(operation["value"]))
    elif name == "move":
        _add(root, path, _remove(root, _pointer(operation["from"])))
    elif name == "copy":
        _add(root, path, copy.deepcopy(_read(root, _pointer(operation["from"]))))
    elif name == "test":
        try:
            found = _read(root, path)
        except (KeyError, IndexError):
            found = None  # A test for null holds where there is nothing.
        if found != operation["value"]:
            raise ValueError(f"testing value {operation['path']} failed")
    else:
        raise ValueError(f"unexpected kind of operation: {name}")


def _index(holder: list[Any], part: str, *, end: bool) -> int:
    if part == "-" and end:
        return len(holder)
    index = int(part)
    if not 0 <= index < len(holder) + end:
        raise IndexError(f"index {part} is out of range")
    return index


def _read(holder: Any, path: list[str]) -> Any:
    for part in path:
        holder = holder[_index(holder, part, end=False) if isinstance(holder, list) else part]
    return holder


def _add(root: Any, path: list[str], value: Any) -> None:
    holder = _read(root, path[:-1])
    if isinstance(holder, list):
        holder.insert(_index(holder, path[-1], end=True), value)
    elif isinstance(holder, dict):
        holder[path[-1]] = value
    else:
        raise TypeError(f"nothing can be added to {holder!r}")


def _remove(root: Any, path: list[str]) -> Any:
    holder = _read(root, path[:-1])
    if isinstance(holder, list):
        return holder.pop(_index(holder, path[-1], end=False))
    return holder.pop(path[-1])
