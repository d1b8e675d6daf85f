# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Coordinator: the process that plans the generations of one training.

A thread for each connection puts the messages into one queue; one thread decides. It takes all
that has arrived before it decides anything. After a stall of its own, in which the processes have
given up their connections, it waits for them to come back before it takes them for dead.
"""

from __future__ import annotations

import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tf_malleable.elastic.generation import incarnation
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.links.strangers import Strangers
from tf_malleable.elastic.membership.coordination import Coordination
from tf_malleable.elastic.membership.phases import Over
from tf_malleable.elastic.membership.status import WantedNumbers, status, steps_done
from tf_malleable.elastic.membership.throughput import StepRate
from tf_malleable.linux import standard_error
from tf_malleable.model.units import quoted

# A process that is silent for this long is frozen, or cut off.
SILENT_SECONDS: Final = 1.5
BEAT_SECONDS: Final = 0.25
_TICK_SECONDS: Final = 0.05
# How long processes that come after the end are told that there is nothing left to do.
_LATE_SECONDS: Final = 60.0

_Event = tuple[str, int, dict[str, Any]]


def say(sentence: str) -> None:
    """Print a sentence for the user."""
    standard_error.say(f"tfm elastic: {sentence}")


class Coordinator:
    """Listens for the processes of a training, and sends them the decisions."""

    def __init__(
        self, listener: socket.socket, secret: bytes, shards: int, *, first_seconds: float
    ) -> None:
        """Create the coordinator; serve() starts it.

        Args:
            listener: Listening TCP socket.
            secret: Secret of the training.
            shards: Number of shards of each batch.
            first_seconds: Time in which no training begins, as one may be running, in seconds.
        """
        self._listener, self._secret = listener, secret
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._connections: dict[int, socket.socket] = {}
        self._ids: dict[int, str] = {}
        self._latest: dict[str, int] = {}
        self._heard: dict[int, float] = {}
        # Connections that were closed while their processes may be about to connect again.
        self._closed: list[int] = []
        self._awake_at = time.monotonic()
        self._patient_until = 0.0
        self._strangers = Strangers()
        self._serial = 0
        self._wanted, self._rate = WantedNumbers(), StepRate()
        self._core = Coordination(
            shards,
            time.monotonic(),
            time.time,
            lambda: secrets.token_hex(8),
            first_seconds,
            incarnation(secrets.randbits(32)),
        )

    def serve(self, stopping: Callable[[], bool]) -> None:
        """Coordinate until `stopping` returns True, or no process comes for long after the end."""
        threading.Thread(target=self._accept, daemon=True).start()
        beat_at = end_at = self._awake_at = time.monotonic()
        while not stopping():
            self._take_all()
            now = time.monotonic()
            self._notice_stall(now)
            self._find_silent(now)
            self._core.state.is_replacement_due = self._wanted.is_short(self._core.state)
            for id_, message in self._core.decide(now):
                self._tell(self._latest.get(id_), message)
            if now >= beat_at:
                beat_at = now + BEAT_SECONDS
                self._note_rate(now)
                for serial in list(self._ids):
                    self._tell(serial, {"kind": "beat"})
            while self._core.state.notices:
                say(self._core.state.notices.pop(0))
            is_over = isinstance(self._core.state.phase, Over) and not self._core.state.everybody
            if not is_over or self._wanted.supervisors:
                end_at = now + _LATE_SECONDS
            elif now >= end_at:
                break
        self._listener.close()

    @property
    def has_processes(self) -> bool:
        """Whether any process of the training is connected."""
        return bool(self._core.state.everybody)

    # Connections.

    def _note_rate(self, now: float) -> None:
        """Note the steps done, once a worker of the current generation has reported them.

        A coordinator that has just restarted knows older numbers, from before its restart.
        """
        state = self._core.state
        current = state.current
        known = [one for one in state.everybody.values() if one.is_worker and one.has_reported]
        if current is not None and any(current.member(one.id) for one in known):
            steps, are_batches = steps_done(state)
            self._rate.add(now, steps, are_batches=are_batches)

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            self._strangers.add(connection)
            self._serial += 1
            threading.Thread(
                target=self._hear, args=(connection, address[0], self._serial), daemon=True
            ).start()

    def _hear(self, connection: socket.socket, host: str, serial: int) -> None:
        try:
            try:
                deadline = time.monotonic() + messages.GREETING_SECONDS
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                messages.accept(connection, self._secret, deadline)
                message = messages.receive(connection, deadline)
            finally:
                self._strangers.remove(connection)
            self._connections[serial] = connection
            while True:
                self._events.put(("said", serial, message))
                message = messages.receive(connection, time.monotonic() + 3600)
        except MeshError as error:
            say(f"refused a connection from {host}: {error}")
        except EOFError:
            pass
        except OSError as error:
            if serial not in self._connections:
                say(f"refused a connection from {host}: {error.strerror or error}")
        # The sending thread closes it: its descriptor could be reused for another connection.
        self._connections.setdefault(serial, connection)
        self._events.put(("closed", serial, {}))

    def _tell(self, serial: int | None, message: dict[str, Any]) -> None:
        connection = None if serial is None else self._connections.get(serial)
        if connection is None:
            return
        try:
            messages.send_now(connection, message)
        except OSError:
            self._hang_up(serial)

    def _hang_up(self, serial: int | None) -> None:
        connection = self._connections.get(serial or 0)
        if connection is not None:
            with suppress(OSError):  # Wakes the thread that reads it.
                connection.shutdown(socket.SHUT_RDWR)

    def _notice_stall(self, now: float) -> None:
        """After a stall of this process, give the others time: their messages are still unread."""
        if now - self._awake_at >= SILENT_SECONDS / 2:
            self._heard = dict.fromkeys(self._heard, now)
            self._patient_until = now + SILENT_SECONDS
        self._awake_at = now

    def _find_silent(self, now: float) -> None:
        if now >= self._patient_until:
            closed, self._closed = self._closed, []
            for serial in closed:
                self._close(serial, now)
        for serial, heard in list(self._heard.items()):
            if now - heard > SILENT_SECONDS:
                self._close(serial, now)
                self._hang_up(serial)

    # Events.

    def _take_all(self) -> None:
        with suppress(queue.Empty):
            event = self._events.get(timeout=_TICK_SECONDS)
            self._notice_stall(time.monotonic())
            while True:
                self._take(*event)
                if event[0] == "closed":
                    return  # The next status request must see what is done about it.
                event = self._events.get_nowait()

    def _take(self, kind: str, serial: int, message: dict[str, Any]) -> None:
        now = time.monotonic()
        try:
            if kind == "closed":
                if now < self._patient_until:
                    self._heard.pop(serial, None)
                    self._closed.append(serial)
                else:
                    self._close(serial, now)
                self._connections.pop(serial).close()
                self._wanted.supervisors.discard(serial)
            elif message.get("kind") == "hello":
                self._core.joined(message, now)
                id_ = str(message["id"])
                self._ids[serial], self._latest[id_], self._heard[serial] = id_, serial, now
                self._tell(serial, {"kind": "welcome", "shards": self._core.state.shards})
            elif serial in self._ids:
                self._heard[serial] = now
                self._core.told(self._ids[serial], message, now)
            else:
                self._ask(serial, message)
        except (KeyError, TypeError, ValueError) as error:
            say(f"a process said something that cannot be understood: {quoted(error)}")
            self._hang_up(serial)

    def _close(self, serial: int, now: float) -> None:
        self._heard.pop(serial, None)
        id_ = self._ids.pop(serial, None)
        # The process may have connected again meanwhile.
        if id_ is not None and self._latest.get(id_) == serial:
            del self._latest[id_]
            self._core.left(id_, now)

    def _ask(self, serial: int, message: dict[str, Any]) -> None:
        """Answer a client that is not a process of the training."""
        kind = message["kind"]
        if kind == "status":
            known = status(self._core.state, self._wanted, self._rate.steps_per_second())
            self._tell(serial, {"kind": "status", **known})
        elif kind == "supervise":
            self._wanted.supervise(serial, message)
            self._tell(serial, {"kind": "wanted", **self._wanted.as_json()})
        elif kind == "set":
            problem = self._wanted.change(message, self._core.state.shards)
            self._tell(serial, {"kind": "answer", "problem": problem})
            for each in self._wanted.supervisors:
                self._tell(each, {"kind": "wanted", **self._wanted.as_json()})
        else:
            raise ValueError(f"unknown request {quoted(kind)}")
