# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Resumption of stored jobs: submits again what a reboot or a kill has interrupted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from tf_malleable.api.schema.history import Outcome
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import claim, is_kept, output_folder
from tf_malleable.cli.background.stored_job import StoredJob, forget, stored_job, stored_jobs
from tf_malleable.cli.background.submission import submit_in_child
from tf_malleable.cli.ended_jobs import find_ended
from tf_malleable.cli.launch.attempts import ENDING
from tf_malleable.cli.launch.start import start
from tf_malleable.cli.messages import say
from tf_malleable.model import OperationError

_POLL_SECONDS: Final = 0.2
# Time in which processes that are being killed end.
_ENDING_SECONDS: Final = 5.0
# Causes that a program has hardly itself.
_FROM_OUTSIDE: Final = frozenset(f"signal {number:d}" for number in (*ENDING, signal.SIGKILL))


def resume(socket: str, resuming: int | None, patience: float = 0.0) -> None:
    """Submit this user's stored jobs of a controller again that no process keeps, and say so.

    Args:
        socket: Absolute path of the controller's socket.
        resuming: Descriptor of begin_resumption(), which the jobs do not keep.
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
            _resume(client, job, ids, resuming)
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


def _resume(client: Client, job: StoredJob, ids: dict[str, str], resuming: int | None) -> None:
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
        own_end = _own_end(client, known)
        again = known.next_attempt(has_failed=own_end == "failed")
        if again is None or own_end in ("finished", "cancelled"):
            forget(output)
            if own_end is not None:
                return
            click.echo(
                f"{known.title} was interrupted and does not run again: it has neither --requeue"
                " nor --retries left"
            )
            return
        os.ftruncate(claimed, 0)  # It has the exit of the attempt that was interrupted.
        number = _submit_again(again, ids, resuming)
        if number is None:
            say(f"{known.title} stays stored; tfm submit --resume tries again")
            return
        if known.job is not None:
            ids[known.job] = number
        how = "was interrupted and is submitted again" if known.started else "waits again"
        how = how if own_end is None else "has failed and is submitted again"
        click.echo(f"{known.title} {how} as job {number}")
    finally:
        os.close(claimed)


def _own_end(client: Client, job: StoredJob) -> Outcome | None:
    """Return how a job whose keeper is gone has ended by itself, or that it was cancelled.

    None if it was interrupted, as by the signals before a reboot, which a program may handle.
    """
    if not job.started or job.job is None:
        return None
    record = find_ended(client, job.job)
    if record is None or record.output != job.output:
        return None
    if record.outcome == "failed":
        is_interrupted = job.is_interrupted or record.cause in _FROM_OUTSIDE
        return None if is_interrupted else "failed"
    return record.outcome if record.outcome in ("finished", "cancelled") else None


def _submit_again(job: StoredJob, ids: Mapping[str, str], resuming: int | None) -> str | None:
    """Submit a job from a process of its own, as of its user; return its id, None on failure."""

    def become() -> NoReturn:
        if resuming is not None:
            os.close(resuming)
        try:
            os.chdir(job.folder)
        except OSError as error:
            raise OperationError(
                f"cannot use {job.folder}, the folder of {job.title}: {error.strerror}"
            ) from None
        os.umask(job.umask)
        os.environ.clear()
        os.environ.update(job.environment)
        start(job.run_options(ids), job)

    _, numbers = submit_in_child(become)
    return numbers[0] if numbers else None
