# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Agent: the thread that connects the job to the controller.

The thread runs inside the user's program, so it handles no signals, prints nothing, raises
nothing and ends before the interpreter does. A forked child gets an agent of its own, which
reconnects as part of the same job. Without a controller, the job keeps its last grant.
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

from tf_malleable.agent import boosting, steps
from tf_malleable.agent.session import Session, connection_to, report_at_exit
from tf_malleable.agent.thread_start import start_without_signals
from tf_malleable.api.schema.join import Join
from tf_malleable.api.transport.connection import Connection

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
# A connection that lasted this long resets the back-off.
_GOOD_SECONDS: Final = 1.0
# Time before a forked child connects: many execute another program or end at once.
_FORKED_SECONDS: Final = 0.05
# Longest time that the program's exit waits for the thread, once before and once after its
# connection is aborted. The thread normally ends far sooner.
_EXIT_SECONDS: Final = 0.6


class Agent:
    """Connects one job to its controller, in a thread of its own."""

    def __init__(
        self,
        join: Join,
        connection: Connection,
        session: Session | None = None,
        delay: float = 0.0,
    ) -> None:
        """Create an agent; start() starts its thread.

        Args:
            join: The job and its controller.
            connection: Connection to the controller; the agent closes it.
            session: Session that is already open on this connection; None to open one.
            delay: Time before the thread connects, in seconds.
        """
        self._join = join
        self._delay = delay
        self._connection = connection
        self._session = session
        self._path: str | None = None
        self._reported_last = False
        self._over = threading.Event()
        # Not the global generator: the program may depend on its sequence.
        self._random = random.Random()
        self._thread = threading.Thread(target=self._run, name="tf_malleable", daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The thread cannot be started.
        """
        start_without_signals(self._thread)

    def stop(self) -> None:
        """Make the thread send a last report and end; wait for it briefly."""
        self._over.set()
        self._connection.end_streams()
        self._thread.join(_EXIT_SECONDS)
        if self._thread.is_alive():
            self._connection.abort()
            self._thread.join(_EXIT_SECONDS)
        if self._path is not None and not self._reported_last:
            with suppress(Exception):
                report_at_exit(self._join, self._path)

    def forget(self) -> None:
        """Close the descriptors that a forked child has inherited."""
        self._connection.forget()

    def renewed(self) -> Agent | None:
        """Return an agent for a forked child; None if this agent has been stopped."""
        if self._over.is_set():
            return None
        return Agent(self._join, connection_to(self._join), delay=_FORKED_SECONDS)

    def _run(self) -> None:
        self._over.wait(self._delay)
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            with suppress(Exception):
                if self._serve_session():
                    pause = _FIRST_PAUSE
            with suppress(Exception):
                self._connection.close()
            self._rest(pause * self._random.uniform(0.8, 1.2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _serve_session(self) -> bool:
        """Serve one session until it breaks off; return whether it lasted a while."""
        session, self._session = self._session, None
        if session is None:
            session = Session.rejoin(self._connection, self._join)
        self._path = session.path
        begin = time.monotonic()
        with suppress(Exception):
            session.serve(self._over.is_set)
        if self._over.is_set():
            # A second attempt would delay the program's exit for no better answer.
            self._reported_last = True
            with suppress(Exception):
                session.report_at_exit()
        return time.monotonic() - begin >= _GOOD_SECONDS

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._over.wait(min(left, steps.look_for_training())):
                return


class _ProcessAgent:
    """The agent of this process, if any, and its lock."""

    def __init__(self) -> None:
        self.agent: Agent | None = None
        # join() holds the lock while it waits in the queue, and another thread may fork meanwhile.
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self._renew)
        atexit.register(self.stop)

    def _renew(self) -> None:
        """Replace the agent in a forked child, where its thread does not exist."""
        inherited, self.agent = self.agent, None
        self.lock = threading.Lock()
        if inherited is None:
            return
        with suppress(Exception):
            inherited.forget()
            renewed = inherited.renewed()
            if renewed is not None:
                renewed.start()
                self.agent = renewed

    def stop(self) -> None:
        """End the agent while the interpreter is still intact."""
        if self.agent is not None:
            self.agent.stop()


_process = _ProcessAgent()


@contextmanager
def start_lock() -> Iterator[bool]:
    """Prevent other threads from starting an agent; yield whether one is already running."""
    with _process.lock:
        yield _process.agent is not None


def start(join: Join, connection: Connection | None = None, session: Session | None = None) -> None:
    """Start the agent of this process. The caller holds start_lock(), which yielded False.

    Args:
        join: The job and its controller.
        connection: Connection to the controller; None opens a new one.
        session: Session that is already open on this connection; None to open one.

    Raises:
        RuntimeError: The thread cannot be started.
    """
    boosting.count_rounds()
    _process.agent = Agent(join, connection or connection_to(join), session)
    try:
        _process.agent.start()
    except RuntimeError:
        _process.agent = None
        raise
