# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weights of the jobs' CPU time: carried out by the kernel, as far as it can.

Each job that has a cgroup of the cpu controller, or else a session, gets a weight in proportion to
its grant. Jobs on CPUs that others lend stand back, so that the lender preempts them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.cgroups import autogroup, cpu_cgroup, job_cgroup, systemd_scope
from tf_malleable.linux.cgroups.autogroup import AutogroupError, SessionWeight
from tf_malleable.linux.cgroups.cpu_cgroup import CpuCgroupError, CpuGroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.systemd_scope import ScopeError, Scopes
from tf_malleable.model import Grant, ProcessId
from tf_malleable.scheduling.decision import cpu_priority
from tf_malleable.scheduling.decision.cpu_priority import LIGHT, STANDS_BACK

# The kernel takes one weight of a session in a tenth of a second from a user.
_AGAIN_SECONDS: Final = 0.15
# systemd gives all scopes the usual weight when it loads its units again.
_RENEW_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CpuSupport:
    """What this host allows.

    Attributes:
        by: What has a weight of its own; None for nothing. Scopes are cgroups, too.
        raises: Whether a session may have more than the usual weight.
        text: The same for people, in one clause.
    """

    by: Literal["cgroup", "scope", "session"] | None
    raises: bool
    text: str


OFF: Final = CpuSupport(None, False, "off; borrowers leave when a lender wakes")


def support() -> CpuSupport:
    """Try what this host allows. This process must not have other threads yet."""
    try:
        return _by_group("cgroup", "by cgroup", has_idle=cpu_cgroup.probe().has_idle())
    except CpuCgroupError as error:
        no_group = str(error)
    if systemd_scope.manages():
        try:
            return _by_group(
                "scope", "by scope of systemd for jobs from logins", has_idle=systemd_scope.probe()
            )
        except ScopeError as error:
            no_group = str(error)
    try:
        raises = autogroup.probe()
    except AutogroupError as error:
        text = f"none: {no_group}, and {error}; borrowers leave when a lender wakes"
        return CpuSupport(None, False, text)
    if raises:
        text = "by session (autogroup), in proportion to cores; borrowers at the lowest weight"
    else:
        text = "by session (autogroup), only borrowers at the lowest: more needs CAP_SYS_NICE"
    return CpuSupport("session", raises, f"{text} ({no_group})")


def _by_group(by: Literal["cgroup", "scope"], text: str, *, has_idle: bool) -> CpuSupport:
    back = "in the idle class" if has_idle else "at the lowest weight (no cpu.idle)"
    return CpuSupport(by, True, f"{text}, in proportion to cores; borrowers {back}")


@dataclass
class _Weighed:
    """A job with a weight.

    Attributes:
        handle: What has the weight.
        session: Id of its session; None if it is a cgroup.
        courteous: Whether its user has started it with nice(1) or chrt(1), which count only among
            its own threads: it is not to weigh more than others on the host.
        now: Weight in force, in cores; None if unknown.
        wanted: Weight wanted, in cores; None for none.
        spared: Weight that it has in place of STANDS_BACK, as it was left without CPU time.
    """

    handle: CpuGroup | SessionWeight
    session: int | None = None
    courteous: bool = False
    now: float | None = None
    wanted: float | None = None
    spared: float | None = None

    @property
    def beside(self) -> Path | None:
        """Cgroup of whose time it has a part; None for that of the host, as a session."""
        return self.handle.folder.parent if isinstance(self.handle, CpuGroup) else None

    @property
    def due(self) -> float | None:
        """Weight to put in force, in cores; None for none."""
        if self.wanted == STANDS_BACK and self.spared is not None:
            return self.spared
        return self.wanted * LIGHT if self.wanted and self.courteous else self.wanted


