# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run: starts a program with malleable TensorFlow, once it has cores."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from tf_malleable.api.schema import requirement
from tf_malleable.api.schema.job_names import default_name, shortened_command
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import JOIN, Join
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.cli.launch.arrays import Array, ArrayType, continue_for_each
from tf_malleable.cli.launch.program import become, become_with_limit, is_program, preload
from tf_malleable.cli.options import socket_path_option
from tf_malleable.linux.cgroups.cgroup import in_container
from tf_malleable.model import OperationError
from tf_malleable.runtime import environment
from tf_malleable.workload.options import Duration, gpus_option, job_options

if TYPE_CHECKING:
    from tf_malleable.cli.launch.attempts import Attempt

_MOST_RETRIES = 1000
_FOR_ANY_PROGRAM = {"threads", "follow_cgroup", "require_malleable", "tier", "command"}
# As in elastic/variables.py, which is loaded only if this variable is set.
_COORDINATOR = "TF_MALLEABLE_ELASTIC_COORDINATOR"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help="Start with this limit, both intra-op and inter-op, without a controller.",
)
@click.option(
    "--follow-cgroup/--no-follow-cgroup",
    default=None,
    help="Keep the limits equal to the CPUs of the cgroup.  [default: in a container]",
)
@job_options
@gpus_option
@click.option("--name", metavar="NAME", help="Name of the job.  [default: the program]")
@click.option(
    "--queue/--no-queue",
    default=True,
    help="Wait if too few cores are free, or fail.  [default: --queue]",
)
@click.option(
    "--id-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the job's id to FILE."
)
@click.option(
    "--require-controller",
    is_flag=True,
    help="Fail if no controller answers, rather than run alone.",
)
@click.option(
    "--require-malleable",
    is_flag=True,
    help="End a program whose TensorFlow cannot be malleable, rather than run it as stock.",
)
@click.option(
    "--area",
    metavar="AREA",
    help="Area to which the job's energy is attributed.  [default: the host's]",
)
@click.option(
    "--time-limit",
    type=Duration(),
    metavar="TIME",
    help="Maximum time with cores, such as 90m or 12h; then the job is ended.",
)
@click.option(
    "--expected",
    type=Duration(),
    metavar="TIME",
    help="Expected run time, if known.  [default: that of earlier runs of the same command]",
)
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    help="Start after the end of this job, however it ends; can be repeated.",
)
@click.option(
    "--retries",
    type=int,
    metavar="N",
    default=0,
    help="Start a failed program again, up to N times, each time as a new job.",
)
@click.option(
    "--kill-leftovers",
    is_flag=True,
    help="Kill the processes that the program leaves in the background when it ends.  [default:"
    " the job lasts until the last of them has ended]",
)
@click.option(
    "--detach", is_flag=True, help="Print the job's id and run it in the background: tfm submit."
)
@click.option(
    "--notify",
    metavar="CMD",
    help="In the background only: run this shell command when the job has ended, with TFM_JOB,"
    " TFM_EXIT_CODE and TFM_OUTPUT in its environment.",
)
@click.option(
    "--array",
    type=ArrayType(),
    metavar="INDICES",
    help="In the background only: a job for each index, such as 1-20, or 1-20%4 for at most 4 at"
    " once, with TF_MALLEABLE_ARRAY_INDEX in its environment.",
)
@click.option(
    "--tier", is_flag=True, help="Read training data through this node's tier: see tfm tier."
)
@socket_path_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    threads: int | None,
    follow_cgroup: bool | None,
    asked: dict[str, Any],
    gpus: int,
    name: str | None,
    queue: bool,
    id_file: Path | None,
    require_controller: bool,
    require_malleable: bool,
    area: str | None,
    time_limit: float | None,
    expected: float | None,
    after: tuple[str, ...],
    retries: int,
    kill_leftovers: bool,
    detach: bool,
    notify: str | None,
    array: Array | None,
    tier: bool,
    socket: Path,
    command: tuple[str, ...],
) -> None:
    """Run an unchanged program with malleable TensorFlow.

    For example: tfm run --max 4 -- python train.py

    If a controller is running, the program starts when it is granted cores, and its cores
    change as other jobs come and go. Without a controller, or with --threads, it starts at
    once. In a container, the limits follow the CPUs that the container is given.

    With TF_MALLEABLE_ELASTIC_COORDINATOR in its environment, as in a pod, the program becomes a
    worker of that elastic training.

    Every Python process of the program loads tf_malleable before tensorflow. The program
    replaces tfm, so exit code, signals, input and output are the program's own. With --retries,
    tfm stays, passes signals on, and exits as the last attempt did.

    What the program leaves in the background when it ends stays part of the job, which lasts
    until the last of these processes has ended. Its exit code is that of the program.
    """
    if tier:
        from tf_malleable.cli.tier.join import join_tier

        join_tier()
    if require_malleable:
        os.environ[environment.REQUIRED] = "1"
    if os.environ.get(_COORDINATOR):
        _become_elastic_worker(threads, follow_cgroup, command)
    required = requirement.is_controller_required(asked_for=require_controller)
    _check_background(detach, notify=notify, array=array, id_file=id_file)
    if not 0 <= retries <= _MOST_RETRIES:
        raise ValueError(f"--retries must be an integer from 0 to {_MOST_RETRIES}, not {retries}")
    most = environment.max_threads()
    environment.first_threads()  # Refuse an invalid number before the program starts.
    following = _is_to_follow(follow_cgroup)
    if threads is None:
        os.environ[environment.FOLLOW_CGROUP] = str(int(following))
        request = JobRequest(
            name=name or default_name(command),
            command=shortened_command(command),
            gpus=gpus,
            time_limit=time_limit,
            expected=expected,
            area=area,
            after=_ids(after, socket),
            kill_leftovers=kill_leftovers,
            **asked,
        )
        address = os.path.abspath(socket)
        if array is not None:
            request = continue_for_each(array, request)
        attempt = _attempt(address, detach, retries, notify)
        if attempt is not None and attempt.output is not None:
            request = replace(request, output=str(attempt.output))
        join = Join(address, request)
        os.environ[JOIN] = join.encode()
        if is_program(command[0]):
            cpus = ask_controller(join, queue, id_file, required, attempt)
            if cpus:
                os.environ[environment.THREADS] = str(min(len(cpus), most))
    else:
        _check_by_hand(threads, most)
        if required:
            raise ValueError(requirement.reason("--threads runs without a controller"))
        become_with_limit(threads, command)
    preload()
    become(command)


