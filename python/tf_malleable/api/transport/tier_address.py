# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Paths of the sockets and files of this node's data tier."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tf_malleable.api.transport.runtime_folder import runtime_folder
from tf_malleable.linux.trusted_folder import TrustedFolder

TIER_SOCKET: Final = "TF_MALLEABLE_TIER_SOCKET"
# Socket of a tier for the whole node.
ROOT_TIER_SOCKET: Final = "/run/tf_malleable-tier/tier.sock"
SHIM: Final = Path(__file__).parents[2] / "runtime" / "libtf_malleable_tier.so"
"""Path of the shim library, which readers preload and the daemon calls."""


def default_tier_socket() -> Path:
    """Return the socket at which a reader looks for the tier.

    That is TF_MALLEABLE_TIER_SOCKET, or else the socket of root's tier if this user may write to
    it, or else that of the user's own tier.
    """
    if not os.environ.get(TIER_SOCKET) and _is_roots(Path(ROOT_TIER_SOCKET)):
        return Path(ROOT_TIER_SOCKET)
    return own_tier_socket()


def own_tier_socket() -> Path:
    """Return where a tier that this user starts listens for readers by default."""
    chosen = os.environ.get(TIER_SOCKET)
    if chosen:
        return Path(chosen)
    if os.getuid() == 0:
        return Path(ROOT_TIER_SOCKET)
    return Path(runtime_folder("tf_malleable-tier"), "tier.sock")


def control_socket(socket: Path) -> Path:
    """Return the control socket of the tier whose readers connect to this socket."""
    return socket.with_name(socket.name + ".control")


def state_file(socket: Path) -> Path:
    """Return the file by which the tier at this socket tells readers what it has."""
    return socket.with_name(socket.name + ".state")


def endpoint_file(socket: Path) -> Path:
    """Return the file with the URLs of the S3 endpoint of this tier, and of its S3 service."""
    return socket.with_name(socket.name + ".s3")


def counts_folder(socket: Path) -> Path:
    """Return the folder of the jobs' read counter files."""
    return socket.with_name(socket.name + ".jobs")


def _is_roots(socket: Path) -> bool:
    """Return whether a socket is in a folder of root's, and may be written to."""
    if not os.access(socket, os.W_OK):
        return False
    try:
        with TrustedFolder(socket.parent, strict=True):
            return True
    except OSError:
        return False
