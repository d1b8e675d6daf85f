# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Default location of the state file."""

from __future__ import annotations

import os
from pathlib import Path


def default_state() -> Path:
    """Return the default path of the state file.

    The file is in $XDG_STATE_HOME if that is set to an absolute path; otherwise in /var/lib
    for root, and in ~/.local/state for other users.
    """
    home = os.environ.get("XDG_STATE_HOME", "")
    if home.startswith("/"):  # The XDG specification declares relative paths invalid.
        directory = Path(home)
    elif os.geteuid() == 0:
        directory = Path("/var/lib")
    else:
        directory = Path.home() / ".local" / "state"
    return directory / "tf_malleable" / "controller.db"
