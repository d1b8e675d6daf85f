# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MkDocs hook: generates the reference of MalleableJob from its definition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_MARK = "<!-- written by tools/docs_crd.py -->"
_DEFINITION = Path(__file__).parents[1] / "deploy" / "kubernetes" / "base" / "crd.yaml"

_Json = Mapping[str, Any]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the reference at the mark in the page."""
    if _MARK not in markdown:
        return markdown
    return markdown.replace(_MARK, "\n".join(reference(_DEFINITION)))


def reference(definition: Path) -> Iterator[str]:
    """Return the reference, line by line."""
    (version,) = yaml.safe_load(definition.read_text())["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        yield f"## {part}\n"
        yield f"{properties[part]['description']}\n"
        yield "| field | type | default | meaning |\n| --- | --- | --- | --- |"
        for path, schema, required in _fields(properties[part], ""):
            said = " ".join(_meaning(schema).split())
            default = "required" if required else _default(schema)
            yield f"| `{path}` | {_type(schema)} | {default} | {said} |"
        yield ""


def _fields(schema: _Json, path: str) -> Iterator[tuple[str, _Json, bool]]:
    needed = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        yield inner, below, name in needed
        yield from _fields(below, inner)
        if below.get("type") == "array":
            yield from _fields(below["items"], f"{inner}[]")


def _default(schema: _Json) -> str:
    found = schema.get("default")
    return "" if found is None or found == {} else f"`{json.dumps(found)}`"


def _type(schema: _Json) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = str(schema["type"])
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low} … {high}"
    return {"array": "list", "date-time": "time"}.get(schema.get("format", kind), kind)


def _meaning(schema: _Json) -> str:
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    said = str(schema.get("description", "")).replace("|", "\\|")
    return f"{said} *{'; '.join(rules)}.*" if rules else said
