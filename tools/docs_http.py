# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MkDocs hook: generates the HTTP reference from the controller's OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

import tf_malleable
from tf_malleable.api.openapi import document

_MARK = "<!-- written by tools/docs_http.py -->"
_SCHEMAS = "#/components/schemas/"

_Json = Mapping[str, Any]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the reference at the mark in the page."""
    if _MARK not in markdown:
        return markdown
    return markdown.replace(_MARK, "\n".join(_reference(document(tf_malleable.__version__))))


def _reference(api: _Json) -> Iterator[str]:
    operations = [each for methods in api["paths"].values() for each in methods.values()]
    always = set.intersection(*(set(each["responses"]) for each in operations)) - {"200"}
    yield "## Requests\n"
    yield "Every request may be refused with one of these. They are not repeated below.\n"
    yield from _answers(operations[0]["responses"], always)
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield f"### {method.upper()} `{path}`\n"
            yield from _operation(operation, set(operation["responses"]) - always)
    yield "\n## Messages\n"
    for name, schema in api["components"]["schemas"].items():
        yield f"### {name} {{ #{name.lower()} }}\n"
        yield from _schema(schema)


def _operation(operation: _Json, statuses: Set[str]) -> Iterator[str]:
    yield f"{operation['summary']}\n"
    parameters = [each for each in operation["parameters"] if each["in"] == "query"]
    if parameters:
        rows = ((each["name"], each["schema"], each["description"]) for each in parameters)
        yield from _table("parameter", rows)
    body = operation.get("requestBody")
    if body:
        yield f"Body: {_content(body['content'])}\n"
    yield from _answers(operation["responses"], statuses)


def _answers(answers: _Json, statuses: Set[str]) -> Iterator[str]:
    yield "| status | meaning | body |\n| --- | --- | --- |"
    for status in sorted(statuses):
        content = answers[status].get("content")
        body = _content(content) if content else "–"
        yield f"| {status} | {answers[status]['description']} | {body} |"
    yield ""


def _schema(schema: _Json) -> Iterator[str]:
    yield f"{schema['description']}\n"
    properties = schema["properties"]
    if properties:
        rows = ((name, each, each.get("description", "")) for name, each in properties.items())
        # Answers always have every field, so "required" is of interest in requests only.
        is_request = schema.get("additionalProperties") is False
        yield from _table(
            "field", rows, set(schema.get("required", ())) if is_request else frozenset()
        )


def _table(
    what: str, rows: Iterator[tuple[str, _Json, str]], required: Set[str] = frozenset()
) -> Iterator[str]:
    yield f"| {what} | type | meaning |\n| --- | --- | --- |"
    for name, schema, description in rows:
        default = schema.get("default")
        note = f" Default: `{_json(default)}`." if default is not None else ""
        if name in required:
            note = " Required."
        yield f"| `{name}` | {_type(schema)} | {description}{note} |"
    yield ""


def _content(content: _Json) -> str:
    return ", ".join(f"{_type(each['schema'])} ({media})" for media, each in content.items())


def _type(schema: _Json) -> str:
    """Return a schema as text, with links to the messages."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SCHEMAS)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{_json(each)}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items') or {'type': 'anything'})}"
    return f"{schema.get('type', 'anything')}{_range(schema)}"


def _range(schema: _Json) -> str:
    lowest = schema.get("minimum", schema.get("minLength"))
    above = schema.get("exclusiveMinimum")
    highest = schema.get("maximum", schema.get("maxLength"))
    low = f"above {above}" if above is not None else "" if lowest is None else f"from {lowest}"
    high = "" if highest is None else f"up to {highest}"
    said = " ".join(part for part in (low, high) if part)
    unit = " characters" if said and schema.get("type") == "string" else ""
    return f", {said}{unit}" if said else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