def _ids(jobs: tuple[str, ...], socket: Path) -> tuple[str, ...]:
    """Return the ids of those of these jobs that have not ended yet.

    Raises:
        OperationError: One of the jobs does not exist, or there is no controller.
    """
    if not jobs:
        return ()
    from tf_malleable.api.transport.client import Client
    from tf_malleable.cli.ended_jobs import unended

    return unended(Client(socket), jobs)


def _check_background(
    detach: bool, *, notify: str | None, array: Array | None, id_file: Path | None
) -> None:
    for name, value in (("notify", notify), ("array", array)):
        if value is not None and not detach:
            raise ValueError(f"--{name} is for jobs in the background: give --detach, too")
    if array is not None and id_file is not None:
        raise ValueError("--id-file is for one job, and --array starts several")


def _attempt(socket: str, detach: bool, retries: int, notify: str | None) -> Attempt | None:
    """Continue in a process that is in the background or may be repeated, if requested.

    Returns:
        The state of the new process; None if the calling process continues itself.

    Raises:
        SystemExit: In the calling process, if there is a new one.
    """
    if detach:
        from tf_malleable.cli.launch.background import continue_in_background

        return continue_in_background(socket, retries, notify)
    if not retries:
        return None
    from tf_malleable.cli.launch.attempts import continue_in_attempts

    return continue_in_attempts(socket, retries)


def _is_to_follow(asked_for: bool | None) -> bool:
    """Return whether limits follow the cgroup: as requested, by default in a container."""
    inherited = environment.follow_cgroup()
    if asked_for is not None:
        return asked_for
    if inherited is not None:
        return inherited
    return not os.environ.get(environment.THREADS) and in_container()


def _check_by_hand(threads: int, most: int) -> None:
    if not 1 <= threads <= most:
        raise ValueError(f"--threads must be an integer from 1 to {most}, not {threads}")
    if click.get_current_context().params["follow_cgroup"]:
        raise ValueError(
            "--threads sets the cores by hand and --follow-cgroup leaves them to the cgroup:"
            " give one or the other"
        )
    option = _given_for_a_controller()
    if option is not None:
        raise ValueError(
            f"--threads sets the cores by hand and {option} is for a controller: give one or the"
            " other"
        )


def _given_for_a_controller() -> str | None:
    """Return an option of the command line that needs a controller; None if there is none."""
    context = click.get_current_context()
    for option in sorted(context.params.keys() - _FOR_ANY_PROGRAM):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            return f"--{option.replace('_', '-')}"
    return None


def _become_elastic_worker(
    threads: int | None, follow_cgroup: bool | None, command: tuple[str, ...]
) -> NoReturn:
    """Run a command as a worker of the elastic training that the environment specifies.

    Raises:
        ValueError: The environment or an option is invalid.
    """
    from tf_malleable.cli.launch.checkpoint_options import with_checkpoint
    from tf_malleable.elastic import variables
    from tf_malleable.elastic.settings import SETTINGS

    option = _given_for_a_controller()
    if option is not None:
        raise ValueError(
            f"{_COORDINATOR} makes this a worker of an elastic training, and {option} is for a"
            " controller: leave one of them out"
        )
    worker = variables.worker(os.environ)
    assert worker is not None
    if threads is not None:
        _check_by_hand(threads, environment.max_threads())
        os.environ[environment.THREADS] = str(threads)
        os.environ.pop(environment.FOLLOW_CGROUP, None)
    by_hand = environment.first_threads()
    if by_hand is not None:
        worker = replace(worker, cpus=float(by_hand))
    else:
        inherited = environment.follow_cgroup()
        following = inherited if follow_cgroup is None else follow_cgroup
        # Also outside a container: the other members are told the number of CPUs of the cgroup.
        os.environ[environment.FOLLOW_CGROUP] = str(int(following is not False))
    os.environ[SETTINGS] = with_checkpoint(worker).encode()
    os.environ.pop(JOIN, None)
    preload()
    become(command)


def ask_controller(
    join: Join,
    queue: bool = True,
    id_file: Path | None = None,
    required: bool = False,
    attempt: Attempt | None = None,
) -> Collection[int]:
    """Wait until the program may start; return its CPUs, to which this process is confined.

    There are no CPUs if the program runs without a controller.

    Raises:
        ValueError, OperationError: As wait_in_queue(), or the program must not run without a
            controller.
    """
    try:
        os.stat(join.socket)  # Avoids the import below if there is no controller.
        from tf_malleable.cli.launch.queue import wait_in_queue

        return wait_in_queue(join, queue=queue, id_file=id_file, attempt=attempt)
    except OSError as error:
        if attempt is not None and attempt.output is not None:
            raise NoAnswerError(join.socket, error) from None
        problem = NoAnswerError(join.socket, error).problem
        if required:
            raise OperationError(requirement.reason(problem)) from None
        click.echo(f"tfm: {problem}, running alone", err=True)
        if attempt is not None:
            attempt.alone()
        return ()
