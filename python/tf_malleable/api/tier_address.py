# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the tier of this node is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TIER_SOCKET: Final = "TF_MALLEABLE_TIER_SOCKET"
# Of a tier for the whole node.
ROOT_TIER_SOCKET: Final = "/run/tf_malleable-tier/tier.sock"
SHIM: Final = Path(__file__).parents[1] / "runtime" / "libtf_malleable_tier.so"
"""The library that is loaded into readers in front of libc; it also has what the daemon calls."""


def default_tier_socket() -> Path:
    """Return where a reader looks for the tier: TF_MALLEABLE_TIER_SOCKET or the standard path.

    That is the user's own, or else that of the whole node if it is there.
    """
    own = own_tier_socket()
    is_chosen = bool(os.environ.get(TIER_SOCKET))
    if is_chosen or own.exists() or not os.access(ROOT_TIER_SOCKET, os.W_OK):
        return own
    return Path(ROOT_TIER_SOCKET)


def own_tier_socket() -> Path:
    """Return where a tier that this user starts listens for readers, if not told."""
    chosen = os.environ.get(TIER_SOCKET)
    if chosen:
        return Path(chosen)
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable-tier", "tier.sock")
    if os.getuid() == 0:
        return Path(ROOT_TIER_SOCKET)
    return Path(f"/tmp/tf_malleable-tier-{os.getuid()}/tier.sock")


def control_socket(socket: Path) -> Path:
    """Return where people ask the tier whose readers ask at this socket."""
    return socket.with_name(socket.name + ".control")


def reader_file(socket: Path) -> Path:
    """Return the file with what a reader must know of the tier at this socket."""
    return socket.with_name(socket.name + ".reader")


def counts_folder(socket: Path) -> Path:
    """Return the folder of the files in which jobs add up what they have read."""
    return socket.with_name(socket.name + ".jobs")
