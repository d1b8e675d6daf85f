# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The address of the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SOCKET: Final = "TF_MALLEABLE_SOCKET"


def default_socket() -> Path:
    """Return the controller's socket if none is given.

    That is TF_MALLEABLE_SOCKET, or else a path below $XDG_RUNTIME_DIR, or else one in
    /run for root and in /tmp for other users.
    """
    if chosen := os.environ.get(SOCKET):
        return Path(chosen)
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable", "controller.sock")
    if os.getuid() == 0:
        return Path("/run/tf_malleable/controller.sock")
    return Path(f"/tmp/tf_malleable-{os.getuid()}/controller.sock")
