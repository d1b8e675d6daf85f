# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From a change of a container's CPUs to limits that have settled, and what looking costs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from benchmarks.common.command_line import Say
from benchmarks.common.controller import controller
from benchmarks.common.estimates import estimate, once, percentile_99
from benchmarks.common.rows import Row, Target
from benchmarks.common.worker.client import Process, Worker
from benchmarks.containers.place import Place
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.workload.private_controller import PrivateController

NAME: Final = "resize"
_CHANGES: Final = 150
# Not always at the same moment of the follower's tenth of a second.
_PAUSES_SECONDS: Final = (0.31, 0.353, 0.387, 0.421)
_COST_SECONDS: Final = 20.0
_PROCESS: Final = Process("follows", ours=True)
_POLICY: Final = "equal"
_COST: Final = Target(0.1)

Change = Callable[[int], None]


@dataclass(frozen=True)
class Sample:
    """All changes of one kind.

    Attributes:
        kind: Description: who changed what, and beside what.
        most_ms: Milliseconds allowed, 99 of 100 times.
        settled_ms: Milliseconds from asking for each change to limits that had settled.
    """

    kind: str
    most_ms: float
    settled_ms: list[float]


@dataclass(frozen=True)
class Measured:
    """The results.

    Attributes:
        samples: Samples of changes, one for each kind.
        cost: CPU time that looking costs, in percent of a core.
    """

    samples: list[Sample]
    cost: float

    def rows(self) -> list[Row]:
        """Return the results as rows, each with its target."""
        found = [
            Row(
                NAME,
                f"{sample.kind}: to settled, p99",
                "ms",
                estimate([sample.settled_ms], percentile_99),
                Target(sample.most_ms),
            )
            for sample in self.samples
        ]
        return [*found, Row(NAME, "what looking costs, of a core", "%", once(self.cost), _COST)]

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)


def measure(place: Place, say: Say) -> Measured:
    """Change one container's CPUs again and again, idle and busy, by hand and by a controller."""
    samples = []
    name = place.name()
    prefix = place.followed("-i", "--name", name, "--cpu-quota", "200000")
    with place.worker(_PROCESS, ("matmul",), prefix) as worker:
        container = place.client.containers.get(name)

        def quota(cpus: int) -> None:
            container.update(cpu_quota=cpus * 100_000, cpu_period=100_000)

        def cpuset(cpus: int) -> None:
            container.update(cpuset_cpus="0" if cpus == 1 else "0-1")

        for kind, change, loaded in (
            ("docker update of the quota, idle", quota, False),
            ("docker update of the quota, busy", quota, True),
            ("docker update of the cpuset, busy", cpuset, True),
        ):
            samples.append(Sample(kind, 250.0, _settled(worker, change, loaded)))
            say(f"{kind}: median {median(samples[-1].settled_ms):.0f} ms")
            change(2)
        cost = 100 * worker.ask("follower_seconds", seconds=_COST_SECONDS) / _COST_SECONDS
        say(f"looking costs {cost:.3f} % of a core")
    with controller(_POLICY) as started:
        place.remove_all()
        samples.append(_controlled(place, started, say))
    return Measured(samples, cost)


def _controlled(place: Place, started: PrivateController, say: Say) -> Sample:
    name = place.name()
    prefix = place.followed("-i", *place.job(started.client.socket, name))
    with place.worker(_PROCESS, ("matmul",), prefix) as worker:
        (job,) = started.client.jobs()
        assert job.malleable

        def cores(cpus: int) -> None:
            started.client.ask("PUT", f"/v1/jobs/{job.id}/cores", JobStatus, {"cores": cpus})

        kind = "the controller's change, busy"
        sample = Sample(kind, 100.0, _settled(worker, cores, True))
        say(f"{kind}: median {median(sample.settled_ms):.0f} ms")
        return sample


def _settled(worker: Worker, change: Change, loaded: bool) -> list[float]:
    """Return the milliseconds from asking for each change to when it had settled."""
    change(2)
    time.sleep(1.0)
    worker.ask("watch", loaded=loaded)
    time.sleep(0.5)
    asked = []
    for number, pause in zip(range(_CHANGES), itertools.cycle(_PAUSES_SECONDS), strict=False):
        threads = 1 + number % 2
        asked.append((time.monotonic(), threads))
        change(threads)
        time.sleep(pause)
    time.sleep(1.0)
    noted = worker.ask("changes")
    found = []
    for at, threads in asked:
        mine = [n for n in noted if n["set"] >= at and n["threads"] == threads]
        # One that was never followed must not look as if it was fast.
        found.append((min(n["settled"] for n in mine) - at) * 1e3 if mine else float("inf"))
    return found
