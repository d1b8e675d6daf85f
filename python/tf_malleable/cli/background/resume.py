# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Resumption of stored jobs: submits again what a reboot or a kill has interrupted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import claim, is_kept, output_folder
from tf_malleable.cli.background.stored_job import StoredJob, forget, stored_job, stored_jobs
from tf_malleable.cli.ended_jobs import find_ended
from tf_malleable.cli.launch.attempts import fork
from tf_malleable.cli.launch.start import start
from tf_malleable.cli.messages import report, say
from tf_malleable.model import OperationError

_POLL_SECONDS: Final = 0.2
# Time in which processes that are being killed end.
_ENDING_SECONDS: Final = 5.0


def resume(socket: str, patience: float = 0.0) -> None:
    """Submit this user's stored jobs of a controller again that no process keeps, and say so.

    Args:
        socket: Absolute path of the controller's socket.
        patience: Seconds for which the controller may not answer yet.

    Raises:
        OperationError: No controller answers, or the controller refuses.
    """
    jobs, bad = stored_jobs(output_folder())
    for sentence in bad:
        say(sentence)
    client = Client(Path(socket))
    mine = [job for job in jobs if job.options["socket"] == socket]
    live = {each.output: each for each in _unless_ending(client, mine, _jobs(client, patience))}
    # New ids of the jobs by old ones, for those that start after them.
    ids = {each.id: each.id for each in live.values()}
    for job in mine:
        if job.output not in live:
            _resume(client, job, ids)
        elif _is_ending(live[job.output]):
            say(
                f"{job.title} was interrupted, but other processes of it remain: once they have"
                " ended, tfm submit --resume submits it again"
            )


def _is_ending(job: JobStatus) -> bool:
    """Return whether a job has lost its main process, and nobody keeps it."""
    return bool(job.remaining and job.output and not is_kept(Path(job.output), job.user))


def _unless_ending(
    client: Client, stored: Sequence[StoredJob], live: list[JobStatus]
) -> list[JobStatus]:
    """Return the live jobs, once what was killed has ended; after some seconds in any case."""
    outputs = {each.output for each in stored}
    deadline = time.monotonic() + _ENDING_SECONDS
    while any(_is_ending(job) for job in live if job.output in outputs):
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
        live = client.jobs()
    return live


def _jobs(client: Client, patience: float) -> list[JobStatus]:
    deadline = time.monotonic() + patience
    while True:
        try:
            return client.jobs()
        except NoAnswerError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


def _resume(client: Client, job: StoredJob, ids: dict[str, str]) -> None:
    """Submit a job again, unless it is kept; add its new id."""
    output = Path(job.output)
    claimed = claim(output)
    if claimed is None:
        return
    try:
        # It may have ended since, or have been resumed by another process.
        known = stored_job(output)
        if known is None:
            return
        if _is_over(client, known):
            forget(output)
            return
        again = known.next_attempt()
        if again is None:
            forget(output)
            click.echo(
                f"{known.title} was interrupted and does not run again: it has neither --requeue"
                " nor --retries left"
            )
            return
        os.ftruncate(claimed, 0)  # It has the exit of the attempt that was interrupted.
        number = _submit_again(again, ids)
        if number is None:
            say(f"{known.title} stays stored; tfm submit --resume tries again")
            return
        if known.job is not None:
            ids[known.job] = number
        how = "was interrupted and is submitted again" if known.started else "waits again"
        click.echo(f"{known.title} {how} as job {number}")
    finally:
        os.close(claimed)


def _is_over(client: Client, job: StoredJob) -> bool:
    """Return whether a job whose keeper was killed has ended by itself, or was cancelled."""
    if not job.started or job.job is None:
        return False
    record = find_ended(client, job.job)
    is_same = record is not None and record.output == job.output
    return is_same and record is not None and record.outcome in ("finished", "cancelled")


def _submit_again(job: StoredJob, ids: Mapping[str, str]) -> str | None:
    """Submit a job from a process of its own, as of its user; return its id, None on failure."""
    after = tuple(ids[each] for each in job.options["after"] if each in ids)
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = fork()
    if not child:
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
        _become(job, after)
    os.close(writing)
    with open(reading) as pipe:
        number = pipe.readline().strip()
    os.waitpid(child, 0)
    return number or None


def _become(job: StoredJob, after: tuple[str, ...]) -> NoReturn:
    code = 1
    try:
        os.chdir(job.folder)
        os.umask(job.umask)
        os.environ.clear()
        os.environ.update(job.environment)
        start(job.run_options(after), job)
    except OSError as error:
        say(f"cannot use {job.folder}, the folder of {job.title}: {error.strerror}")
    except (OperationError, ValueError) as error:
        code = report(error)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)
