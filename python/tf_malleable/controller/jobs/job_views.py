# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Views of a live job for users and agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.messages import (
    JobStatus,
    LibraryThreads,
    ScheduledLimits,
    Speed,
    UsualLimits,
)
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import format_cpuset
from tf_malleable.model.pool import ThreadLibrary
from tf_malleable.model.units import cores as cores_of
from tf_malleable.model.units import short, size_text
from tf_malleable.scheduling.records import limit_schedule as records
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.metrics import rounded


def grant_line(live: LiveJob) -> GrantLine:
    """Return a job's grant as its agents see it."""
    grant = live.record.grant
    return GrantLine(
        live.record.serial,
        live.record.state,
        sorted(grant.cpus),
        sorted(grant.lent),
        confined=live.container is not None,
        gpus=None if live.record.gpus is None else list(live.record.gpus),
    )


def job_status(
    live: LiveJob, now: float, submitter: int | None = None, reason: str | None = None
) -> JobStatus:
    """Return a job's state as users see it.

    Args:
        live: The job.
        now: Unix time in seconds.
        submitter: Pid of the process that has submitted the job with this request; None for
            other requests.
        reason: Reason why the job has no cores or has not ended; None if there is none, or it is
            unknown.
    """
    record = time_accounts.up_to(live.record, now)
    main = record.process if record.main_ended is None else None
    pid = None if main is None else main.pid
    return JobStatus(
        id=record.id,
        name=record.name,
        command=list(record.command),
        user=user_name(record.uid),
        pid=pid,
        container=record.container,
        state=record.state,
        min=record.shape.min,
        preferred=record.shape.preferred,
        max=record.shape.max,
        priority=record.priority,
        weight=record.weight,
        output=record.output,
        after=list(record.after),
        after_ok=list(record.after_ok),
        array=record.array,
        group=record.group,
        time_limit=record.time_limit,
        desired=record.shape.preferred if record.by_hand is None else record.by_hand,
        granted=sorted(record.grant.cpus),
        lent=sorted(record.grant.lent),
        actual=sorted(live.delivery.in_use),
        by_hand=record.by_hand,
        paused_by_user=record.held,
        held=record.held,
        stopped=live.stopped,
        malleable=bool(live.delivery.agents) and record.state != "waiting",
        confined=why_confined(live),
        pools=pools(live),
        # A container was started with its grant, so its processes need not wait for one.
        is_caller=live.container is None and pid is not None and pid == submitter,
        submitted=record.submitted,
        started=record.started,
        waiting_seconds=record.waiting_seconds,
        run_seconds=record.run_seconds,
        paused_seconds=record.paused_seconds,
        resizes=record.resizes,
        steps_done=live.measured.speed.steps,
        steps_total=live.measured.speed.total,
        steps_per_second=live.measured.speed.recent if record.state == "running" else None,
        expected_seconds=live.expected_seconds,
        startup_seconds=live.measured.lessons.startup_seconds,
        used_cpus=live.used_cpus,
        speeds=[Speed(rate.cores, rate.steps_per_second) for rate in live.measured.rates],
        mem=record.mem,
        expected_mem=live.measured.lessons.peak_mem,
        used_mem=live.measured.used_mem,
        peak_mem=live.measured.peak_mem,
        gpus=record.gpus_wanted,
        granted_gpus=list(record.gpus or ()),
        lacks=live.lack,
        elastic=live.measured.elastic,
        reading=live.measured.usage.reading,
        area=record.area,
        energy_joules=rounded(record.energy_joules),
        energy_source=record.energy_source,
        watts=rounded(live.measured.usage.watts) if record.state == "running" else None,
        main_ended=record.main_ended,
        exit_code=record.exit_code,
        cause=record.cause,
        remaining=0 if record.main_ended is None else len(live.processes.tree),
        reason=reason,
        between=None if record.window is None else record.window.between,
        days=None if record.window is None else record.window.days_text,
        schedule=[_scheduled(each) for each in record.schedule],
        usual_limits=_usual(record),
        slo=None if record.slo is None else record.slo.text,
        latency=live.measured.latencies.shown(record.slo, now),
        as_of=now,
    )


def _scheduled(limits: records.WindowLimits) -> ScheduledLimits:
    window = limits.window
    return ScheduledLimits(
        window.between, window.days_text, limits.cores, limits.max, limits.priority
    )


def _usual(record: Record) -> UsualLimits | None:
    usual = record.usual_limits
    if usual is None:
        return None
    return UsualLimits(usual.by_hand, usual.shape.max, usual.priority)


