# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm elastic local: all processes of a training on this machine."""

from __future__ import annotations

import os
import re
import sys

import click

from tf_malleable.cli.elastic import cutting, whereabouts
from tf_malleable.runtime import environment

_FEWEST_SHARDS = 4


def _range(name: str, text: str, least: int) -> tuple[int, int]:
    """Return the fewest and the most of N or FEWEST:MOST.

    Raises:
        ValueError: It is neither.
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
    "--workers", default="1", metavar="N[:MOST]", help="How many at first, and how many at most."
)
@click.option(
    "--servers",
    default="0",
    metavar="N[:MOST]",
    help="How many servers own slices of the sums.  [default: none; the workers do]",
)
@click.option("--shards", type=int, help="Pieces of each batch.  [default: 4, or as many as MOST]")
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help="Threads of each worker.  [default: the CPUs divided by MOST]",
)
@click.option("--name", metavar="NAME", help="For tfm elastic status and set.")
@click.option(
    "--replace/--no-replace", default=True, help="Start another worker in place of one that died."
)
@cutting.options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def local(
    context: click.Context,
    workers: str,
    servers: str,
    shards: int | None,
    threads: int | None,
    name: str | None,
    replace: bool,
    seed: int | None,
    shard_threads: int | None,
    command: tuple[str, ...],
) -> None:
    """Run an unchanged Keras script with several workers on this machine.

    For example: tfm elastic local --workers 1:4 -- python train.py

    tfm elastic set N changes how many there are while they train.
    """
    least, most = _range("--workers", workers, 1)
    few_servers, most_servers = _range("--servers", servers, 0)
    pieces = max(_FEWEST_SHARDS, most) if shards is None else shards
    cutting.check_shards(pieces)
    cutting.check(seed, shard_threads)
    if most > pieces:
        raise ValueError(
            f"--workers must be at most the number of shards, {pieces}, not {most}: one more has"
            " nothing to compute"
        )
    each = max(1, len(os.sched_getaffinity(0)) // most) if threads is None else threads
    if not 1 <= each <= environment.max_threads():
        raise ValueError(
            f"--threads must be an integer from 1 to {environment.max_threads()}, not {threads}"
        )
    called = f"local-{os.getpid()}" if name is None else name
    whereabouts.check_name(called)
    from tf_malleable.cli.elastic.supervisor import Numbers, Supervisor

    numbers = Numbers(least, least, most, few_servers, most_servers)
    options = cutting.as_options(seed, shard_threads)
    supervisor = Supervisor(
        called, numbers, pieces, each, command, replaces=replace, options=options
    )
    code = supervisor.run()
    sys.stdout.flush()
    context.exit(code)
