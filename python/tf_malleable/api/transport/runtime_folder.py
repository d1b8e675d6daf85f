# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runtime folder: where the sockets of a user's own services are by default.

It is never in a folder in which another user could create it first.
"""

from __future__ import annotations

import os
import stat


def runtime_folder(service: str) -> str:
    """Return the folder of this user for the sockets of a service on this node.

    That is in $XDG_RUNTIME_DIR, or else in /run/user/UID, which systemd creates at a login. Without
    these, it is in $XDG_STATE_HOME or ~/.local/state, under the node's name: nodes may share homes.
    The folder need not exist.

    Args:
        service: Name of the folder.
    """
    own = f"/run/user/{os.getuid()}"
    if runtime := _absolute("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, service)
    state, home = _absolute("XDG_STATE_HOME"), os.path.expanduser("~")
    if _is_closed(own) or not (state or home.startswith("/")):
        return os.path.join(own, service)
    state = state or os.path.join(home, ".local", "state")
    return os.path.join(state, service, os.uname().nodename)


def _absolute(variable: str) -> str:
    # The XDG specification declares relative paths invalid.
    path = os.environ.get(variable, "")
    return path if path.startswith("/") else ""


def _is_closed(folder: str) -> bool:
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return about.st_uid == os.getuid() and about.st_mode == stat.S_IFDIR | 0o700
