# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is said of invalid input, in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def complaint(act: Callable[[], Any]) -> str:
    """Return the message, of one line, of the ValueError that a call raises."""
    try:
        act()
    except ValueError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        return message
    raise AssertionError("it was accepted")