def pools(live: LiveJob) -> list[LibraryThreads]:
    """Return the libraries with threads of their own that a job's processes have loaded."""
    pids: defaultdict[ThreadLibrary, list[int]] = defaultdict(list)
    for pid in sorted(live.processes.libraries):
        for library in live.processes.libraries[pid]:
            pids[library].append(pid)
    cpus = 0 if live.delivery.splitters else len(live.delivery.in_use)
    return [
        LibraryThreads(each.name, each.follows, _limit(each, cpus), each.capacity, pids[each])
        for each in pids
    ]


def _limit(library: ThreadLibrary, cpus: int) -> int | None:
    if library.capacity is None or not cpus:
        return None
    return min(cpus, library.capacity, library.bound or library.capacity)


def why_confined(live: LiveJob) -> str | None:
    """Return why threads of a job do not follow its grants; None if nothing is known of that.

    The kernel confines such a job to its CPUs all the same.
    """
    if not live.processes.fixed:
        return None
    first = min(live.processes.fixed)
    library = live.processes.fixed[first]
    others = list(live.processes.fixed.values()).count(library) - 1
    where = f"processes {first} and {others} more" if others else f"process {first}"
    return not_malleable(library, where)


def not_malleable(library: str, where: str) -> str:
    """Return the sentence that a library does not follow grants.

    Args:
        library: Its name; TensorFlow's if that is not ours.
        where: Which processes have loaded it.
    """
    why = ", as tf_malleable is not loaded there" if library == "TensorFlow" else ""
    return (
        f"{library} in {where} is not malleable{why}: it keeps the threads that it has started with"
    )


def why_not_over(live: LiveJob) -> str | None:
    """Return why a job lasts although its main process has ended; None if that runs."""
    if live.record.main_ended is None:
        return None
    code, number = live.record.exit_code, live.record.signal
    how = "has ended" if code is None else f"has ended with exit code {code}"
    if number is not None:
        how = f"was ended by signal {number}"
    count = len(live.processes.tree)
    remain = "1 process remains" if count == 1 else f"{count} processes remain"
    return f"its main process {how}; {remain}"


def why_narrowed(live: LiveJob) -> str | None:
    """Return why a job cannot use all granted CPUs; None if it can."""
    if (narrowed := live.delivery.narrowed) is None:
        return None
    granted = live.record.grant.cpus
    return (
        f"its processes may use CPUs {format_cpuset(narrowed)}, not all of the granted CPUs"
        f" {format_cpuset(granted)}: somebody has confined them with taskset or a cpuset"
    )


def why_late(live: LiveJob, older: Sequence[LiveJob], now: float) -> str | None:
    """Return why a service does not keep its objective; None if it does, or has none.

    Args:
        live: The job.
        older: Services with an objective that come before it.
        now: Unix time in seconds.
    """
    slo, own = live.record.slo, live.record.grant.own
    if slo is None:
        return None
    load = live.measured.latencies.load(slo, now)
    if load.worst <= slo.seconds:
        return None
    what = f"requests wait for {short(load.queue)}"
    if load.tail is not None and load.tail > slo.seconds:
        what = f"p{slo.percentile:g} is {short(load.tail)}"
    why = f"with {cores_of(len(own))}, and it gets more as soon as there are any"
    if len(own) >= live.record.shape.max:
        why = f"with all {cores_of(len(own))} that it may have"
    elif older:
        which = ", ".join(f"{each.record.id} ({each.record.name})" for each in older)
        why = f"with {cores_of(len(own))}, as older services come first: job {which}"
    return f"its objective {slo.text} is not kept: {what} {why}"


def why_not(live: LiveJob, before: Sequence[LiveJob] = ()) -> str:
    """Return why a job cannot start now, as the beginning of a sentence about it.

    Args:
        live: The job.
        before: Live jobs that must end before it starts.
    """
    if before:
        return "other jobs have not ended: the job starts after them"
    if live.outside and live.record.window is not None:
        return f"the job may run only {live.record.window.phrase}"
    record = live.record
    need = record.mem if record.mem is not None else live.measured.lessons.peak_mem
    if live.lack == "memory":
        mem = "an unknown amount of memory" if need is None else f"{size_text(need)} of memory"
        return f"too little memory is free: the job needs {mem}"
    if live.lack == "memory quota":
        mem = "an unknown amount" if need is None else size_text(need)
        user = user_name(record.counted_for)
        return f"too little memory is left in the quota of user {user}: the job needs {mem}"
    if live.lack == "gpu quota":
        user, gpus = user_name(record.counted_for), record.gpus_wanted
        return f"too few GPUs are left in the quota of user {user}: the job needs {gpus}"
    if live.lack == "gpus":
        return f"too few GPUs are free: the job needs {record.gpus_wanted}"
    if live.lack == "jobs":
        return "as many jobs run as may run at a time: the job would be one more"
    return f"too few cores are free: the job needs {record.shape.min}"
