# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Admission: checks whether a new job fits this machine, and creates its record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.jobs.provision import Provision
from tf_malleable.controller.quotas.quota_check import QuotaCheck
from tf_malleable.controller.state.store import Store, StoreError
from tf_malleable.linux.processes.priority import unpinned_cpus
from tf_malleable.linux.processes.subordinate_uids import account_of
from tf_malleable.model import Machine, ProcessId, Shape, format_cpuset
from tf_malleable.model.quota import NO_QUOTAS
from tf_malleable.model.schedules.time_window import parse_window
from tf_malleable.model.services.slo import Slo, parse_slo
from tf_malleable.model.units import cores as cores_of
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record

_NO_QUOTAS = QuotaCheck(NO_QUOTAS)


@dataclass(frozen=True)
class Admission:
    """Admits new jobs.

    Attributes:
        machine: Returns the CPUs that are currently shared out.
        store: Assigns job ids.
        provision: Resources shared out other than cores.
        quotas: Refuses requests that exceed a quota.
        live: Returns the live jobs, which count toward quotas.
    """

    machine: Callable[[], Machine]
    store: Store
    provision: Provision = field(default_factory=Provision)
    quotas: QuotaCheck = _NO_QUOTAS
    live: Callable[[], Iterable[Record]] = tuple

    @property
    def cpus(self) -> int:
        """Number of CPUs that are currently shared out."""
        return len(self.machine().cpus)

    def check_new(self, request: JobRequest, pid: int, uid: int, *, running: bool) -> None:
        """Check a request of a process of the host.

        A process that was confined, for example by taskset, must not be granted further CPUs.
        A process that is already running may have been confined by an earlier grant.

        Raises:
            Refusal: As check(), or 409 if the process may not use all CPUs shared out, or the
                job would exceed the user's quota.
        """
        shape = self.check(request, running=running)
        self.quotas.new(account_of(uid), request, shape, self.live(), running=running)
        if request.slo is not None and not running:
            self.check_slo(parse_slo(request.slo), shape)
        try:
            allowed = frozenset(os.sched_getaffinity(pid))
        except OSError:
            return  # The process has ended; that is noticed later.
        # CPUs that the controller may not use itself do not show whether the process was confined.
        shared = self.machine().cpuset & unpinned_cpus()
        if not running and not shared <= allowed:
            raise Refusal(
                409,
                f"the calling process may use only CPUs {format_cpuset(allowed)}, not all of"
                f" {format_cpuset(shared)}, which are shared out here: start it without taskset"
                " and the like, and limit its cores with --max",
            )

    def check_slo(self, slo: Slo, shape: Shape, job: str | None = None) -> None:
        """Check whether a service may have an objective beside those of the other services.

        Args:
            slo: The objective.
            shape: Shape of the service.
            job: Id of its job; None for a new one.

        Raises:
            Refusal: 409; the services with objectives would need more cores than there are.
        """
        others = [each for each in self.live() if each.slo is not None and each.id != job]
        held = sum(each.shape.min for each in others)
        if held + shape.min > self.cpus:
            beside = f"{'jobs' if len(others) > 1 else 'job'} {', '.join(e.id for e in others)}"
            raise Refusal(
                409,
                f"the objective {slo.text} cannot be kept here: with at least"
                f" {cores_of(shape.min)} beside the {cores_of(held)} of {beside}, services need"
                f" more than the {cores_of(self.cpus)} that are shared out",
            )

    def check(self, request: JobRequest, *, running: bool = False) -> Shape:
        """Return the requested shape. More cores than are shared out stand for all of them.

        Args:
            request: Request of the job.
            running: True if the job is already running.

        Raises:
            Refusal: 400; no job on this machine can have so many cores at least, or these
                resources.
        """
        if request.min > self.cpus:
            raise Refusal(
                400,
                f"min must be at most {self.cpus}, the number of CPUs shared out here,"
                f" not {request.min}",
            )
        self.provision.check(request, running=running)
        try:
            most = self.cpus if request.max is None else min(request.max, self.cpus)
            preferred = most if request.preferred is None else min(request.preferred, most)
            return Shape(request.min, preferred, most)
        except ValueError as error:
            raise Refusal(400, str(error)) from None

    def record(
        self,
        request: JobRequest,
        uid: int,
        now: float,
        process: ProcessId | None,
        container: ContainerInfo | None = None,
        *,
        running: bool,
    ) -> Record:
        """Return the record of a job that arrives now.

        Args:
            request: Request of the job.
            uid: User id of the job.
            now: Unix time in seconds.
            process: Main process of the job; None if it does not exist yet.
            container: Container of the job; None for processes of the host.
            running: True if the job is already running, so that it does not wait in the queue.

        Raises:
            Refusal: As check(), 409 if the job would exceed the user's quota, or 503 if the
                state file accepts no more jobs.
        """
        shape = self.check(request, running=running)
        window = None
        if request.between is not None:
            window = parse_window(request.between, request.days)
        account = account_of(uid)
        self.quotas.new(account, request, shape, self.live(), running=running)
        try:
            number = self.store.next_id()
        except StoreError as error:
            raise Refusal(503, f"cannot accept more jobs: {error}") from None
        record = Record(
            id=number,
            name=request.name,
            command=request.command,
            process=process,
            uid=uid,
            shape=shape,
            priority=request.priority,
            weight=request.weight,
            submitted=now,
            entered=now,
            since=now,
            container=container,
            mem=request.mem,
            gpus_wanted=request.gpus,
            time_limit=request.time_limit,
            expected=request.expected,
            after=request.after,
            array=request.array,
            at_once=request.at_once,
            output=request.output,
            area=request.area,
            kill_leftovers=request.kill_leftovers,
            window=window,
            after_ok=request.after_ok,
            group=request.group,
            slo=None if request.slo is None else parse_slo(request.slo),
            account=None if account == uid else account,
        )
        return time_accounts.joined(record, now) if running else record
