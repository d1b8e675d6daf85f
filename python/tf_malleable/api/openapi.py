# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenAPI document, generated from the routes and the message types."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import msgspec

from tf_malleable.api.routes import JSON, REFUSALS, ROUTES, Route
from tf_malleable.api.schema.messages import Problem

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)$", re.MULTILINE)

# Refusals that are possible on every path: invalid parameters, unknown caller, internal error,
# too many connections.
_ALWAYS = (400, 403, 500, 503)


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a controller of this version."""
    kinds = {Problem}.union(*(_kinds(route) for route in ROUTES))
    ordered = sorted(kinds, key=str)
    schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tf_malleable controller",
            "version": version,
            "description": "Divides the CPUs of a host among malleable TensorFlow jobs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://localhost", "description": "Over the Unix socket."}],
        "paths": paths,
        "components": {
            "schemas": {name: _described(schema) for name, schema in components.items()}
        },
    }


def _kinds(route: Route) -> set[Any]:
    return {kind for kind in (route.body, *route.answers.values()) if kind is not None}


def _operation(route: Route, known: dict[Any, Any]) -> dict[str, Any]:
    answers = {
        str(status): {
            "description": "Done." if kind is None else _title(kind) or route.summary,
            **({} if kind is None else {"content": _content(route.media, known[kind])}),
        }
        for status, kind in route.answers.items()
    }
    refusals = sorted({*_ALWAYS, *route.refusals, *((408, 413) if route.body else ())})
    operation = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": answers
        | {
            str(status): {
                "description": REFUSALS[status],
                "content": _content(JSON, known[Problem]),
            }
            for status in refusals
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(JSON, known[route.body])}
    return operation


def _content(media: str, schema: object) -> dict[str, Any]:
    return {media: {"schema": schema}}


def _title(kind: object) -> str:
    """Return the first line of a message type's description."""
    is_message = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return cleandoc(kind.__doc__ or "").partition("\n")[0] if is_message else ""


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{id}" in route.path:
        found.append(
            {
                "name": "id",
                "in": "path",
                "required": True,
                "description": "A job's id.",
                "schema": {"type": "string", "minLength": 1},
            }
        )
    if route.query is not None:
        _, components = msgspec.json.schema_components([route.query])
        schema = _described(components[route.query.__name__])
        for name, values in schema["properties"].items():
            description = values.pop("description")
            found.append(
                {"name": name, "in": "query", "description": description, "schema": values}
            )
    return found


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the docstring's attributes as descriptions of its properties."""
    text, _, attributes = cleandoc(schema["description"]).partition("\n\nAttributes:\n")
    properties = {name: dict(values) for name, values in schema["properties"].items()}
    for name, description in _ATTRIBUTE.findall(attributes):
        properties[name]["description"] = " ".join(description.split())
    return schema | {"description": text, "properties": properties}
