# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Code blocks of a page, and what invisible comments before a block say of running it."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNABLE = frozenset({"console", "bash", "sh", "shell", "python"})

_BLOCK = re.compile(
    r"(?P<before>(?:^ *<!--.*?-->\s*)*)^(?P<indent> *)```(?P<language>\w*)"
    r'(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$',
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_DIRECTIVE = re.compile(
    r"(?P<verb>not run|run before|interrupted after)(?: \((?P<only>[^)]+)\))?:\s*(?P<words>.*)",
    re.DOTALL,
)
_PROMPT = re.compile(r"[a-z]*\$ (.*)")


@dataclass(frozen=True)
class Command:
    """What follows a prompt, and what the page shows below it."""

    text: str
    shown: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    """Lines that are typed to the program: those after Python's prompts."""


@dataclass(frozen=True)
class Block:
    """A code block with a language.

    These comments before a block count:

    - `not run: REASON`, or of some commands only, `not run (FIRST WORDS): REASON`;
    - `run before: TEXT`, in the block's language, such as to make a file that a reader has;
    - `interrupted after: TEXT`: the last command does not end on its own, and gets Ctrl-C once it
      has printed this.
    """

    language: str
    title: str | None
    text: str
    line: int
    comments: tuple[str, ...]

    def said(self, verb: str) -> list[tuple[str | None, str]]:
        """Return what comments with this verb are about, None for all, and what they say."""
        found = (_DIRECTIVE.fullmatch(comment) for comment in self.comments)
        return [(each["only"], each["words"]) for each in found if each and each["verb"] == verb]

    def reason(self, command: str = "") -> str | None:
        """Return why a command of this block is not run; None if it is."""
        for only, why in self.said("not run"):
            if only is None or command.startswith(only):
                return why
        return None

    @property
    def is_run(self) -> bool:
        """Whether it is commands or a program, rather than a file or a picture of text."""
        return self.language in RUNNABLE and self.title is None


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page that name a language."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            each["language"],
            each["title"],
            re.sub(f"^{each['indent']}", "", each["text"], flags=re.MULTILINE),
            text.count("\n", 0, each.start("indent")) + 1,
            tuple(_COMMENT.findall(each["before"])),
        )
        for each in _BLOCK.finditer(text)
        if each["language"]
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a block in order; without prompts, all of it is one."""
    if block.language != "console":
        return [Command(block.text)]
    found: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        prompt = _PROMPT.fullmatch(line)
        if prompt is not None:
            text = prompt[1]
            while text.endswith("\\"):
                text += "\n" + next(lines)
            found.append(Command(text))
        elif not found:
            raise ValueError(f"line {block.line}: output before the first prompt")
        else:
            last = found.pop()
            if line.startswith((">>> ", "... ")) or line in (">>>", "..."):
                last = Command(last.text, last.shown, (*last.typed, line[4:]))
            elif line.strip():
                last = Command(last.text, (*last.shown, line), last.typed)
            found.append(last)
    return found


_UNITS = frozenset({"s", "ms", "W", "J", "g", "g.", "MB", "GB", "KB"})
_MONTHS = frozenset(calendar.month_abbr) - {""}
_USERS = frozenset({"ada", "root"})


def missing(shown: tuple[str, ...], printed: str) -> str | None:
    """Return the first line of a page that is not among the lines printed; None if all are.

    The lines shown must be printed in this order, and others may be between. Their words must be
    the same, but in place of a word with a digit, of one without a letter, of a path, a unit, a
    month or the user `ada` or `root`, there may be any words. `…` stands for anything.
    """
    lines = iter(printed.splitlines())
    for each in shown:
        pattern = _pattern(each)
        if not any(pattern.fullmatch(line.strip()) for line in lines):
            return each
    return None


def _pattern(line: str) -> re.Pattern[str]:
    parts: list[str] = []
    for word in line.split():
        if _varies(word):
            if parts[-1:] != [".+"]:
                parts.append(".+")
        else:
            parts.append(".*".join(map(re.escape, word.split("…"))))
    return re.compile(r"\s+".join(parts))


def _varies(word: str) -> bool:
    word = word.strip("(),")
    has_digit = any(letter.isdigit() for letter in word)
    has_letter = any(letter.isalpha() for letter in word)
    return has_digit or not has_letter or word.startswith("/") or word in _UNITS | _MONTHS | _USERS
