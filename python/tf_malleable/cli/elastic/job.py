# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training as one job of the host's controller: receives grants and reports progress.

It takes the place that the agent has in other jobs, but acts for all processes of the training.
Without a controller, the training keeps its last grant.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.join import Join
from tf_malleable.api.transport.admission import Submitted, submit
from tf_malleable.api.transport.connection import Connection
from tf_malleable.api.transport.json_lines import Lines
from tf_malleable.model import ControllerError

_REPORT_SECONDS: Final = 1.0
_TIMEOUT: Final = 5.0
_LARGEST_ANSWER: Final = 1 << 20
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_GOOD_SECONDS: Final = 1.0
_END_SECONDS: Final = 1.0

_BAD_REQUEST: Final = 400
_CHANGED_MEANWHILE: Final = 409


class HostJob:
    """Client of the controller for one job, in a thread of its own."""

    def __init__(
        self,
        join: Join,
        take: Callable[[Collection[int]], None],
        report: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Create the client; start() connects.

        Args:
            join: Job to submit.
            take: Applies a grant; once it returns, no process uses other CPUs.
            report: Returns the body of a progress report.
        """
        self._join, self._take, self._report = join, take, report
        self._connection = Connection(join.socket, timeout=_TIMEOUT, largest=_LARGEST_ANSWER)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfm-job", daemon=True)
        self._is_older = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._connection.abort()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            begin = time.monotonic()
            with suppress(OSError, EOFError, ValueError, ControllerError):
                self._serve()
            self._connection.close()
            is_good = time.monotonic() - begin >= _GOOD_SECONDS
            pause = _FIRST_PAUSE if is_good else min(2 * pause, _LONGEST_PAUSE)
            self._over.wait(pause * random.uniform(0.8, 1.2))

    def _serve(self) -> None:
        """Run one session until the connection breaks or stop() is called."""
        job = submit(self._connection, self._join.request, running=True)
        lines = self._stream(job)
        due = time.monotonic()
        while not self._over.is_set():
            line = lines.next_within(max(0.0, due - time.monotonic()))
            if line is not None:
                self._apply(job, GrantLine.read(line))
            if time.monotonic() >= due:
                self._post_report(job)
                due = time.monotonic() + _REPORT_SECONDS

    def _stream(self, job: Submitted) -> Lines:
        try:
            return self._connection.stream(f"{job.path}/grants?split=true")
        except ControllerError as error:
            if error.status != _BAD_REQUEST:
                raise
        # An older controller gives all CPUs to each process at each change; take() undoes that.
        self._is_older = True
        return self._connection.stream(f"{job.path}/grants")

    def _apply(self, job: Submitted, grant: GrantLine) -> None:
        if grant.state != "running":
            return
        if grant.cpus:
            self._take(grant.cpus)
        body = {"serial": grant.serial, "settled": True}
        try:
            self._connection.request("POST", f"{job.path}/acknowledgements", body)
        except ControllerError as error:
            if error.status != _CHANGED_MEANWHILE:  # In that case a new line follows.
                raise

    def _post_report(self, job: Submitted) -> None:
        body = dict(self._report())
        if self._is_older:
            body.pop("elastic", None)
        self._connection.request("POST", f"{job.path}/progress", body)
