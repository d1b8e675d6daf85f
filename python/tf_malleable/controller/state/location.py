# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the state file is by default."""

from __future__ import annotations

import os
from pathlib import Path


def default_state() -> Path:
    """Return the default path of the state file.

    It is in $XDG_STATE_HOME if that is set; otherwise in /var/lib for root, and in
    ~/.local/state for other users.
    """
    home = os.environ.get("XDG_STATE_HOME", "")
    if home.startswith("/"):  # The XDG specification declares relative paths invalid.
        directory = Path(home)
    elif os.geteuid() == 0:
        directory = Path("/var/lib")
    else:
        directory = Path.home() / ".local" / "state"
    return directory / "tf_malleable" / "controller.db"
