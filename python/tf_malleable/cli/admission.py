# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program's wait for cores, before it takes the place of tfm.

The controller may die and come back meanwhile. Then the program asks again, and
has its old place in the queue if the controller's state file remembers it.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tf_malleable.agent.address import Join
from tf_malleable.agent.connection import Connection
from tf_malleable.agent.grants import Grant
from tf_malleable.cli.failure import CommandFailed
from tf_malleable.model import ControllerError, Cpuset, format_cpuset

_NOTICE_SECONDS = 1.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0

_BAD_REQUEST = 400


@dataclass(frozen=True)
class Admission:
    """What a program asks for when it wants to start.

    Attributes:
        join: Where the controller is, and what to tell it.
        queue: Wait until there are cores, rather than be refused.
        id_file: Where to write the job's id.
    """

    join: Join
    queue: bool = True
    id_file: Path | None = None

    def wait(self) -> Cpuset | None:
        """Make this process a job and return once it may compute, confined to its CPUs.

        Returns:
            Its CPUs, or None if the process belongs to a job that runs already.

        Raises:
            OSError: No controller answers, and none has so far.
            ValueError: The controller finds fault with what is asked for.
            CommandFailed: It refuses, or the CPUs cannot be had.
        """
        notices = _Notices(self.join.socket)
        pause = _FIRST_PAUSE
        while True:
            job: dict[str, Any] | None = None
            try:
                with closing(Connection(self.join.socket)) as connection:
                    job = self._submit(connection)
                    notices.submitted = True
                    if job["pid"] != os.getpid():
                        return None
                    if cpus := _granted(connection, job, notices):
                        return cpus
            except OSError:
                if not notices.submitted:
                    raise
            if job is not None:
                pause = _FIRST_PAUSE
            notices.gone()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _submit(self, connection: Connection) -> dict[str, Any]:
        try:
            job = connection.request(
                "POST", "/v1/jobs", {**self.join.fields(), "queue": self.queue}
            )
        except ControllerError as error:
            if error.status == _BAD_REQUEST:
                raise ValueError(str(error)) from None
            raise CommandFailed(str(error)) from None
        if not isinstance(job, dict) or not {"id", "pid", "min"} <= job.keys():
            raise CommandFailed(f"what answers at {self.join.socket} is no controller")
        if self.id_file is not None:
            try:
                self.id_file.write_text(f"{job['id']}\n")
            except OSError as error:
                raise CommandFailed(f"cannot write {self.id_file}: {error.strerror}") from None
        return job


class _Notices:
    """What the user is told while waiting, each thing once."""

    def __init__(self, socket: str) -> None:
        self.submitted = False
        self._socket = socket
        self._told_waiting = False
        self._told_gone = False

    def seconds_to_waiting(self) -> float | None:
        return None if self._told_waiting else _NOTICE_SECONDS

    def waiting(self, job: dict[str, Any]) -> None:
        self._told_waiting = True
        cores = "1 core" if job["min"] == 1 else f"{job['min']} cores"
        _say(f"job {job['id']} is waiting for {cores}; tfm jobs shows the queue")

    def gone(self) -> None:
        if not self._told_gone:
            self._told_gone = True
            _say(f"the controller at {self._socket} is gone; waiting until it is back")


def _say(sentence: str) -> None:
    click.echo(f"tfm: {sentence}", err=True)


def _granted(connection: Connection, job: dict[str, Any], notices: _Notices) -> Cpuset | None:
    """Wait for CPUs, confine this process to them and return them.

    A process that the controller confines itself is left where it is.

    None if the stream of grants has ended as it should: with the controller.
    """
    try:
        lines = connection.stream(f"/v1/jobs/{job['id']}/grants")
        while True:
            line = lines.next_within(notices.seconds_to_waiting())
            if line is None:
                notices.waiting(job)
                continue
            grant = Grant.read(line)
            # Those it has lent are its own: it needs one now.
            cpus = grant.cpus or grant.lent
            if grant.state == "running" and cpus:
                break
    except (EOFError, ControllerError):
        return None
    try:
        if not grant.confined:
            os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise CommandFailed(
            f"cannot use CPUs {format_cpuset(cpus)}, granted to job {job['id']}: {error.strerror}"
        ) from None
    # Not heard, it is carried out all the same: the controller then looks for itself.
    with suppress(OSError, ControllerError):
        path = f"/v1/jobs/{job['id']}/acknowledgements"
        connection.request("POST", path, {"serial": grant.serial, "settled": True})
    return cpus
