# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command `tfm elastic local`: all processes of a training on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path

import click

from tf_malleable.api.schema import requirement
from tf_malleable.api.schema.job_names import default_name, shortened_command
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import JOIN, Join, join_asked_for
from tf_malleable.cli.elastic import shard_options, training_registry
from tf_malleable.cli.launch import checkpoint_options
from tf_malleable.cli.launch.program import limit_by_hand
from tf_malleable.cli.launch.start import ask_controller
from tf_malleable.cli.options import command_argument, socket_path_option
from tf_malleable.elastic.membership.worker_count import Bounds
from tf_malleable.runtime import environment

_FEWEST_SHARDS = 4


def _range(name: str, text: str, least: int) -> tuple[int, int]:
    """Return the minimum and the maximum of N or FEWEST:MOST.

    Raises:
        ValueError: The text has neither form, or is out of range.
    """
    found = re.fullmatch(r"(\d{1,5})(?::(\d{1,5}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not least <= first <= last:
        raise ValueError(
            f"{name} must be a number or FEWEST:MOST, such as 1:4, from {least} on, not {text!r}"
        )
    return first, last


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--workers",
    default="1",
    metavar="N[:MOST]",
    help="Minimum and maximum number of workers; N at first without a controller.",
)
@click.option(
    "--servers",
    default="0",
    metavar="N[:MOST]",
    help="Number of servers that own slices of the sums.  [default: 0; the workers own them]",
)
@click.option(
    "--shards",
    type=int,
    metavar="N",
    help="Number of shards of each batch.  [default: 4, or MOST if that is more]",
)
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help="Threads of each worker, without a controller; in a job, its most cores."
    "  [default: the CPUs divided by MOST; in a job, all that it is granted]",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the job, and of the training for tfm elastic status and set.",
)
@click.option("--replace/--no-replace", default=True, help="Replace workers that die.")
@click.option("--no-controller", is_flag=True, help="Run without the controller.")
@socket_path_option
@shard_options.options
@checkpoint_options.options
@command_argument
@click.pass_context
def local(
    context: click.Context,
    workers: str,
    servers: str,
    shards: int | None,
    threads: int | None,
    name: str | None,
    replace: bool,
    no_controller: bool,
    socket: Path,
    seed: int | None,
    shard_threads: int | None,
    checkpoint: str | None,
    checkpoint_every: float | None,
    command: tuple[str, ...],
) -> None:
    """Run an unchanged Keras script with several workers on this machine.

    For example: tfm elastic local --workers 1:4 -- python train.py

    If a controller is running, the training is one job of it, as with tfm run: the cores that it
    is granted are split among the workers, and decide how many there are. For the other options of
    tfm run: tfm run --priority 3 --max 4 -- tfm elastic local … Without a controller, or
    with --threads, it starts at once.

    tfm elastic set N changes how many there are while they train. One that dies is replaced; one
    that gets SIGTERM hands over, and is replaced if there would be less than the fewest.
    """
    least, most = _range("--workers", workers, 1)
    few_servers, most_servers = _range("--servers", servers, 0)
    pieces = max(_FEWEST_SHARDS, most) if shards is None else shards
    shard_options.check_shards(pieces)
    shard_options.check(seed, shard_threads)
    checkpoint_options.check(checkpoint, checkpoint_every)
    if most > pieces:
        raise ValueError(
            f"--workers must be at most the number of shards, {pieces}, not {most}: one more has"
            " nothing to compute"
        )
    highest = environment.max_threads()
    if threads is not None:
        threads = limit_by_hand(threads)
    called = f"local-{os.getpid()}" if name is None else name
    training_registry.check_name(called)
    each = 1 if shard_threads is None else shard_threads
    bounds = Bounds(least, most, pieces, threads or highest, each)
    join = None if no_controller else join_asked_for()
    cpus: Collection[int] = ()
    if join is not None:
        cpus = os.sched_getaffinity(0)
    elif _is_to_ask(no_controller, threads, socket):
        join = Join(os.path.abspath(socket), _request(name or default_name(command)))
        cpus = ask_controller(join, required=requirement.is_controller_required())
    from tf_malleable.cli.elastic.grant_split import GrantSharing
    from tf_malleable.cli.elastic.processes import Script
    from tf_malleable.cli.elastic.supervisor import Supervisor
    from tf_malleable.cli.elastic.supervisor_messages import Numbers

    options = shard_options.as_options(seed, shard_threads)
    options += checkpoint_options.as_options(checkpoint, checkpoint_every)
    numbers = Numbers(least, least, most, few_servers, most_servers)
    sharing = None
    if join is None or not cpus:
        os.environ.pop(JOIN, None)
        usual = max(1, len(os.sched_getaffinity(0)) // most)
        script = Script(command, options, usual if threads is None else threads)
    else:
        sharing = GrantSharing(join, cpus, bounds)
        numbers.workers, numbers.can_decide = sharing.sizing.workers, True
        script = Script(command, options, None)
    supervisor = Supervisor(called, numbers, pieces, script, replaces=replace, sharing=sharing)
    code = supervisor.run()
    sys.stdout.flush()
    context.exit(code)


def _is_to_ask(no_controller: bool, threads: int | None, socket: Path) -> bool:
    """Return whether to ask a controller for cores.

    Raises:
        ValueError: A controller is required, but an option excludes it.
    """
    by_hand = "--no-controller" if no_controller else "--threads" if threads is not None else None
    is_required = requirement.is_controller_required()
    if by_hand is None:
        # `tfm run --threads` has set this variable, and runs without a controller.
        is_free = not os.environ.get(environment.THREADS)
        return is_required or (is_free and os.path.exists(socket))
    if is_required:
        raise ValueError(requirement.reason(f"{by_hand} runs without a controller"))
    return False


def _request(name: str) -> JobRequest:
    words = sys.orig_argv[sys.orig_argv.index("elastic") :] if "elastic" in sys.orig_argv else []
    return JobRequest(name, shortened_command(["tfm", *words]))
