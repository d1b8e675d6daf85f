# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Message types of the requests to the controller, with bounds. Durations are in seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.job_names import (
    AREA,
    LONGEST_AREA,
    LONGEST_COMMAND,
    LONGEST_NAME,
    MOST_ARGUMENTS,
)
from tf_malleable.api.schema.job_request import (
    LEAST_MEM,
    LONGEST_ID,
    LONGEST_PATH,
    MOST_AFTER,
    MOST_CORES,
    MOST_GPUS,
    MOST_INDICES,
    MOST_MEM,
    MOST_PRIORITY,
    MOST_SECONDS,
    MOST_WEIGHT,
    JobRequest,
)
from tf_malleable.api.schema.services.request_latency import RequestReport
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.model.services.slo import LONGEST_SLO
from tf_malleable.model.units import SIZE_PATTERN, parse_size

Cores = Annotated[int, Meta(ge=1, le=MOST_CORES)]
# In bytes, or a text such as 4G.
Size = Annotated[int, Meta(ge=LEAST_MEM, le=MOST_MEM)] | Annotated[str, Meta(pattern=SIZE_PATTERN)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# Small enough that the next integer is a different float, and so is refused.
Steps = Annotated[float, Meta(ge=0, le=10**15)]
# Names are printed on terminals, so they have no control characters. To Python, $ alone would match
# before a newline at the end, too.
Name = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$(?!\n)")
]
Area = Annotated[str, Meta(min_length=1, max_length=LONGEST_AREA, pattern=rf"^{AREA}$(?!\n)")]
Seconds = Annotated[float, Meta(gt=0, le=MOST_SECONDS)]
Argument = Annotated[str, Meta(max_length=LONGEST_COMMAND)]
SloText = Annotated[str, Meta(max_length=LONGEST_SLO)]
WindowText = Annotated[str, Meta(max_length=40)]
JobId = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all requests. Unknown fields are refused."""


class Asked(Request, frozen=True):
    """Numbers of a job request.

    Attributes:
        min: Minimum number of cores; the job does not run with fewer.
        preferred: Number of cores asked for; by default max.
        max: Maximum number of cores; by default all of the machine's.
        priority: Priority; higher goes first.
        weight: Share relative to other jobs, if the policy uses it.
        mem: Upper bound of the memory needed: bytes, or a text such as 512M or 4G. Null if
            unknown; then it is learned. Where cgroups allow it, a job never gets more.
    """

    min: Cores = 1
    preferred: Cores | None = None
    max: Cores | None = None
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    weight: Annotated[float, Meta(gt=0, le=MOST_WEIGHT)] = 1.0
    mem: Size | None = None

    def numbers(self) -> dict[str, Any]:
        """Return the numbers by name, sizes in bytes.

        Raises:
            ValueError: `mem` is a text that is not a size.
        """
        values = {name: getattr(self, name) for name in Asked.__struct_fields__}
        if isinstance(self.mem, str):
            values["mem"] = parse_size(self.mem)
        return values


class Submission(Asked, frozen=True, kw_only=True):
    """Submission of the calling process as a job. The kernel identifies it (SO_PEERCRED).

    Attributes:
        name: Name of the job; measured speeds are remembered by it.
        command: Program and arguments, for display, at most 4096 characters in all.
        min: Minimum number of cores; the job does not run with fewer.
        preferred: Number of cores asked for; by default max.
        max: Maximum number of cores; by default all of the machine's.
        priority: Priority; higher goes first.
        weight: Share relative to other jobs, if the policy uses it.
        mem: Upper bound of the memory needed: bytes, or a text such as 512M or 4G. Null if
            unknown; then it is learned. Where cgroups allow it, a job never gets more.
        gpus: Number of GPUs needed.
        output: Path of the output file, for `tfm logs`; null if unknown.
        time_limit: Time with cores after which the job is ended; null for no limit.
        expected: Expected run time; by default learned from earlier runs.
        after: Ids of jobs that must have ended, in whatever way, before this one starts.
        array: Name of the job's array, unique per user; null for none.
        at_once: Maximum number of jobs of the array that have started and not ended; null for all.
        area: Area that the job's energy is counted for; null for the host's.
        kill_leftovers: True to kill processes that outlive the calling process, false to let the
            job last until its last process has ended.
        between: Part of the day in which the job may run, in local time, such as
            ``"22:00-07:00"``; null for any time.
        days: Days on which that begins, such as ``"mon-fri"``; null for all.
        after_ok: Ids of jobs that must have ended with exit code 0 before this one starts; if one
            of them ends otherwise, or has done so, this one is cancelled.
        group: Name of the job's group, which its user has chosen; null for none.
        slo: Objective of a service, such as ``"p99=50ms"``; null for none.
        queue: True to wait until there are cores, false to be refused instead.
        running: True if the process is already computing, so that it joins without queueing.
    """

    name: Name
    command: Annotated[list[Argument], Meta(max_length=MOST_ARGUMENTS)] = []
    gpus: Annotated[int, Meta(ge=0, le=MOST_GPUS)] = 0
    output: Annotated[str, Meta(min_length=1, max_length=LONGEST_PATH)] | None = None
    time_limit: Seconds | None = None
    expected: Seconds | None = None
    after: Annotated[list[JobId], Meta(max_length=MOST_AFTER)] = []
    array: Name | None = None
    at_once: Annotated[int, Meta(ge=1, le=MOST_INDICES)] | None = None
    area: Area | None = None
    kill_leftovers: bool = False
    between: WindowText | None = None
    days: WindowText | None = None
    after_ok: Annotated[list[JobId], Meta(max_length=MOST_AFTER)] = []
    group: Name | None = None
    slo: SloText | None = None
    queue: bool = True
    running: bool = False

    @property
    def request(self) -> JobRequest:
        """The job request.

        Raises:
            ValueError: The numbers contradict each other.
        """
        return JobRequest(
            self.name,
            tuple(self.command),
            gpus=self.gpus,
            time_limit=self.time_limit,
            expected=self.expected,
            after=tuple(self.after),
            array=self.array,
            at_once=self.at_once,
            output=self.output,
            area=self.area,
            kill_leftovers=self.kill_leftovers,
            between=self.between,
            days=self.days,
            after_ok=tuple(self.after_ok),
            group=self.group,
            slo=self.slo,
            **self.numbers(),
        )


class Acknowledgement(Request, frozen=True):
    """Acknowledgement of an agent that has applied the grant with this serial number.

    From now on the agent's process runs on the granted CPUs only.

    Attributes:
        serial: Serial number of the grant.
        settled: True if no pool has more active workers than its limit, so that workers no
            longer share these CPUs.
    """

    serial: Count
    settled: bool = True


class Progress(Request, frozen=True):
    """Progress of a job, as its agent reports it. Fields are null if unknown.

    Attributes:
        steps_done: Training steps since the process started.
        steps_total: Training steps at the end of the process.
        cpu_seconds: CPU time of the process so far.
        active: Number of workers of TensorFlow's pools that are running a task.
        queued: Number of tasks waiting in TensorFlow's pools.
        threads: Intra-op limit in force; null without TensorFlow.
        elastic: State of the elastic training; null for other jobs.
        reading: Bytes and files read through a data tier; null without one.
        requests: Requests that the process has served since its last report; null for none.
        regions: Parallel regions of OpenMP so far, of a process that reports no steps.
    """

    steps_done: Steps | None = None
    steps_total: Steps | None = None
    cpu_seconds: Annotated[float, Meta(ge=0, le=10**15)] | None = None
    active: Count | None = None
    queued: Count | None = None
    threads: Count | None = None
    elastic: Elastic | None = None
    reading: TierReading | None = None
    requests: RequestReport | None = None
    regions: Steps | None = None


class ByHand(Request, frozen=True):
    """Cores to set by hand; null returns the job to the policy."""

    cores: Cores | None


class PreviewQuery(Request, frozen=True):
    """Change of a job whose effect is to be previewed.

    Attributes:
        change: Kind of the change.
        cores: Number of cores to set by hand; 0 returns the job to the policy.
        priority: New priority.
    """

    change: Literal["cores", "priority", "pause", "resume", "cancel"] = "cores"
    cores: Annotated[int, Meta(ge=0, le=MOST_CORES)] = 0
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0


class JobChange(Request, frozen=True):
    """Change of a job's request; null leaves a field as it is.

    Attributes:
        priority: New priority; higher goes first.
        max: New maximum number of cores.
        slo: New objective, such as ``"p99=50ms"``; ``"none"`` for none.
    """

    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = None
    max: Cores | None = None
    slo: SloText | None = None


class LimitsBetween(Request, frozen=True):
    """Limits of a job inside a time window, instead of its others; at least one.

    They replace those of the same window. Of windows that overlap, the one that was given last
    counts.

    Attributes:
        between: Part of the day, in local time, such as ``"22:00-07:00"``.
        days: Days on which it begins, such as ``"mon-fri"``; null for all.
        cores: Number of cores, as if set by hand; null leaves it as it is outside.
        max: Maximum number of cores; null leaves it as it is outside.
        priority: Priority; null leaves it as it is outside.
    """

    between: WindowText
    days: WindowText | None = None
    cores: Cores | None = None
    max: Cores | None = None
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = None


class PolicyChange(Request, frozen=True):
    """Change to another policy.

    Attributes:
        policy: Name and options of the policy, for example ``"priority-strict:ageing=60"``.
    """

    policy: Name


class ContainerTaken(Request, frozen=True):
    """Container that is to become a job.

    Attributes:
        container: Id or name of the container.
    """

    container: Name
