# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What an API server answers instead of doing what it was asked: a Status with its causes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.kubernetes.resources import Resource

Object = dict[str, Any]


class RefusedError(Exception):
    """A request that was refused, as the Status that says so."""

    def __init__(
        self, code: int, reason: str, message: str, details: Object | None = None, retry: int = 0
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}
        self.retry_after = retry

    def status(self) -> Object:
        """Return the Status object."""
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
        status |= {"status": "Failure", "message": self.message, "reason": self.reason}
        details = dict(self.details)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return status | ({"details": details} if details else {}) | {"code": self.code}


@dataclass(frozen=True)
class Cause:
    """What is wrong with one field."""

    field: str
    reason: str
    message: str


def required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{f': {why}' if why else ''}")


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {json.dumps(value)}: {why}")


def forbidden(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {json.dumps(value)}")


def unsupported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    values = ", ".join(json.dumps(one) for one in allowed)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {values}"
    return Cause(field, "FieldValueNotSupported", message)


def _details(resource: Resource, name: str, **more: Any) -> Object:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> RefusedError:
    message = f'{resource.qualified} "{name}" not found'
    return RefusedError(404, "NotFound", message, _details(resource, name))


def already_exists(resource: Resource, name: str) -> RefusedError:
    message = f'{resource.qualified} "{name}" already exists'
    return RefusedError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> RefusedError:
    changed = "the object has been modified; please apply your changes to the latest version "
    why = why or changed + "and try again"
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return RefusedError(409, "Conflict", message, _details(resource, name))


def unprocessable(resource: Resource, name: str, causes: Sequence[Cause]) -> RefusedError:
    """Return the 422 that names every field that is wrong."""
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    text = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
    details = _details(resource, name, causes=[vars(cause) for cause in causes])
    details["kind"] = resource.kind
    qualified = resource.kind + (f".{resource.group}" if resource.group else "")
    return RefusedError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def not_allowed_here(resource: Resource, name: str, why: str, **more: Any) -> RefusedError:
    """Return the 403 of an admission plug-in."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return RefusedError(403, "Forbidden", message, _details(resource, name, **more))


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)


def unauthorized() -> RefusedError:
    return RefusedError(401, "Unauthorized", "Unauthorized")


def expired(asked: int, oldest: int) -> RefusedError:
    return RefusedError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def method_not_allowed() -> RefusedError:
    message = "the server does not allow this method on the requested resource"
    return RefusedError(405, "MethodNotAllowed", message)


def no_such_path() -> RefusedError:
    return RefusedError(404, "NotFound", "the server could not find the requested resource")


def media_type(accepted: Sequence[str]) -> RefusedError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return RefusedError(415, "UnsupportedMediaType", message + ", ".join(accepted))
