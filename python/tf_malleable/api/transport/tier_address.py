# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Paths of the sockets and files of this node's data tier."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TIER_SOCKET: Final = "TF_MALLEABLE_TIER_SOCKET"
# Socket of a tier for the whole node.
ROOT_TIER_SOCKET: Final = "/run/tf_malleable-tier/tier.sock"
SHIM: Final = Path(__file__).parents[2] / "runtime" / "libtf_malleable_tier.so"
"""Path of the shim library, which readers preload and the daemon calls."""


def default_tier_socket() -> Path:
    """Return the socket at which a reader looks for the tier.

    That is TF_MALLEABLE_TIER_SOCKET, or else the standard path of the user's own tier. If the
    latter does not exist, it is the socket of the whole node's tier, provided that this user
    may write to it.
    """
    own = own_tier_socket()
    is_chosen = bool(os.environ.get(TIER_SOCKET))
    if is_chosen or own.exists() or not os.access(ROOT_TIER_SOCKET, os.W_OK):
        return own
    return Path(ROOT_TIER_SOCKET)


def own_tier_socket() -> Path:
    """Return where a tier that this user starts listens for readers by default."""
    chosen = os.environ.get(TIER_SOCKET)
    if chosen:
        return Path(chosen)
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable-tier", "tier.sock")
    if os.getuid() == 0:
        return Path(ROOT_TIER_SOCKET)
    return Path(f"/tmp/tf_malleable-tier-{os.getuid()}/tier.sock")


def control_socket(socket: Path) -> Path:
    """Return the control socket of the tier whose readers connect to this socket."""
    return socket.with_name(socket.name + ".control")


def reader_file(socket: Path) -> Path:
    """Return the file with the reader settings of the tier at this socket."""
    return socket.with_name(socket.name + ".reader")


def counts_folder(socket: Path) -> Path:
    """Return the folder of the jobs' read counter files."""
    return socket.with_name(socket.name + ".jobs")
