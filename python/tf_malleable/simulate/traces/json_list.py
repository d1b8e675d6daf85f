# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Incremental reader of a JSON list, as a list may be larger than the memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

_CHUNK: Final = 1 << 16
# Characters. An element that does not end within this length is malformed.
_LONGEST: Final = 1 << 24
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def each_element(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a list, each with the number of its first line.

    Raises:
        ValueError: The file cannot be read or is not a JSON list; the message says where.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from _elements(_Text(path, file))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeError:
        raise ValueError(f"{path} is not a text file") from None


def _elements(text: _Text) -> Iterator[tuple[int, Any]]:
    text.expect("[", "a trace must be a JSON list of jobs")
    if text.peek() == "]":
        text.take()
    else:
        while True:
            text.peek()
            yield text.line, text.element()
            if (
                text.expect(",]", "jobs must be separated by commas, and the list end with ]")
                == "]"
            ):
                break
    if text.peek():
        raise text.error("nothing may come after the list of jobs")


class _Text:
    """The unread rest of a file, of which a part is in memory."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.line = 1
        self._path = path
        self._file = file
        self._text = ""
        self._at = 0

    def error(self, what: str, lines: int = 0) -> ValueError:
        return ValueError(f"{self._path}, line {self.line + lines}: {what}")

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._go_to(space.end() if space else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read():
                return ""

    def take(self) -> None:
        """Move to the next character."""
        self._go_to(self._at + 1)

    def expect(self, letters: str, what: str) -> str:
        """Take the next character, which must be one of `letters`; `what` describes them."""
        found = self.peek()
        if not found or found not in letters:
            raise self.error(f"{what}, not {found!r}" if found else f"{what}, but the file ends")
        self.take()
        return found

    def element(self) -> object:
        """Return the element that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                lines = self._text.count("\n", self._at, error.pos)
                if len(self._text) - self._at > _LONGEST or not self._read():
                    said = error.msg[0].lower() + error.msg[1:]
                    raise self.error(f"malformed JSON: {said}", lines) from None
            except (RecursionError, ValueError):
                raise self.error(
                    "a job must not be nested so deeply, or have such numbers"
                ) from None
            else:
                self._go_to(end)
                return value

    def _go_to(self, position: int) -> None:
        self.line += self._text.count("\n", self._at, position)
        self._at = position

    def _read(self) -> bool:
        """Read more; return whether there was any."""
        rest = self._text[self._at :]
        # Read as much again as is left, so that a long element is not decoded in vain too often.
        more = self._file.read(max(_CHUNK, len(rest)))
        self._text, self._at = rest + more, 0
        return bool(more)
