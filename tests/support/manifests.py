# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Renders kustomizations and Helm charts: the parts of both that deploy/kubernetes uses.

What these do not know they refuse. kubectl and helm render the same, where they are installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.kubernetes import patching, schema

Object = dict[str, Any]
_ACTION = re.compile(r"^\s*\{\{- (.+) \}\}$")
_VALUE = re.compile(r"\{\{ (.+?) \}\}")


def documents(text: str) -> list[Object]:
    """Return the objects of a YAML stream."""
    return [item for item in yaml.safe_load_all(text) if item]


def kustomized(folder: Path) -> list[Object]:
    """Return the objects of a kustomization."""
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(said) <= {"apiVersion", "kind", "resources", "patches"}, said
    items: list[Object] = []
    for name in said["resources"]:
        path = folder / name
        items += kustomized(path) if path.is_dir() else documents(path.read_text())
    for one in said.get("patches", ()):
        assert set(one) == {"patch"}, one
        patch = yaml.safe_load(one["patch"])
        about = patch["kind"], patch["metadata"]["name"]
        places = [i for i, x in enumerate(items) if (x["kind"], x["metadata"]["name"]) == about]
        (place,) = places
        if patch.get("$patch") == "delete":
            del items[place]
        else:
            items[place] = patching.strategic(items[place], patch, ())
    return items


def chart(folder: Path, namespace: str, **values: Any) -> list[Object]:
    """Return the objects of a chart's templates, for a release in a namespace."""
    about = yaml.safe_load((folder / "Chart.yaml").read_text())
    known = yaml.safe_load((folder / "values.yaml").read_text()) | values
    rules = json.loads((folder / "values.schema.json").read_text())
    problems = [f"{one.field}: {one.message}" for one in schema.validate(known, rules)]
    problems += [f"{path}: unknown" for path in schema.prune(known, rules, root=False)[1]]
    if problems:
        raise ValueError("; ".join(problems))
    names = {
        "Chart": {"AppVersion": about["appVersion"]},
        "Release": {"Namespace": namespace},
        "Values": known,
    }
    items: list[Object] = []
    for path in sorted((folder / "templates").glob("*.yaml")):
        items += documents(_rendered(path.read_text(), names))
    return items


def _rendered(text: str, names: Mapping[str, Any]) -> str:
    """Return a template with its actions carried out; each is alone in its line, or a value."""
    made: list[str] = []
    # Of each block around a line: whether it is shown, and what "." is.
    blocks: list[tuple[bool, Any]] = []
    for line in text.splitlines():
        action = _ACTION.match(line)
        if action is not None:
            words = action[1].split(maxsplit=1)
            if words[0] in ("if", "with"):
                value = _value(words[1], names)
                blocks.append((bool(value), value))
            elif words == ["else"]:
                blocks.append((not blocks.pop()[0], None))
            elif words == ["end"]:
                blocks.pop()
            elif all(shown for shown, _ in blocks):
                made += _block(action[1], names, blocks[-1][1] if blocks else None)
        elif all(shown for shown, _ in blocks):
            made.append(_VALUE.sub(lambda found: str(_value(found[1], names)), line))
    assert not blocks, blocks
    return "\n".join(made)


def _block(text: str, names: Mapping[str, Any], dot: Any) -> list[str]:
    found = re.fullmatch(r"toYaml (\S+) \| nindent (\d+)", text)
    assert found is not None, text
    value = dot if found[1] == "." else _value(found[1], names)
    return [" " * int(found[2]) + line for line in yaml.safe_dump(value).splitlines()]


def _value(text: str, names: Mapping[str, Any]) -> Any:
    more = re.fullmatch(r"gt \(int (\S+)\) (\d+)", text)
    if more is not None:
        return int(_value(more[1], names)) > int(more[2])
    if text.endswith(" | quote"):
        return json.dumps(str(_value(text.removesuffix(" | quote"), names)))
    first, _, default = text.partition(" | default ")
    assert re.fullmatch(r"(\.\w+)+", first), text
    found: Any = names
    for name in first.strip(".").split("."):
        found = found[name]
    return _value(default, names) if default and not found else found
