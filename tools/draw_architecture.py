#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draw the import contracts of pyproject.toml as docs/images/architecture.svg.

The picture is drawn from what `lint-imports` checks, so the two always agree. The same
contracts give the same bytes; --check writes nothing, and fails if they differ.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
CONTRACTS = ROOT / "pyproject.toml"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

# Pixels.
WIDTH = 760
MARGIN = 20
BOX_HEIGHT = 34
ROW_GAP = 14
BOX_GAP = 10
LINE = 19
HEADING = 30

STYLE = """
.page { fill: #ffffff } .box { fill: #e8eaf6; stroke: #5c6bc0 } .arrow { stroke: #5c6bc0 }
.head { fill: #5c6bc0 } text { font: 14px system-ui, sans-serif; fill: #212121 }
.title { font-weight: 600 } .name { text-anchor: middle } .note { fill: #616161; font-size: 12px }
.names { font-family: ui-monospace, monospace; font-size: 13px }
@media (prefers-color-scheme: dark) {
.page { fill: #1e2129 } .box { fill: #2c3250; stroke: #9fa8da } .arrow { stroke: #9fa8da }
.head { fill: #9fa8da } text { fill: #eceff1 } .note { fill: #b0bec5 } }
"""


@dataclass(frozen=True)
class Layers:
    """A contract of type "layers".

    Attributes:
        title: Its name.
        floors: The modules of each layer, from the highest to the lowest.
        apart: For each layer, whether its modules must not import each other.
    """

    title: str
    floors: tuple[tuple[str, ...], ...]
    apart: tuple[bool, ...]


@dataclass(frozen=True)
class Forbidden:
    """A contract of type "forbidden".

    Attributes:
        title: Its name.
        sources: Modules that must not import the targets.
        targets: The modules that they must not import.
    """

    title: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]


def read(text: str) -> list[Layers | Forbidden]:
    """Return the contracts that can be drawn, in the order of the file.

    Raises:
        ValueError: There are none.
    """
    settings = tomllib.loads(text).get("tool", {}).get("importlinter", {})
    roots = settings.get("root_packages") or [settings.get("root_package", "")]
    found: list[Layers | Forbidden] = []
    for contract in settings.get("contracts", ()):
        title = contract["name"]
        if contract["type"] == "layers":
            found.append(_layers(title, contract, roots))
        elif contract["type"] == "forbidden":
            sources, targets = contract["source_modules"], contract["forbidden_modules"]
            found.append(Forbidden(title, _short(sources, roots), _short(targets, roots)))
    if not found:
        raise ValueError("pyproject.toml has no layers or forbidden contract of import-linter")
    return found


def _layers(title: str, contract: dict[str, Any], roots: Sequence[str]) -> Layers:
    floors, apart = [], []
    for layer in contract["layers"]:
        modules = [module.strip(" ()") for module in re.split(r"[|:]", layer)]
        floors.append(_short(modules, [*contract.get("containers", ()), *roots]))
        apart.append("|" in layer)
    return Layers(title, tuple(floors), tuple(apart))


def _short(modules: Sequence[str], packages: Sequence[str]) -> tuple[str, ...]:
    """Return the names of modules without the package that contains them."""
    shortened = []
    for module in modules:
        inside = (package for package in packages if module.startswith(f"{package}."))
        longest = max(inside, key=len, default="")
        shortened.append(module[len(longest) + 1 :] if longest else module)
    return tuple(shortened)


def draw(contracts: Sequence[Layers | Forbidden]) -> str:
    """Return the picture, as SVG."""
    shapes: list[str] = []
    top = MARGIN
    for contract in contracts:
        if isinstance(contract, Layers):
            drawn, top = _draw_layers(contract, top)
            shapes += drawn
    rules = [contract for contract in contracts if isinstance(contract, Forbidden)]
    if rules:
        drawn, top = _draw_rules(rules, top)
        shapes += drawn
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            "<title>What may import what in tf_malleable</title>",
            f"<style>{STYLE}</style>",
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker>',
            f'<rect class="page" width="{WIDTH}" height="{top}" rx="8"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _draw_layers(contract: Layers, top: int) -> tuple[list[str], int]:
    """Return a contract's shapes, and the top of the next one."""
    shapes = [_text(MARGIN, top + 14, "title", contract.title)]
    y = top + HEADING
    first = y
    left = MARGIN + 26
    for modules, apart in zip(contract.floors, contract.apart, strict=True):
        width = (WIDTH - MARGIN - left - BOX_GAP * (len(modules) - 1)) / len(modules)
        for number, name in enumerate(modules):
            x = left + number * (width + BOX_GAP)
            shapes.append(
                f'<rect class="box" x="{x:g}" y="{y}" width="{width:g}" height="{BOX_HEIGHT}"'
                ' rx="5"/>'
            )
            shapes.append(_text(x + width / 2, y + BOX_HEIGHT / 2 + 5, "name", name))
            if number and not apart:
                middle = y + BOX_HEIGHT / 2
                shapes.append(_line(x - BOX_GAP, middle, x, middle))
        y += BOX_HEIGHT + ROW_GAP
    last = y - ROW_GAP
    shapes.append(_line(MARGIN + 8, first, MARGIN + 8, last, ' marker-end="url(#head)"'))
    return shapes, last + HEADING


def _line(x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line class="arrow" stroke-width="1.5" {ends}{more}/>'


def _draw_rules(rules: Sequence[Forbidden], top: int) -> tuple[list[str], int]:
    shapes = [_text(MARGIN, top + 14, "title", "Never, whatever the floor")]
    y = top + HEADING
    for rule in rules:
        shapes.append(_text(MARGIN, y + 14, "note", rule.title))
        y += LINE
        for line in _wrapped(rule):
            shapes.append(_text(MARGIN + 14, y + 14, "names", line))
            y += LINE
        y += 8
    return shapes, y + 8


def _wrapped(rule: Forbidden) -> Iterator[str]:
    """Yield a rule in lines that fit."""
    most = (WIDTH - 2 * MARGIN) // 8 - 4
    line = ""
    words = [f"{name}," for name in rule.sources[:-1]]
    words += [rule.sources[-1], "↛", *(f"{name}," for name in rule.targets[:-1]), rule.targets[-1]]
    for word in words:
        if line and len(line) + 1 + len(word) > most:
            yield line
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def main() -> int:
    """Draw the picture, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only compare with the present picture"
    )
    arguments = parser.parse_args()
    try:
        picture = draw(read(CONTRACTS.read_text(encoding="utf-8")))
    except ValueError as error:
        print(f"draw_architecture: {error}", file=sys.stderr)
        return 1
    if not arguments.check:
        PICTURE.write_text(picture, encoding="utf-8")
    elif not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != picture:
        name = PICTURE.relative_to(ROOT)
        print(f"draw_architecture: {name} is out of date: run 'make docs'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
