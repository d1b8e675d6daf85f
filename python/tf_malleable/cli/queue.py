# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program's wait for cores, before it takes the place of tfm."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import click

from tf_malleable.api.admission import (
    Admitted,
    NotAControllerError,
    Notices,
    Submitted,
    admit,
    submit,
)
from tf_malleable.api.connection import Connection
from tf_malleable.api.join import Join
from tf_malleable.model import ControllerError, OperationError, format_cpuset
from tf_malleable.model.units import cores

_BAD_REQUEST = 400


def wait_in_queue(join: Join, *, queue: bool, id_file: Path | None) -> Collection[int]:
    """Make this process a job and return once it may compute, confined to its CPUs.

    Args:
        join: The controller, and what the job asks for.
        queue: Wait until there are cores, rather than be refused.
        id_file: Where to write the job's id.

    Returns:
        Its CPUs; none if the process belongs to a job that runs already.

    Raises:
        OSError: No controller answers, and none has so far.
        ValueError: The controller finds fault with what is asked for.
        OperationError: It refuses, or the CPUs cannot be used.
    """
    try:
        admitted = admit(
            lambda: Connection(join.socket),
            lambda connection: submit(connection, join.request, queue=queue),
            notices=_ProgramNotices(join.socket, id_file),
        )
    except _PartOfAJob:
        return ()
    except NotAControllerError:
        raise OperationError(f"what answers at {join.socket} is no controller") from None
    except ControllerError as error:
        if error.status == _BAD_REQUEST:
            raise ValueError(str(error)) from None
        raise OperationError(str(error)) from None
    assert admitted is not None
    try:
        return _carry_out(admitted)
    finally:
        admitted.connection.close()


class QueueNotices(Notices):
    """Tells the user that a job is in the queue."""

    def waiting(self, job: Submitted) -> None:
        """It has waited for a second. Said once."""
        say(f"job {job.id} is waiting for {cores(job.min)}; tfm jobs shows the queue")


def say(sentence: str) -> None:
    """Tell the user something, on stderr."""
    click.echo(f"tfm: {sentence}", err=True)


class _PartOfAJob(Exception):  # noqa: N818 - nothing has gone wrong
    pass


class _ProgramNotices(QueueNotices):
    def __init__(self, socket: str, id_file: Path | None) -> None:
        self._socket = socket
        self._id_file = id_file

    def submitted(self, job: Submitted) -> None:
        if self._id_file is not None:
            try:
                self._id_file.write_text(f"{job.id}\n")
            except OSError as error:
                raise OperationError(f"cannot write {self._id_file}: {error.strerror}") from None
        if job.pid != os.getpid():
            raise _PartOfAJob

    def gone(self) -> None:
        say(f"the controller at {self._socket} is gone; waiting until it is back")


def _carry_out(admitted: Admitted) -> Collection[int]:
    """Confine this process to its CPUs, unless the controller does, and say so."""
    job, grant = admitted.job, admitted.grant
    cpus = grant.cpus or grant.lent
    try:
        if not grant.confined:
            os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise OperationError(
            f"cannot use CPUs {format_cpuset(frozenset(cpus))}, granted to job {job.id}:"
            f" {error.strerror}"
        ) from None
    # Not heard, it is carried out all the same: the controller then looks for itself.
    with suppress(OSError, ControllerError):
        body = {"serial": grant.serial, "settled": True}
        admitted.connection.request("POST", f"{job.path}/acknowledgements", body)
    return cpus
