# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Expected start of a job: the policy's next decisions, in virtual time. Pure.

Jobs run as long as is expected of them, and no others arrive. The result is an estimate under
any policy, and exact where run times are known and nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tf_malleable.model import NO_GRANT, Allocation, Grant, Job
from tf_malleable.policies.queues.remaining_work import expected_left, remaining_seconds, steps_left
from tf_malleable.scheduling.decision.decision import Candidate


@dataclass(frozen=True)
class ExpectedStart:
    """Expected start of a job.

    Attributes:
        at: Time of the start, on the clock of the jobs; None if it cannot be foreseen.
        guessed: True if the run time of a job that runs until then is not known.
    """

    at: float | None
    guessed: bool


def expected_start(
    decide: Callable[[Sequence[Candidate], float], Allocation],
    candidates: Sequence[Candidate],
    job: str,
    now: float,
    *,
    may_go_on: Callable[[], bool],
) -> ExpectedStart:
    """Return the expected start of a job.

    Args:
        decide: Returns the decision at a time.
        candidates: All jobs, in order of arrival.
        job: Id of one of the candidates.
        now: Current time.
        may_go_on: Called before each further decision; returns whether to make it.
    """
    guessed = False
    while True:
        allocation = decide(candidates, now)
        if allocation.grants.get(job):
            return ExpectedStart(now, guessed)
        candidates = [
            each._replace(job=_granted(each.job, allocation.grants.get(each.job.id), now))
            for each in candidates
        ]
        if any(_is_guessed(each.job) for each in candidates):
            guessed = True
            candidates = [each._replace(job=_with_guess(each.job)) for each in candidates]
        running = [each.job for each in candidates if each.job.grant]
        left = {each.id: remaining_seconds(each) for each in running}
        until = min(left.values(), default=math.inf)
        if allocation.review_at is not None and allocation.review_at > now:
            until = min(until, allocation.review_at - now)
        if until == math.inf or not may_go_on():
            return ExpectedStart(None, guessed)
        candidates = [
            each._replace(job=_advanced(each.job, until, left.get(each.job.id)))
            for each in candidates
            if left.get(each.job.id, math.inf) > until
        ]
        now += until


def _granted(job: Job, grant: Grant | None, now: float) -> Job:
    """Return a job after a decision."""
    if grant:
        started = now if job.started is None else job.started
        since = job.since if job.state == "running" else now
        return replace(job, grant=grant, state="running", started=started, since=since)
    if job.state != "running":
        return job
    return replace(job, grant=NO_GRANT, state="paused", since=now)


def _advanced(job: Job, seconds: float, left: float | None) -> Job:
    """Return a job after `seconds`; `left` is its time to run, None without cores."""
    if left is None:
        return job
    steps = steps_left(job)
    done = job.steps_done
    if steps is not None and done is not None:
        done += steps * seconds / left
    return replace(job, run_seconds=job.run_seconds + seconds, steps_done=done)


def _is_guessed(job: Job) -> bool:
    return bool(job.grant) and steps_left(job) is None and expected_left(job) is None


def _with_guess(job: Job) -> Job:
    """Return a job with a guess as its run time; guesses grow with the time it runs."""
    if not _is_guessed(job):
        return job
    return replace(job, expected_seconds=job.run_seconds + remaining_seconds(job))
