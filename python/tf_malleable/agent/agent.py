# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The thread in the job that keeps in touch with the controller.

It is a guest: it takes no signal, prints nothing, lets no error out, does not
outlive the interpreter and does not follow into forked children. Without a
controller the job goes on with its last grant.
"""

from __future__ import annotations

import atexit
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tf_malleable.agent import steps
from tf_malleable.agent.guest import start_without_signals
from tf_malleable.agent.session import Session, connection_to, report_at_exit
from tf_malleable.api.connection import Connection
from tf_malleable.api.join import Join

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
# A connection that lasted so long was a good one.
_GOOD_SECONDS: Final = 1.0
# At exit we wait so long for the thread, which has nothing to do but to notice.
_EXIT_SECONDS: Final = 1.0


class Agent:
    """Keeps one job in touch with its controller, in a thread of its own."""

    def __init__(self, join: Join, connection: Connection, session: Session | None = None) -> None:
        """Prepare an agent.

        Args:
            join: The job.
            connection: To its controller; ours from now on.
            session: A session that is open already.
        """
        self._join = join
        self._connection = connection
        self._session = session
        self._path: str | None = None
        self._over = threading.Event()
        # Not random's own numbers: the program may count on their sequence.
        self._random = random.Random()
        self._thread = threading.Thread(target=self._run, name="tf_malleable", daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: No thread can be started.
        """
        start_without_signals(self._thread)

    def stop(self) -> None:
        """Let the thread end, wait a moment for it, and report for the last time."""
        self._over.set()
        self._connection.abort()
        self._thread.join(_EXIT_SECONDS)
        if self._path is not None:
            with suppress(Exception):
                report_at_exit(self._join, self._path)

    def forget(self) -> None:
        """Let go of what a forked child has inherited."""
        self._connection.forget()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            with suppress(Exception):
                if self._attend():
                    pause = _FIRST_PAUSE
            with suppress(Exception):
                self._connection.close()
            self._rest(pause * self._random.uniform(0.8, 1.2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _attend(self) -> bool:
        """Stay in touch as long as it goes; return whether that was for a while."""
        session, self._session = self._session, None
        if session is None:
            session = Session.rejoin(self._connection, self._join)
        self._path = session.path
        begin = time.monotonic()
        with suppress(Exception):
            session.serve(self._over.is_set)
        return time.monotonic() - begin >= _GOOD_SECONDS

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._over.wait(min(left, steps.look_for_keras())):
                return


class _Place:
    """Where the agent of this process is, if it has one."""

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self.lock = threading.Lock()
        self.watched = False

    def watch(self) -> None:
        """Be told when the process forks or ends."""
        if not self.watched:
            self.watched = True
            os.register_at_fork(after_in_child=self.forget)
            atexit.register(self.stop)

    def forget(self) -> None:
        """Have no agent in a forked child."""
        agent, self.agent = self.agent, None
        self.lock = threading.Lock()
        if agent is not None:
            agent.forget()

    def stop(self) -> None:
        """End the agent before the interpreter ends, which could not do it well."""
        if self.agent is not None:
            self.agent.stop()


_place = _Place()


@contextmanager
def alone() -> Iterator[bool]:
    """Keep other threads from starting an agent; yield whether there is one already."""
    with _place.lock:
        yield _place.agent is not None


def start(join: Join, connection: Connection | None = None, session: Session | None = None) -> None:
    """Start the agent of this process; alone() makes sure that it is the only one.

    Args:
        join: The job.
        connection: To its controller, if there is one already.
        session: A session that is open already, on this connection.

    Raises:
        RuntimeError: No thread can be started.
    """
    _place.watch()
    _place.agent = Agent(join, connection or connection_to(join), session)
    try:
        _place.agent.start()
    except RuntimeError:
        _place.agent = None
        raise
