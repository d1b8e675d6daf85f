# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Client of a training's coordinator, which may go away and come back."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError, WrongSecretError

_BEAT_SECONDS: Final = 0.25
# A coordinator that is silent for this long is frozen, or cut off.
_SILENT_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.2
# After this long without a coordinator, the user is told.
_LONG_SECONDS: Final = 5.0

Message = dict[str, Any]


@dataclass(frozen=True)
class ClientHandlers:
    """What the client calls, in its threads.

    Attributes:
        hello: Returns all that a coordinator must know of this process.
        beat: Returns the contents of a heartbeat.
        heard: Called with each message of the coordinator except welcome and heartbeats.
        absent: Called repeatedly while there is no coordinator, with the seconds since there
            was one.
    """

    hello: Callable[[], Message]
    beat: Callable[[], Message]
    heard: Callable[[Message], None]
    absent: Callable[[float], None]


class CoordinatorClient:
    """Connection to the coordinator: one thread connects and listens, another sends heartbeats.

    Each attempt resolves the name anew: another coordinator may have another address.

    Attributes:
        where: HOST:PORT of the coordinator.
        shards: Number of shards of each batch; 0 before the coordinator has sent it.
    """

    def __init__(
        self,
        address: Address,
        secret: bytes,
        lock: AbstractContextManager[object],
        handlers: ClientHandlers,
        say: Callable[[str], None],
    ) -> None:
        """Create the client; start() connects.

        Args:
            address: Address of the coordinator.
            secret: Secret of the training.
            lock: Reentrant lock, held while messages are sent.
            handlers: What to call.
            say: Prints a sentence for the user.
        """
        self._address, self._secret = address, secret
        self.where = f"{address.host}:{address.port}"
        self._handlers, self._say = handlers, say
        self._connection: socket.socket | None = None
        self._lock = lock
        self._over = threading.Event()
        # A signal handler puts into it: no lock that its thread may hold, unlike an Event's.
        self._hurry: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._welcome = threading.Event()
        self._refusal: MeshError | None = None
        self.shards = 0

    def start(self, deadline: float) -> None:
        """Connect, and return once the coordinator has said how many shards there are.

        Raises:
            MeshError: No coordinator answers before `deadline`, or it refuses this process.
        """
        for target in (self._run, self._tell_often):
            threading.Thread(target=target, name="tf_malleable_elastic", daemon=True).start()
        while not self._welcome.wait(0.05):
            if self._refusal is not None:
                self.stop()
                raise self._refusal
            if time.monotonic() > deadline:
                self.stop()
                raise MeshError(f"no coordinator of an elastic training answers at {self.where}")

    def stop(self) -> None:
        """Close the connection for good."""
        self._over.set()
        self._hang_up()

    def send(self, kind: str, **more: object) -> None:
        """Send a message; without a connection, the next hello has all of it."""
        with self._lock, suppress(OSError):
            if self._connection is not None:
                messages.send_now(self._connection, {"kind": kind, **more})

    def _hang_up(self) -> None:
        with self._lock, suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        since, has_said = time.monotonic(), False
        while not self._over.is_set():
            try:
                connection = self._connect()
            except (OSError, EOFError, MeshError) as error:
                if isinstance(error, WrongSecretError):
                    self._refusal = error
                seconds = time.monotonic() - since
                if seconds >= _LONG_SECONDS and not has_said:
                    has_said = True
                    self._say(f"no coordinator answers at {self.where}: tries again and again")
                self._handlers.absent(seconds)
                self._over.wait(_PAUSE_SECONDS)
                continue
            # Also after a malformed message: a new connection begins with all that matters.
            with suppress(OSError, EOFError, MeshError, KeyError, TypeError, ValueError):
                self._listen(connection)
            with self._lock:
                self._connection = None
                connection.close()
            since, has_said = time.monotonic(), False

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + messages.GREETING_SECONDS
        connection = messages.connect(self._address, self._secret, deadline)
        # Under the lock: any later change is either in hello or sent after it.
        with self._lock:
            messages.send(connection, {"kind": "hello", **self._handlers.hello()}, deadline)
            self._connection = connection
        return connection

    def _listen(self, connection: socket.socket) -> None:
        while not self._over.is_set():
            message = messages.receive(connection, time.monotonic() + _SILENT_SECONDS)
            if message.get("kind") == "welcome":
                self.shards = int(message["shards"])
                self._welcome.set()
            elif message.get("kind") != "beat":
                self._handlers.heard(message)

    def hurry(self) -> None:
        """Send the next heartbeat at once; a signal handler may call this, also one within it."""
        self._hurry.put(None)

    def _tell_often(self) -> None:
        while not self._over.is_set():
            with suppress(queue.Empty):
                self._hurry.get(timeout=_BEAT_SECONDS)
            self.send("beat", **self._handlers.beat())
