# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tells systemd how far a service is, as sd_notify(3) does."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state, ``"READY=1"`` say, if whoever started this process wants to know."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # In the kernel's abstract namespace.
        address = f"\0{address[1:]}"
    # A service works also if nobody hears about it.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(state.encode(), address)
