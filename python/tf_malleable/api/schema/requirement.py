# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Controller requirement: whether programs may run without a controller on this host."""

from __future__ import annotations

import os

VARIABLE = "TF_MALLEABLE_REQUIRE_CONTROLLER"
SITE_FILE = "/etc/tf_malleable/require-controller"
"""If this file exists, no program runs without a controller on this host."""


def is_controller_required(*, asked_for: bool = False) -> bool:
    """Return whether a controller is required by an option, the variable or the site's file.

    Args:
        asked_for: Whether the option requires one.

    Raises:
        ValueError: TF_MALLEABLE_REQUIRE_CONTROLLER is neither 0 nor 1.
    """
    text = os.environ.get(VARIABLE, "")
    if text not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} must be 0 or 1, not {text!r}")
    return asked_for or text == "1" or os.path.lexists(SITE_FILE)


def reason(problem: str) -> str:
    """Return the error message of a program that may not run without a controller.

    Args:
        problem: Reason why the program would run without one.
    """
    return f"{problem}, and a controller is required here"
