# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the pages say to type can be typed, and what they show is so."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tf_malleable.api.schema.grant_line import GrantLine

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = {
    target
    for line in re.findall(r"^([\w./%-]+(?: [\w./%-]+)*):(?!=)", MAKEFILE, re.MULTILINE)
    for target in line.split()
}
FOLDERS = (".", ".github", "deploy/docker", "docs", "docs/*", "patches")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/*.md"))


def calls_of_make(text: str) -> list[list[str]]:
    """Return the arguments of each make in code spans and at prompts."""
    calls = re.findall(r"(?:`|^\$ |&& )make ([^`#&\n]+)", text, re.MULTILINE)
    return [call.rstrip("\\").split() for call in calls]


def is_target(word: str) -> bool:
    return any(re.fullmatch(re.escape(each).replace("%", ".+"), word) for each in TARGETS)


def test_pages_and_targets_are_found():
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/benchmarks.md", "docs/how-to/containers.md"} <= (
        names
    )
    assert {"demo", "cc-test-%", ".venv/installed-test"} <= TARGETS
    assert not is_target("nothing")
    text = "`make a`, make no b.\n$ make c D=1 \\\n$ cd x && make d   # e\n`make f --g …`"
    assert calls_of_make(text) == [["a"], ["c", "D=1"], ["d"], ["f", "--g", "…"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_make_names_a_target_and_no_options(page):
    """Make takes options for its own, and so refuses `make bench-many --only a`."""
    calls = calls_of_make(page.read_text())
    words = [word for call in calls for word in call if "=" not in word]
    assert [word for word in words if not is_target(word)] == []


def test_the_front_page_of_the_documentation_links_to_every_page():
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"README.md"}
    assert len(pages) > 30
    linked = re.findall(r"\]\((?!\.\./)([^)#]+\.md)\)", (docs / "README.md").read_text())
    assert set(linked) == pages
    assert len(linked) == len(pages), "a page is linked to twice"


def quoted_messages(page: str) -> list[str]:
    """Return what the first columns of a page's tables quote: code of more than a word.

    Commands that a reader types are left out.
    """
    firsts = re.findall(r"^\| (.+?) \| ", page, re.MULTILINE)
    spans = [span for first in firsts for span in re.findall(r"`([^`]+)`", first)]
    return [
        span for span in spans if " " in span and not re.fullmatch(r"(tfm|make)( [\w-]+)+", span)
    ]


def strings(program: str) -> list[str]:
    """Return the strings of a program, with … in place of each value; without docstrings."""
    tree = ast.parse(program)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        if isinstance(node, ast.JoinedStr)
        else node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in docstrings
        )
    ]


def test_quotes_and_strings_are_found():
    page = "| `a b c d: …`, or `tfm jobs`, `word` | cause | `x x x x` |\n`e f g h`"
    assert quoted_messages(page) == ["a b c d: …"]
    program = "def f():\n    'Says.'\n    raise ValueError(f'a {x!r}' ' b')"
    assert "a … b" in strings(program)
    assert "Says." not in strings(program)


PUT_TOGETHER = (
    "no controller answers at …, running alone",
    "no tier at … (other users may write to …)",
    "once TensorFlow has started, … must be an integer from 0 to …, not …",
)
"""Messages whose parts are in several files."""


@pytest.mark.slow
def test_the_messages_of_the_troubleshooting_page_are_those_of_the_program():
    """The parts between two … stand in strings of one file."""
    folders = ("python", "examples", "benchmarks")
    programs = [path for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")]
    files = [strings(program.read_text()) for program in programs]
    files += [[script.read_text()] for script in ROOT.glob("python/tf_malleable/web/static/*.js")]
    quoted = quoted_messages((ROOT / "docs/how-to/troubleshooting.md").read_text())
    assert len(quoted) > 50

    def says(texts: list[str], part: str) -> bool:
        return any(part in text for text in texts)

    unknown = []
    for quote in quoted:
        parts = [part.strip(" ,;:()") for part in quote.split("…")]
        whole = [[text for texts in files for text in texts]] if quote in PUT_TOGETHER else files
        if not any(all(says(texts, part) for part in parts) for texts in whole):
            unknown.append(quote)
    assert unknown == []


def test_nobody_is_told_to_install_it_from_pypi_which_does_not_have_it():
    """A clone is installed, as README says: pip install ."""
    said = re.compile(r"pip install [^`\n]*\btf_malleable\b")
    files = [*PAGES, *ROOT.glob("python/**/*.py")]
    assert len(files) > 100
    assert [file for file in files if said.search(file.read_text())] == []


def test_the_folders_of_make_check_are_named():
    checked = re.search(r"^CHECKED = (.+)$", MAKEFILE, re.MULTILINE)
    assert checked is not None
    *folders, last = (f"`{folder}`" for folder in checked[1].split())
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert f"the tests in {', '.join(folders)} and {last} (`CHECKED`" in text


def test_the_grant_shown_has_the_fields_that_are_sent():
    page = (ROOT / "docs/reference/http.md").read_text()
    sample = re.search(r"^\{.*\}$", page, re.MULTILINE)
    assert sample is not None
    line = json.loads(sample[0])
    assert list(line) == [field.name for field in fields(GrantLine)]
    assert isinstance(GrantLine.read(line), GrantLine)
