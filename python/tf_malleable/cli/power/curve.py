# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Default file of a host's power curve."""

from __future__ import annotations

from pathlib import Path

from tf_malleable.controller.state.location import default_state


def default_curve() -> Path:
    """Return the default path of the power curve, beside the state file."""
    return default_state().parent / "power-curve.json"
