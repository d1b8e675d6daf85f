# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Types of the requests to the controller, with their bounds. Durations are in seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.elastic import Elastic
from tf_malleable.api.job_request import (
    LEAST_MEM,
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
from tf_malleable.api.naming import AREA, LONGEST_AREA, LONGEST_NAME
from tf_malleable.api.tier_reading import TierReading
from tf_malleable.model.sizes import SIZE_PATTERN, parse_size

Cores = Annotated[int, Meta(ge=1, le=MOST_CORES)]
# In bytes, or a text such as 4G.
Size = Annotated[int, Meta(ge=LEAST_MEM, le=MOST_MEM)] | Annotated[str, Meta(pattern=SIZE_PATTERN)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# Small enough that the next integer is a different float, and so is refused.
Steps = Annotated[float, Meta(ge=0, le=10**15)]
# Names are printed on terminals, so they have no control characters.
Name = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
]
Area = Annotated[str, Meta(min_length=1, max_length=LONGEST_AREA, pattern=f"^{AREA}$")]
Seconds = Annotated[float, Meta(gt=0, le=MOST_SECONDS)]
Argument = Annotated[str, Meta(max_length=4096)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all requests. Unknown fields are refused."""


class Asked(Request, frozen=True):
    """The numbers of a job request.

    Attributes:
        min: It does not run with fewer cores.
        preferred: Cores it asks for; by default max.
        max: Most cores it can use; by default all of the machine's.
        priority: Higher goes first.
        weight: Share relative to other jobs, if the policy uses it.
        mem: Memory that it needs at most: bytes, or a text such as 512M or 4G. Null if it is not
            known; then it is learned. Where cgroups allow it, a job never gets more.
    """

    min: Cores = 1
    preferred: Cores | None = None
    max: Cores | None = None
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    weight: Annotated[float, Meta(gt=0, le=MOST_WEIGHT)] = 1.0
    mem: Size | None = None

    def numbers(self) -> dict[str, Any]:
        """Return these numbers by name, sizes in bytes.

        Raises:
            ValueError: A size is not one.
        """
        values = {name: getattr(self, name) for name in Asked.__struct_fields__}
        if isinstance(self.mem, str):
            values["mem"] = parse_size(self.mem)
        return values


class Submission(Asked, frozen=True, kw_only=True):
    """The calling process asks for cores. The kernel identifies it (SO_PEERCRED).

    Attributes:
        name: The job's name; measured speeds are remembered by it.
        command: The program and its arguments, for display.
        min: It does not run with fewer cores.
        preferred: Cores it asks for; by default max.
        max: Most cores it can use; by default all of the machine's.
        priority: Higher goes first.
        weight: Share relative to other jobs, if the policy uses it.
        mem: Memory that it needs at most: bytes, or a text such as 512M or 4G. Null if it is not
            known; then it is learned. Where cgroups allow it, a job never gets more.
        gpus: Number of GPUs that it needs.
        output: Path of the file that its output goes to, for `tfm logs`.
        time_limit: End it after this time with cores.
        expected: How long it is expected to run; by default learned from earlier runs.
        after: Ids of jobs that must have ended before it starts, in whatever way.
        array: Names the array that it belongs to, among those of its user.
        at_once: So many jobs of the array may have started and not ended; null for all.
        area: The area that its energy is counted for; null for the host's.
        queue: Wait until there are cores; if false, be refused instead.
        running: The process is already computing, so it joins without queueing.
    """

    name: Name
    command: Annotated[list[Argument], Meta(max_length=256)] = []
    gpus: Annotated[int, Meta(ge=0, le=MOST_GPUS)] = 0
    output: Annotated[str, Meta(min_length=1, max_length=LONGEST_PATH)] | None = None
    time_limit: Seconds | None = None
    expected: Seconds | None = None
    after: Annotated[list[Name], Meta(max_length=MOST_AFTER)] = []
    array: Name | None = None
    at_once: Annotated[int, Meta(ge=1, le=MOST_INDICES)] | None = None
    area: Area | None = None
    queue: bool = True
    running: bool = False

    @property
    def request(self) -> JobRequest:
        """What it asks for.

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
            **self.numbers(),
        )


class Acknowledgement(Request, frozen=True):
    """An agent has applied the grant with this serial number.

    From now on its process runs on the granted CPUs only.

    Attributes:
        serial: Serial number of the grant.
        settled: No pool has more active workers than its limit, so workers no longer share
            these CPUs either.
    """

    serial: Count
    settled: bool = True


class Progress(Request, frozen=True):
    """The progress of a job, as its agent reports it. Fields are null if unknown.

    Attributes:
        steps_done: Training steps since the process started.
        steps_total: Training steps at its end.
        cpu_seconds: CPU time of the process so far.
        active: Workers of TensorFlow's pools running a task at this instant.
        queued: Tasks waiting in TensorFlow's pools.
        threads: The intra-op limit in force; null without TensorFlow.
        elastic: The generations of an elastic training; null if the job is none.
        reading: What the job has read of a data tier's files.
    """

    steps_done: Steps | None = None
    steps_total: Steps | None = None
    cpu_seconds: Annotated[float, Meta(ge=0, le=10**15)] | None = None
    active: Count | None = None
    queued: Count | None = None
    threads: Count | None = None
    elastic: Elastic | None = None
    reading: TierReading | None = None


class ByHand(Request, frozen=True):
    """Cores to set by hand; null returns the job to the policy."""

    cores: Cores | None


class PreviewQuery(Request, frozen=True):
    """What to foresee.

    Attributes:
        change: What would be changed.
        cores: Cores to set by hand; 0 returns the job to the policy.
        priority: Its new priority.
    """

    change: Literal["cores", "priority", "pause", "resume", "cancel"] = "cores"
    cores: Annotated[int, Meta(ge=0, le=MOST_CORES)] = 0
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0


class JobChange(Request, frozen=True):
    """What to change of a job's request; null leaves it as it is.

    Attributes:
        priority: Higher goes first.
        max: Most cores it can use.
    """

    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = None
    max: Cores | None = None


class PolicyChange(Request, frozen=True):
    """Another policy.

    Attributes:
        policy: Its name and options, for example ``"priority-strict:ageing=60"``.
    """

    policy: Name


class ContainerTaken(Request, frozen=True):
    """A container to make a job.

    Attributes:
        container: Its id or name.
    """

    container: Name
