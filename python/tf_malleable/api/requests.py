# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What clients send to the controller, and the bounds of it. Durations are seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tf_malleable.api.job_request import MOST_CORES, MOST_PRIORITY, MOST_WEIGHT, JobRequest
from tf_malleable.api.naming import LONGEST_NAME

Cores = Annotated[int, Meta(ge=1, le=MOST_CORES)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# Up to where the next integer is a float of its own, so that it is refused.
Steps = Annotated[float, Meta(ge=0, le=10**15)]
# Names are printed on terminals: no control characters.
Name = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
]
Argument = Annotated[str, Meta(max_length=4096)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends. A field that is not known is refused."""


class Asked(Request, frozen=True):
    """The numbers of a job request, within their bounds.

    Attributes:
        min: With fewer cores it does not run.
        preferred: What it asks for; by default max.
        max: More would not help; by default all of the machine.
        priority: Higher goes first, in policies that look at it.
        weight: Share against others, in policies that look at it.
    """

    min: Cores = 1
    preferred: Cores | None = None
    max: Cores | None = None
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    weight: Annotated[float, Meta(gt=0, le=MOST_WEIGHT)] = 1.0


class Submission(Asked, frozen=True, kw_only=True):
    """A process asks for cores; which process, the kernel says.

    Attributes:
        name: What people call the job; speeds are learned by it.
        command: The program and its arguments, for people to read.
        min: With fewer cores it does not run.
        preferred: What it asks for; by default max.
        max: More would not help; by default all of the machine.
        priority: Higher goes first, in policies that look at it.
        weight: Share against others, in policies that look at it.
        queue: Wait until there are cores; otherwise be refused.
        running: The process is computing already: it joins, it does not queue.
    """

    name: Name
    command: Annotated[list[Argument], Meta(max_length=256)] = []
    queue: bool = True
    running: bool = False

    @property
    def request(self) -> JobRequest:
        """What it asks for.

        Raises:
            ValueError: Its numbers contradict each other.
        """
        asked = {name: getattr(self, name) for name in Asked.__struct_fields__}
        return JobRequest(self.name, tuple(self.command), **asked)


class Acknowledgement(Request, frozen=True):
    """An agent has carried out the grant with this serial number.

    Its process runs on the granted CPUs and no others from now on.

    Attributes:
        serial: The grant's.
        settled: No pool has more active workers than its limit any more: they no
            longer take turns on these CPUs either.
    """

    serial: Count
    settled: bool = True


class Progress(Request, frozen=True):
    """What a job's agent knows of it.

    Attributes:
        steps_done: Training steps so far, since the process started.
        steps_total: Steps it will have done at its end, as far as known.
        cpu_seconds: CPU time of the process so far.
        active: Workers of TensorFlow's pools running a task at this instant.
        queued: Tasks that wait in TensorFlow's pools.
        threads: The limit in force, intra-op; None without TensorFlow.
    """

    steps_done: Steps | None = None
    steps_total: Steps | None = None
    cpu_seconds: Annotated[float, Meta(ge=0, le=10**15)] | None = None
    active: Count | None = None
    queued: Count | None = None
    threads: Count | None = None


class ByHand(Request, frozen=True):
    """Cores set by hand; null hands the job back to the policy."""

    cores: Cores | None


class PolicyChange(Request, frozen=True):
    """The policy to use from now on, ``"priority-strict:ageing=60"`` say."""

    policy: Name


class ContainerTaken(Request, frozen=True):
    """A container that is to be a job.

    Attributes:
        container: Its id, or its name.
    """

    container: Name
