# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The connection of a process to its coordinator, which may go away and come back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError, WrongSecretError

_BEAT_SECONDS: Final = 0.25
# A coordinator that says nothing for so long is frozen, or cut off.
_SILENT_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.2
# Without a coordinator for so long, people are told.
_LONG_SECONDS: Final = 5.0

Message = dict[str, Any]


class CoordinatorClient:
    """Two threads: one connects and listens, the other tells that this process lives.

    A name is resolved each time anew: another coordinator may have another address.

    Attributes:
        where: HOST:PORT of the coordinator.
        shards: Into how many each batch is cut; 0 before the coordinator has said it.
    """

    def __init__(
        self,
        address: Address,
        secret: bytes,
        lock: AbstractContextManager[object],
        *,
        hello: Callable[[], Message],
        beat: Callable[[], Message],
        heard: Callable[[Message], None],
        absent: Callable[[float], None],
        say: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            address: Of the coordinator.
            secret: Of the training.
            lock: Is held while messages are sent; a thread may take it again.
            hello: Returns all that a coordinator must know of this process.
            beat: Returns what it is told often.
            heard: Is called with each of its messages.
            absent: Is called now and then without a coordinator, with the seconds since there was
                one.
            say: Tells people a sentence.
        """
        self._address, self._secret = address, secret
        self.where = f"{address.host}:{address.port}"
        self._hello, self._beat, self._heard, self._absent = hello, beat, heard, absent
        self._say = say
        self._connection: socket.socket | None = None
        self._lock = lock
        self._over = threading.Event()
        self._hurry = threading.Event()
        self._welcome = threading.Event()
        self._refusal: MeshError | None = None
        self.shards = 0

    def start(self, deadline: float) -> None:
        """Connect, and return once the coordinator has said how many shards there are.

        Raises:
            MeshError: It cannot be reached until `deadline`, or refuses this process.
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
        """Hang up for good."""
        self._over.set()
        self._hang_up()

    def send(self, kind: str, **more: object) -> None:
        """Tell the coordinator something; if there is none, hello will say it all."""
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
                self._absent(seconds)
                self._over.wait(_PAUSE_SECONDS)
                continue
            # Also what cannot be understood: a new connection begins with all that matters.
            with suppress(OSError, EOFError, MeshError, KeyError, TypeError, ValueError):
                self._listen(connection)
            with self._lock:
                self._connection = None
                connection.close()
            since, has_said = time.monotonic(), False

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + messages.GREETING_SECONDS
        connection = messages.connect(self._address, self._secret, deadline)
        # What happens from here on is either in hello or sent after it.
        with self._lock:
            messages.send(connection, {"kind": "hello", **self._hello()}, deadline)
            self._connection = connection
        return connection

    def _listen(self, connection: socket.socket) -> None:
        while not self._over.is_set():
            message = messages.receive(connection, time.monotonic() + _SILENT_SECONDS)
            if message.get("kind") == "welcome":
                self.shards = int(message["shards"])
                self._welcome.set()
            elif message.get("kind") != "beat":
                self._heard(message)

    def hurry(self) -> None:
        """Have the next beat at once; a signal handler may call this."""
        self._hurry.set()

    def _tell_often(self) -> None:
        while not self._over.is_set():
            self._hurry.wait(_BEAT_SECONDS)
            self._hurry.clear()
            self.send("beat", **self._beat())
