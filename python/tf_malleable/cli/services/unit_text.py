# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Text of the controller's systemd unit: the shipped one, with the command that runs this tfm."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Final

from tf_malleable.model import OperationError

_HEAD: Final = (
    "# Written by tfm service install; its options are changed by calling that again.\n\n"
)
_SHIPPED: Final = "ExecStart=/usr/bin/env tfm controller\n"


def unit_text(system: bool, program: Iterable[str], options: Iterable[str]) -> str:
    """Return the unit, without the shipped one's notes on how to install it.

    Args:
        system: True for the machine's, False for a user's own.
        program: The command that runs tfm.
        options: Options of tfm controller.

    Raises:
        OperationError: The command cannot be written in a unit.
    """
    units = resources.files("tf_malleable.cli.services") / "units"
    shipped = (units / f"{'system' if system else 'user'}.service").read_text()
    command = " ".join(_quoted(word) for word in (*program, "controller", *options))
    before, found, after = shipped.partition(_SHIPPED)
    assert found
    _, section, rest = f"{before}ExecStart={command}\n{after}".partition("[Unit]\n")
    return _HEAD + section + rest


def is_ours(text: str) -> bool:
    """Return whether a unit was written by tfm service install."""
    return text.startswith(_HEAD)


def _quoted(word: str) -> str:
    """Return a word as systemd.service(5) wants it in a command line.

    Raises:
        OperationError: It contains what cannot be written there.
    """
    if not word.isprintable():
        raise OperationError(f"a unit cannot contain {word!r}: it has unprintable characters")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped == word and word and not set(word) & set(" ';#") else f'"{escaped}"'
