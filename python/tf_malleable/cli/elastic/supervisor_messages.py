# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Dialogue between a training's supervisor and its coordinator."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError

_PAUSE_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 0.3
_LONG_SECONDS: Final = 3600.0


@dataclass
class Numbers:
    """Desired and allowed numbers of workers and servers.

    Attributes:
        workers: Desired number of workers.
        least: Minimum number of workers.
        most: Maximum number of workers.
        servers: Desired number of servers.
        most_servers: Maximum number of servers.
        can_decide: True if a controller's grants decide the number of workers, unless `by_hand`.
        by_hand: True if the number of workers was set explicitly.
    """

    workers: int
    least: int
    most: int
    servers: int
    most_servers: int
    can_decide: bool = False
    by_hand: bool = False


class Dialogue:
    """Connection to the coordinator, in a thread of its own, which reopens it when it breaks."""

    def __init__(self, numbers: Numbers, secret: bytes) -> None:
        """Create the dialogue; start() connects.

        Args:
            numbers: Numbers to send; updated with what the coordinator sends.
            secret: Secret of the training.
        """
        self._numbers, self._secret = numbers, secret
        self._address: Address | None = None
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._status: Mapping[str, Any] = {}

    def start(self, address: Address) -> None:
        """Use the coordinator at this address; the first call starts the threads."""
        is_first, self._address = self._address is None, address
        if is_first:
            for target in (self._run, self._ask_often):
                threading.Thread(target=target, daemon=True).start()

    def stop(self) -> None:
        """Request no more workers, and close the connection."""
        self._over.set()
        with self._lock, suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    @property
    def status(self) -> Mapping[str, Any]:
        """Latest status from the coordinator; empty before the first and after a disconnect."""
        return self._status

    def tell(self) -> None:
        """Send the numbers after they have changed on this side."""
        self._send({"kind": "supervise", **vars(self._numbers)})

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock, suppress(OSError):
            if self._connection is not None:
                messages.send_now(self._connection, message)

    def _ask_often(self) -> None:
        while not self._over.wait(_ASK_SECONDS):
            self._send({"kind": "status"})

    def _run(self) -> None:
        while not self._over.is_set():
            assert self._address is not None
            with suppress(OSError, EOFError, MeshError, KeyError, TypeError, ValueError):
                deadline = time.monotonic() + messages.GREETING_SECONDS
                connection = messages.connect(self._address, self._secret, deadline)
                with self._lock:
                    self._connection = connection
                self.tell()
                while not self._over.is_set():
                    self._hear(messages.receive(connection, time.monotonic() + _LONG_SECONDS))
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                self._connection, self._status = None, {}
            self._over.wait(_PAUSE_SECONDS)

    def _hear(self, message: Mapping[str, Any]) -> None:
        if message.get("kind") == "wanted":
            self._numbers.servers = int(message["servers"])
            self._numbers.by_hand = bool(message["by_hand"])
            if self._numbers.by_hand or not self._numbers.can_decide:
                self._numbers.workers = int(message["workers"])
        elif message.get("kind") == "status":
            self._status = message
