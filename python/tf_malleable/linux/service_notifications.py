# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Service notifications to systemd, as in sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def watchdog_seconds() -> float | None:
    """Return the interval of ``"WATCHDOG=1"`` in seconds; None if it is not requested."""
    text = os.environ.get("WATCHDOG_USEC", "")
    is_for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    # Half of the interval that the service manager requires.
    return int(text) / 2e6 if is_for_us and text.isdecimal() and int(text) else None


def notify(state: str) -> None:
    """Send a state such as ``"READY=1"`` to the service manager, if it has requested that."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # An address in the kernel's abstract namespace.
        address = f"\0{address[1:]}"
    # The service must work even if the message cannot be delivered.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(state.encode(), address)


def is_service() -> bool:
    """Return whether a service manager has started this process, as a service of its own."""
    started = os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())
    return started or bool(os.environ.get("NOTIFY_SOCKET"))