class CpuWeights:
    """Weights of the live jobs. Not thread-safe but for make(): one asyncio loop.

    Attributes:
        text: What has a weight, or why nothing has, in one clause.
        is_stale: Whether a job has come or gone since plan() was called.
    """

    def __init__(self, support: CpuSupport) -> None:
        self.text = support.text
        self._support = support
        self._cpus = os.cpu_count() or 1
        self._has_groups = support.by in ("cgroup", "scope")
        self._scopes = Scopes()
        self._renewing: asyncio.TimerHandle | None = None
        self._jobs: dict[str, _Weighed] = {}
        self.is_stale = False

    def make(self, process: ProcessId) -> JobGroup | None:
        """Make the cgroup of a job, and what weighs it, ahead of attach(); None for none.

        The kernel may take milliseconds, and systemd tens of them.
        """
        group = None
        if self._support.by == "scope":
            try:
                group = self._scopes.make(process)
            except ScopeError as error:
                _log.info("process %d has no weight: %s", process.pid, error)
        group = group or job_cgroup.make(process)
        if group is not None and self._has_groups:
            cpu_cgroup.make(process, group)
        return group

    def attach(self, live: LiveJob, process: ProcessId) -> CpuGroup | None:
        """Find what can have the weight of a job, if anything can; return it if it is a cgroup."""
        self.is_stale = True
        group = live.processes.group
        if not self._has_groups:
            # An earlier controller may have left a job in the idle class.
            before = None if group is None else cpu_cgroup.made_before(process, group)
            if before is not None:
                before.weigh(1.0)
        if self._has_groups and group is not None:
            found = cpu_cgroup.make(process, group)
            if found is not None:
                self._jobs[live.record.id] = _Weighed(found, None, _is_courteous(process.pid))
                if self._support.by == "scope" and self._renewing is None:
                    self._renew_later()
            return found
        elif self._support.by == "session":
            self._attach_session(live, process)
        return None

    def _attach_session(self, live: LiveJob, process: ProcessId) -> None:
        session = autogroup.session_of(process.pid)
        if session is None:
            return
        others = [job for job, each in self._jobs.items() if each.session == session]
        for job in others:  # One weight cannot be for two jobs.
            _reset(self._jobs.pop(job))
        if not others:
            handle = SessionWeight(process, self._support.raises)
            self._jobs[live.record.id] = _Weighed(handle, session, _is_courteous(process.pid))

    def are_for(self, jobs: Collection[str]) -> bool:
        """Return whether each of these jobs has a weight beside the others'.

        If so, any may preempt any other.
        """
        found = [self._jobs.get(job) for job in jobs]
        return None not in found and len({each.beside for each in found if each is not None}) <= 1

    def plan(self, grants: Mapping[str, Grant]) -> None:
        """Note the weights of all jobs for these grants, before they are carried out.

        Weights that fall are in force at once; those that rise are after carry_out(), as a
        borrower may not have left yet.
        """
        self.is_stale = False
        for job, weight in cpu_priority.weights(grants).items():
            weighed = self._jobs.get(job)
            if weighed is not None:
                if weight != weighed.wanted:
                    weighed.wanted, weighed.spared = weight, None
                if weighed.now is None or weight < weighed.now:
                    self._put(weighed)

    def carry_out(self, live: LiveJob) -> None:
        """Put the weight of a job in force, whose grant has been carried out or is unchanged."""
        weighed = self._jobs.get(live.record.id)
        if weighed is not None and (live.delivery.published is None or live.delivery.enforced):
            self._put(weighed)

    def is_to_stand_back(self, live: LiveJob) -> bool:
        """Return whether all cores that a job uses are borrowed."""
        weighed = self._jobs.get(live.record.id)
        return weighed is not None and weighed.wanted == STANDS_BACK

    def spare(self, live: LiveJob, *, is_spared: bool) -> None:
        """Have a job that is to stand back do so, or have some weight instead."""
        weighed = self._jobs[live.record.id]
        weighed.spared = LIGHT * len(live.record.grant.own) if is_spared else None
        self._put(weighed)

    def drop(self, live: LiveJob) -> CpuGroup | None:
        """Forget a job, and give what is left of it the usual weight; return its cgroup, if any."""
        weighed = self._jobs.pop(live.record.id, None)
        if weighed is None:
            return None
        # Another job may have borrowed from it, and does not any more.
        self.is_stale = True
        _reset(weighed)
        return weighed.handle if isinstance(weighed.handle, CpuGroup) else None

    def _renew_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._renewing = loop.call_later(_RENEW_SECONDS, self._renew) if self._jobs else None

    def _renew(self) -> None:
        """Put the weights in force that are, in case that systemd has reset them."""
        for weighed in self._jobs.values():
            if weighed.now is not None:
                self._set(weighed, weighed.now)
        self._renew_later()

    def _put(self, weighed: _Weighed) -> None:
        due = weighed.due
        if due is not None and due != weighed.now:
            self._set(weighed, due)

    def _set(self, weighed: _Weighed, due: float) -> None:
        core = cpu_priority.core_weight(weighed.handle.most, self._cpus)
        try:
            if due == STANDS_BACK:
                weighed.handle.stand_back()
            else:
                weighed.handle.weigh(due * core)
        except BlockingIOError:
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._put, weighed)
        else:
            weighed.now = due


def _is_courteous(pid: int) -> bool:
    try:
        is_idle = os.sched_getscheduler(pid) == os.SCHED_IDLE
        return is_idle or os.getpriority(os.PRIO_PROCESS, pid) > 0
    except OSError:  # It has ended.
        return False


def _reset(weighed: _Weighed) -> None:
    """Give a job the usual weight, as without a controller."""
    weighed.wanted = None
    with suppress(BlockingIOError):
        weighed.handle.weigh(1.0)
