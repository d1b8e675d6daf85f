# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Enforcement of grants from outside the jobs: confines, stops, resumes and ends them.

Processes of the host are changed through the kernel. Containers are changed through their
engine, as its view of them would otherwise be wrong.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Mapping, Sequence

from tf_malleable.controller.clock import Clock
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.processes import processes
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes import affinity, signals
from tf_malleable.model import Cpuset, Grant, format_cpuset
from tf_malleable.scheduling.decision.decision import Change
from tf_malleable.scheduling.records import time_accounts

_UNCHANGED: Cpuset = frozenset()
# Part of the cores that lenders use themselves up to which it is not they who leave a borrower less
# than half: as long as it is spared, their requests are late.
_IDLE = 0.1

_log = logging.getLogger(__name__)


class Enforcer:
    """Carries out decisions. Not thread-safe: one asyncio loop.

    Attributes:
        weights: Weights of the jobs' CPU time; None if jobs have none.
    """

    weights: CpuWeights | None = None

    def __init__(
        self, jobs: Mapping[str, LiveJob], store: Store, clock: Clock, instruments: Instruments
    ) -> None:
        """Create an enforcer.

        Args:
            jobs: Live jobs by id, as a live view.
            store: Keeps records and spans.
            clock: Clock of all records.
            instruments: Counts resizes and pauses, and measures the time to acknowledge.
        """
        self._jobs = jobs
        self._store = store
        self._clock = clock
        self._instruments = instruments

    def apply(self, changes: Sequence[Change], now: float) -> None:
        """Carry out changes of grants, in the given order."""
        planned = self._plan_weights(changes)
        for change in changes:
            live = self._jobs[change.job]
            before = live.take(change.grant, now)
            if before.since < now:
                self._store.add_span(time_accounts.span(before, now))
            if _log.isEnabledFor(logging.INFO):
                _log.info("%s: granted %s", live.record.title, _in_words(change.grant))
            if live.record.resizes > before.resizes:
                self._instruments.resizes.inc()
            if not change.grant:
                self._pause(live)
            elif live.suspended or before.state == "paused":
                enforce(live)
                resume(live)
            elif not live.delivery.agents or live.container is not None:
                enforce(live)
            else:
                confine_agentless(live, live.processes.tree)
            self._store.save(live.record)
            self.settle(live)
        if planned is not None:
            # Also of jobs whose grant is the same, but not borrowed any more.
            for live in self._jobs.values():
                planned.carry_out(live)

    def _plan_weights(self, changes: Sequence[Change]) -> CpuWeights | None:
        """Plan the weights of all jobs, and return them; None if there is nothing to change."""
        if self.weights is None or not (changes or self.weights.is_stale):
            return None
        grants = {job: live.record.grant for job, live in self._jobs.items()}
        grants.update((change.job, change.grant) for change in changes)
        self.weights.plan(grants)
        return self.weights

    def settle(self, live: LiveJob) -> None:
        """Mark a job's grant as actual if it was carried out and acknowledged."""
        seconds = live.settle(self._clock.now())
        if seconds is not None:
            self._instruments.acknowledgements.observe(seconds)
        if self.weights is not None:
            self.weights.carry_out(live)

    def spare(self, live: LiveJob) -> None:
        """Give a borrower some weight that others than its lenders leave without CPU time."""
        if self.weights is None or not self.weights.is_to_stand_back(live):
            return
        grants = ((each, each.record.grant) for each in self._jobs.values())
        lenders = [each for each, own in grants if own.cpus & own.lent & live.record.grant.cpus]
        shared = sum(len(each.record.grant.cpus) for each in lenders)
        # What is unknown, as just after a change, may be much.
        busy = sum(shared if each.used_cpus is None else each.used_cpus for each in lenders)
        self.weights.spare(live, is_spared=busy <= _IDLE * shared)

    def _pause(self, live: LiveJob) -> None:
        if live.record.state == "paused" and not live.is_inactive:
            self._instruments.pauses.inc()
            _log.info("%s: paused", live.record.title)
            suspend(live)


def _in_words(grant: Grant) -> str:
    cpus = f"CPUs {format_cpuset(grant.cpus)}" if grant.cpus else "no CPUs"
    return f"{cpus}, lends CPUs {format_cpuset(grant.lent)}" if grant.lent else cpus


def enforce(live: LiveJob) -> None:
    """Enforce a job's grant from outside; for processes, by CPU affinity.

    For a container, it is checked later whether the grant took effect.
    """
    cpus = live.record.grant.cpus
    if live.container is not None and cpus:
        live.container.carry_out(cpus, frozen=False)
        return
    if cpus:
        _confine(live, live.processes.tree)
    live.delivery.note_enforced()


def confine_agentless(live: LiveJob, pids: Iterable[int]) -> None:
    """Confine the processes of a running job that have no agent."""
    cpus = live.record.grant.cpus
    if live.record.state == "running" and cpus and live.container is None:
        _confine(live, [pid for pid in pids if pid not in live.delivery.agents])


def _confine(live: LiveJob, pids: Iterable[int]) -> None:
    # A splitter gives each other process a part of the grant, so these are only narrowed.
    confine = affinity.narrow if live.delivery.splitters else affinity.confine
    confine(processes.present(live, pids), live.record.grant.cpus)


def suspend(live: LiveJob) -> None:
    """Stop a job."""
    live.note_suspended(True)
    if live.container is not None:
        live.container.carry_out(_UNCHANGED, frozen=True)
    else:
        processes.stop_all(live)


def resume(live: LiveJob) -> None:
    """Let a job continue."""
    live.note_suspended(False)
    if live.container is not None:
        live.container.carry_out(live.record.grant.cpus, frozen=False)
    elif live.processes.group is not None:
        processes.send_to_all(live, [signal.SIGCONT])
    else:
        signals.send(live.processes.identities(live.record.process), signal.SIGCONT)


def terminate(live: LiveJob) -> None:
    """Ask a job to end: SIGTERM to its main process, or to all processes if that has ended.

    The main process may have the others end in order, which they could not after a SIGTERM of
    their own.
    """
    live.note_suspended(False)
    if live.container is not None:
        live.container.end(by_force=False)
    elif live.record.main_ended is None:
        processes.terminate_main(live)
    else:
        terminate_rest(live)


def terminate_rest(live: LiveJob) -> None:
    """Send SIGTERM to those processes of a cancelled job that have not been sent it yet."""
    live.note_all_told()
    if live.container is None:
        processes.terminate_rest(live)


def kill(live: LiveJob) -> None:
    """End a job by force, with SIGKILL."""
    if live.container is not None:
        live.container.end(by_force=True)
    else:
        processes.kill_all(live)
