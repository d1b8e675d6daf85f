# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Queue client: waits in the controller's queue before tfm run starts the program."""

from __future__ import annotations

import os
from contextlib import suppress

from tf_malleable.api.transport.admission import Admitted, Notices, Submitted, admit, submit
from tf_malleable.api.transport.connection import Connection
from tf_malleable.cli.messages import say
from tf_malleable.linux.processes.process_marker import mark_this_process
from tf_malleable.model.cpuset import format_cpuset
from tf_malleable.model.errors import ControllerError, OperationError
from tf_malleable.model.units import cores

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

    from tf_malleable.api.schema.join import Join
    from tf_malleable.cli.launch.attempts import Attempt


JOB: Final = "TF_MALLEABLE_JOB"
"""Variable with the id of the job, in the environment of its program."""


def wait_in_queue(
    join: Join, *, queue: bool, id_file: str | None, attempt: Attempt | None = None
) -> Collection[int]:
    """Make this process a job; return once it may run, confined to its CPUs.

    Args:
        join: The controller's socket and the job request.
        queue: Whether to wait if too few cores are free, rather than fail.
        id_file: File to write the job's id to; None for none.
        attempt: Receiver of the job's id if the job is in the background or may be repeated;
            otherwise None.

    Returns:
        CPUs of the job; none if the process belongs to a job that is already running.

    Raises:
        OSError: No controller can be reached, and none has answered so far.
        ValueError: The controller finds the request invalid.
        OperationError: The controller refuses, or the CPUs cannot be used.
    """
    try:
        admitted = admit(
            lambda: Connection(join.socket),
            lambda connection: submit(connection, join.request, queue=queue),
            notices=_ProgramNotices(join, id_file, attempt),
            is_patient=attempt is not None and attempt.is_patient,
        )
    except _PartOfAJob:
        return ()
    except ControllerError as error:
        raise OperationError(str(error)) from None
    assert admitted is not None
    if attempt is not None:
        attempt.admitted()
    try:
        return _carry_out(admitted)
    finally:
        admitted.connection.close()


def gpu_variables(gpus: Collection[int]) -> dict[str, str]:
    """Return the environment variables that make only these GPUs, possibly none, visible."""
    return {
        # Without this, CUDA numbers GPUs by their speed.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
    }


LACKING = {
    "memory": "memory",
    "gpus": "GPUs",
    "jobs": "another job to end",
    "memory quota": "memory within the user's quota",
    "gpu quota": "GPUs within the user's quota",
}
"""Resources other than cores that a job may wait for, in words."""


class QueueNotices(Notices):
    """Tells the user that a job is in the queue."""

    def waiting(self, job: Submitted) -> None:
        """Print what the job waits for. Called once, after a second of waiting."""
        what = LACKING.get(job.lacks or "", cores(job.min))
        say(f"job {job.id} is waiting for {what}; tfm jobs shows the queue")


class _PartOfAJob(Exception):  # noqa: N818 - not an error
    pass


class _ProgramNotices(QueueNotices):
    def __init__(self, join: Join, id_file: str | None, attempt: Attempt | None) -> None:
        self._socket = join.socket
        self._after = (*join.request.after, *join.request.after_ok)
        self._between = join.request.between
        # An array would say it for each of its jobs.
        self._most = None if join.request.array else join.request.max
        self._id_file = id_file
        self._attempt = attempt

    def submitted(self, job: Submitted) -> None:
        if self._id_file is not None:
            try:
                with open(self._id_file, "w") as file:
                    file.write(f"{job.id}\n")
            except OSError as error:
                raise OperationError(f"cannot write {self._id_file}: {error.strerror}") from None
        is_less = self._most is not None and job.max is not None and job.max < self._most
        if is_less and job.is_caller:  # Before a job in the background leaves the terminal.
            most = cores(job.max or 0)
            say(f"job {job.id} can get at most {most}, not {self._most}: there are no more here")
        if self._attempt is not None:
            if job.is_caller:
                self._attempt.submitted(job.id)
            elif self._attempt.output is not None:
                raise OperationError(
                    f"this is part of job {job.id}, and would end with it: run tfm submit"
                    " outside of jobs"
                )
            else:
                self._attempt.alone()
        if not job.is_caller:
            raise _PartOfAJob
        if job.cause is not None:
            raise OperationError(f"job {job.id} does not start: {job.cause}")
        os.environ[JOB] = job.id
        mark_this_process()

    def waiting(self, job: Submitted) -> None:
        if self._attempt is not None and self._attempt.output is not None:
            return  # There is no user to inform, and the output belongs to the program alone.
        if self._after:
            say(f"job {job.id} starts after the end of job {', '.join(self._after)}")
            return
        if self._between is not None:
            say(f"job {job.id} may run only between {self._between}; tfm jobs shows the queue")
            return
        super().waiting(job)

    def busy(self, reason: str) -> None:
        say(f"the controller at {self._socket} cannot take the job now ({reason}); asking again")

    def gone(self) -> None:
        say(f"the controller at {self._socket} is gone; waiting until it is back")


def _carry_out(admitted: Admitted) -> Collection[int]:
    """Confine this process to its CPUs, unless the controller does, and acknowledge them."""
    job, grant = admitted.job, admitted.grant
    if grant.gpus is not None:
        os.environ.update(gpu_variables(grant.gpus))
    cpus = grant.cpus or grant.lent
    try:
        if not grant.confined:
            os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise OperationError(
            f"cannot use CPUs {format_cpuset(frozenset(cpus))}, granted to job {job.id}:"
            f" {error.strerror}"
        ) from None
    # Without an acknowledgement the controller checks the process's affinity itself.
    with suppress(OSError, ControllerError):
        body = {"serial": grant.serial, "settled": True}
        admitted.connection.request("POST", f"{job.path}/acknowledgements", body)
    return cpus
