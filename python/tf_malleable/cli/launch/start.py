# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Start of the program of tfm run, once it has cores.

Without click and all else that is slow to load, as the program waits for it.
"""

from __future__ import annotations

import os

from tf_malleable.api.schema import requirement
from tf_malleable.cli.launch.program import (
    become,
    become_with_limit,
    is_program,
    is_seen_by_a_shell,
    limit_by_hand,
    preload,
    with_python,
)
from tf_malleable.cli.messages import say
from tf_malleable.linux.cgroups.container import in_container
from tf_malleable.model.errors import OperationError
from tf_malleable.runtime import environment

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final, NoReturn

    from tf_malleable.api.schema.job_request import JobRequest
    from tf_malleable.api.schema.join import Join
    from tf_malleable.cli.background.stored_job import StoredJob
    from tf_malleable.cli.launch.attempts import Attempt
    from tf_malleable.cli.launch.run_options import RunOptions

_MOST_RETRIES: Final = 1000
_FOR_ANY_PROGRAM: Final = frozenset(
    {"threads", "follow_cgroup", "require_malleable", "tier", "command"}
)
# As in elastic/variables.py, which is loaded only if this variable is set.
_COORDINATOR: Final = "TF_MALLEABLE_ELASTIC_COORDINATOR"


def start(options: RunOptions, again: StoredJob | None = None) -> NoReturn:
    """Start the program, which replaces this process; with some options, after a fork.

    Args:
        options: Options of the command.
        again: The job, if it is submitted again; see continue_in_background().

    Raises:
        ValueError: An option or a variable is invalid.
        OperationError: The program must not or cannot start.
        SystemExit: The program cannot be executed, or another process runs it.
    """
    options = _with_python(options)
    if options.tier:
        from tf_malleable.cli.tier.join import join_tier

        join_tier()
    if options.require_malleable:
        os.environ[environment.REQUIRED] = "1"
    if os.environ.get(_COORDINATOR):
        _become_elastic_worker(options)
    required = requirement.is_controller_required(asked_for=options.require_controller)
    check(options)
    most = environment.max_threads()
    environment.first_threads()  # Refuse an invalid number before the program starts.
    following = _is_to_follow(options.follow_cgroup)
    if options.threads is not None:
        _check_by_hand(options)
        if required:
            raise ValueError(requirement.reason("--threads runs without a controller"))
        become_with_limit(limit_by_hand(options.threads), options.command)
    os.environ[environment.FOLLOW_CGROUP] = str(int(following))
    cpus = _admitted_as_job(options, required, again)
    if cpus:
        os.environ[environment.THREADS] = str(min(len(cpus), most))
    preload()
    become(options.command)


def check(options: RunOptions) -> None:
    """Raise ValueError if options contradict each other, or one is out of its range."""
    _check_background(options)
    if not 0 <= options.retries <= _MOST_RETRIES:
        raise ValueError(
            f"--retries must be an integer from 0 to {_MOST_RETRIES}, not {options.retries}"
        )


def _with_python(options: RunOptions) -> RunOptions:
    """Return the options with a command that can be executed; see with_python()."""
    command = with_python(options.command)
    if command == options.command:
        return options
    from dataclasses import replace

    return replace(options, command=command)


def _admitted_as_job(
    options: RunOptions, required: bool, again: StoredJob | None
) -> Collection[int]:
    """Make the program to come a job; return its CPUs, as ask_controller()."""
    if is_program(options.command[0]):
        ensure_controller(options)
    # Slow to load, and not needed with --threads.
    from tf_malleable.api.schema.join import JOIN, Join

    request = job_request(options, again)
    if options.array is not None:
        from tf_malleable.cli.launch.arrays import continue_for_each

        request = continue_for_each(options.array, request)
    attempt = _attempt(options, request, again)
    if attempt is not None and attempt.output is not None:
        from dataclasses import replace

        request = replace(request, output=str(attempt.output))
    join = Join(options.socket, request)
    os.environ[JOIN] = join.encode()
    if not is_program(options.command[0]):
        return ()
    return ask_controller(join, options.queue, options.id_file, required, attempt)


def ensure_controller(options: RunOptions) -> None:
    """Start a controller if none answers and the options say so; see start_controller()."""
    is_to_be_kept = options.start_controller is None and options.detach
    if options.start_controller or is_to_be_kept:
        from tf_malleable.cli.launch.controller_start import start_controller

        start_controller(options.socket)


def job_request(options: RunOptions, again: StoredJob | None = None) -> JobRequest:
    """Return the request of the job to come.

    Args:
        options: Options of the command.
        again: The job, if it is submitted again.

    Raises:
        ValueError: An option is invalid.
        OperationError: A job to start after does not exist, or there is no controller to ask.
    """
    from tf_malleable.api.schema.job_names import default_name, shortened_command
    from tf_malleable.api.schema.job_request import ASKED, JobRequest

    return JobRequest(
        name=options.name or default_name(options.command),
        command=shortened_command(options.command),
        gpus=options.gpus,
        time_limit=options.time_limit,
        expected=options.expected,
        area=options.area,
        after=_ids(options.after, options.socket, again),
        after_ok=_ids(options.after_ok, options.socket, again, succeeding=True),
        group=options.group,
        slo=options.slo,
        between=options.between,
        days=options.days,
        array=None if again is None else again.array,
        at_once=None if again is None else again.at_once,
        kill_leftovers=options.kill_leftovers,
        **{name: getattr(options, name) for name in ASKED},
    )


def _ids(
    jobs: tuple[str, ...], socket: str, again: StoredJob | None, *, succeeding: bool = False
) -> tuple[str, ...]:
    """Return the ids of those of these jobs that have not ended yet, or not succeeded if asked.

    Raises:
        OperationError: One of the jobs does not exist, or there is no controller.
    """
    if not jobs:
        return ()
    from pathlib import Path

    from tf_malleable.api.transport.client import Client
    from tf_malleable.cli.background.outputs import await_resumption
    from tf_malleable.cli.ended_jobs import unended

    if again is None:
        await_resumption()

    return unended(Client(Path(socket)), jobs, or_failed=succeeding)


def _check_background(options: RunOptions) -> None:
    background = {
        "notify": options.notify is not None,
        "array": options.array is not None,
        "requeue": options.requeue,
    }
    for name, is_given in background.items():
        if is_given and not options.detach:
            raise ValueError(f"--{name} is for jobs in the background: give --detach, too")
    if options.array is not None and options.id_file is not None:
        raise ValueError("--id-file is for one job, and --array starts several")


def _attempt(options: RunOptions, request: JobRequest, again: StoredJob | None) -> Attempt | None:
    """Continue in a process that is in the background or may be repeated, if requested.

    Returns:
        The state of the new process; None if the calling process continues itself.

    Raises:
        SystemExit: In the calling process, if there is a new one.
    """
    if options.detach:
        from tf_malleable.cli.background.keeper import continue_in_background

        return continue_in_background(options, request, again)
    if not options.retries and not os.path.exists(options.socket):
        return None  # Nobody stops the program.
    if not options.retries and not is_seen_by_a_shell():
        return None
    from tf_malleable.cli.launch.attempts import continue_in_attempts

    return continue_in_attempts(options.socket, options.retries)


def _is_to_follow(asked_for: bool | None) -> bool:
    """Return whether limits follow the cgroup: as requested, by default in a container."""
    inherited = environment.follow_cgroup()
    if asked_for is not None:
        return asked_for
    if inherited is not None:
        return inherited
    return not os.environ.get(environment.THREADS) and in_container()


def _check_by_hand(options: RunOptions) -> None:
    if options.follow_cgroup:
        raise ValueError(
            "--threads sets the cores by hand and --follow-cgroup leaves them to the cgroup:"
            " give one or the other"
        )
    option = _given_for_a_controller(options)
    if option is not None:
        raise ValueError(
            f"--threads sets the cores by hand and {option} is for a controller: give one or the"
            " other"
        )


def _given_for_a_controller(options: RunOptions) -> str | None:
    """Return an option of the command line that needs a controller; None if there is none."""
    given = sorted(options.given - _FOR_ANY_PROGRAM)
    return f"--{given[0].replace('_', '-')}" if given else None


def _become_elastic_worker(options: RunOptions) -> NoReturn:
    """Run a command as a worker of the elastic training that the environment specifies.

    Raises:
        ValueError: The environment or an option is invalid.
    """
    from dataclasses import replace

    from tf_malleable.api.schema.join import JOIN
    from tf_malleable.cli.launch.checkpoint_options import with_checkpoint
    from tf_malleable.elastic import variables
    from tf_malleable.elastic.settings import SETTINGS

    option = _given_for_a_controller(options)
    if option is not None:
        raise ValueError(
            f"{_COORDINATOR} makes this a worker of an elastic training, and {option} is for a"
            " controller: leave one of them out"
        )
    worker = variables.worker(os.environ)
    assert worker is not None
    if options.threads is not None:
        _check_by_hand(options)
        os.environ[environment.THREADS] = str(limit_by_hand(options.threads))
        os.environ.pop(environment.FOLLOW_CGROUP, None)
    by_hand = environment.first_threads()
    if by_hand is not None:
        worker = replace(worker, cpus=float(by_hand))
    else:
        inherited = environment.follow_cgroup()
        following = inherited if options.follow_cgroup is None else options.follow_cgroup
        # Also outside a container: the other members are told the number of CPUs of the cgroup.
        os.environ[environment.FOLLOW_CGROUP] = str(int(following is not False))
    os.environ[SETTINGS] = with_checkpoint(worker).encode()
    os.environ.pop(JOIN, None)
    preload()
    become(options.command)


def ask_controller(
    join: Join,
    queue: bool = True,
    id_file: str | None = None,
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
        if attempt is None or not attempt.is_patient:
            os.stat(join.socket)  # Avoids the import below if there is no controller.
        from tf_malleable.cli.launch.queue import wait_in_queue

        return wait_in_queue(join, queue=queue, id_file=id_file, attempt=attempt)
    except OSError as error:
        from tf_malleable.api.transport.address import NoAnswerError

        if attempt is not None and attempt.output is not None:
            raise NoAnswerError(join.socket, error) from None
        problem = NoAnswerError(join.socket, error).problem
        if required:
            raise OperationError(requirement.reason(problem)) from None
        say(f"{problem}, running alone")
        if attempt is not None:
            attempt.alone()
        return ()
