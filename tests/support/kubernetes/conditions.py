# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Conditions of a status."""

from __future__ import annotations

from typing import Any

from tests.support.kubernetes.metadata import now

Object = dict[str, Any]


def condition(kind: str, status: str, reason: str = "", message: str = "", **more: Any) -> Object:
    """Return a condition, which has no time yet."""
    said = {"reason": reason, "message": message}
    return {"type": kind, "status": status, **{k: v for k, v in said.items() if v}, **more}


def find(status: Object, kind: str) -> Object | None:
    """Return the condition of a type."""
    found = status.get("conditions", ())
    return next((one for one in found if one["type"] == kind), None)


def is_true(status: Object, kind: str) -> bool:
    found = find(status, kind)
    return found is not None and found["status"] == "True"


def with_condition(status: Object, new: Object) -> Object:
    """Return a status with a condition, whose time is when its status changed."""
    old = find(status, new["type"])
    same = old is not None and old["status"] == new["status"]
    at = old["lastTransitionTime"] if same and old else now()
    dated = {"lastProbeTime": None, "lastTransitionTime": at, **new}
    others = [one for one in status.get("conditions", ()) if one["type"] != new["type"]]
    return {**status, "conditions": [*others, dated]}


def without(status: Object, kind: str) -> Object:
    """Return a status without conditions of a type."""
    kept = [one for one in status.get("conditions", ()) if one["type"] != kind]
    return {**status, "conditions": kept}
