# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is promised exists, what exists is promised or not, and every table has the same labels."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import tf_malleable
from tf_malleable.api.routes import ROUTES
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.cli import main
from tf_malleable.cli.command_modules import LABELS, MATURITY

ROOT = Path(__file__).parents[2]


def rows(page: str, title: str) -> list[list[str]]:
    """Return the cells of the table of a page whose first column has this title."""
    table = (ROOT / page).read_text().partition(f"\n| {title} | ")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def commands() -> set[str]:
    context = click.Context(main.tfm)
    found = {name: main.tfm.get_command(context, name) for name in MATURITY}
    return {name for name, command in found.items() if not command.hidden}


STABILITY = rows("docs/reference/stability.md", "interface")
MATURE = rows("docs/maturity.md", "part")


def test_the_tables_are_found():
    assert len(STABILITY) == 3
    assert len(MATURE) > 10
    assert {row[1] for row in MATURE} == set(LABELS)


@pytest.mark.parametrize(
    ("row", "existing"),
    [
        (0, set(tf_malleable.__all__)),
        (1, commands()),
        (2, {route.path for route in ROUTES}),
    ],
    ids=["Python", "tfm", "HTTP"],
)
def test_each_name_is_said_to_be_stable_or_experimental_once(row, existing):
    stable, experimental = map(codes, STABILITY[row][1:])
    assert stable == sorted(stable)
    assert experimental == sorted(experimental)
    assert sorted(stable + experimental) == sorted(existing)


def test_commands_of_experimental_parts_are_not_promised():
    assert codes(STABILITY[1][2]) == sorted(
        name for name in commands() if MATURITY[name] == "experimental"
    )


def test_what_is_deprecated_still_works():
    text = (ROOT / "docs/reference/stability.md").read_text()
    deprecated = re.search(r"^Deprecated today: (.+?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert deprecated is not None
    old, new, *variables = codes(deprecated[1])
    assert {old, new} <= set(JobStatus.__struct_fields__)
    configuration = (ROOT / "docs/reference/configuration.md").read_text()
    # tests/cli/test_submit.py and test_retries.py read the variables.
    assert len(variables) > 3
    assert [each for each in variables if each not in configuration] == []


def test_the_systems_supported_are_those_of_the_maturity_page():
    systems = {row[0]: row[1:] for row in rows("docs/reference/stability.md", "system")}
    assert len(systems) > 8
    said = (ROOT / "docs/maturity.md").read_text()
    versions = {
        version
        for name in ("TensorFlow", "container engines", "Kubernetes")
        for version in re.findall(r"\d+\.\d+[\w.]*\b", systems[name][0])
    }
    assert len(versions) > 6
    assert {version for version in versions if version not in said} == set()


def test_commands_have_the_labels_of_the_maturity_page():
    said = {name: label for _, label, names, *_ in MATURE for name in codes(names)}
    others = [label for _, label, names, *_ in MATURE if names == "all others"]
    assert len(others) == 1
    assert {**dict.fromkeys(MATURITY, others[0]), **said} == MATURITY


def test_readme_lists_the_parts_of_the_maturity_page():
    parts = [
        (re.sub(r"\[(.+?)\]\(.+?\)", r"\1", part).partition(":")[0], label)
        for part, label, *_ in MATURE
    ]
    assert rows("README.md", "maturity") == [
        [label, "; ".join(part for part, its in parts if its == label)] for label in LABELS
    ]


def test_the_labels_mean_the_same_everywhere():
    text = (ROOT / "docs/maturity.md").read_text()
    for label, meaning in LABELS.items():
        assert f"- **{label.capitalize()}**: {meaning}" in text
