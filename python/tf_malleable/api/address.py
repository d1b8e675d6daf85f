# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the controller listens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SOCKET: Final = "TF_MALLEABLE_SOCKET"


def default_socket() -> Path:
    """Return the controller's socket where no other was named.

    That is TF_MALLEABLE_SOCKET, or else the user's own place: below $XDG_RUNTIME_DIR,
    for root in /run, for others in /tmp.
    """
    if chosen := os.environ.get(SOCKET):
        return Path(chosen)
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable", "controller.sock")
    if os.getuid() == 0:
        return Path("/run/tf_malleable/controller.sock")
    return Path(f"/tmp/tf_malleable-{os.getuid()}/controller.sock")
