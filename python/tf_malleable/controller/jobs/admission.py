# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The record that a new job begins with, if it can be one on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.messages import ContainerInfo
from tf_malleable.api.refusal import Refusal
from tf_malleable.controller.state.store import Store, StoreError
from tf_malleable.model import ProcessId, Shape
from tf_malleable.scheduling import accounting
from tf_malleable.scheduling.record import Record


@dataclass(frozen=True)
class Admission:
    """Admits new jobs, by making their records.

    Attributes:
        cpus: How many are shared out.
        store: Numbers the jobs.
    """

    cpus: int
    store: Store

    def check(self, request: JobRequest) -> Shape:
        """Return the shape that is asked for.

        Raises:
            Refusal: 400; no job of this machine can have it.
        """
        for name in ("min", "preferred", "max"):
            cores = getattr(request, name)
            if cores is not None and cores > self.cpus:
                raise Refusal(
                    400,
                    f"{name} must be at most {self.cpus}, the CPUs shared out here, not {cores}",
                )
        try:
            return request.shape(self.cpus)
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
            request: What it asks for.
            uid: Whose it is.
            now: The time, in seconds.
            process: Its main process, if it has one yet.
            container: What it is in, if it is a container.
            running: It computes already, so it does not wait in the queue.

        Raises:
            Refusal: As check(); 503; the state file takes no more jobs.
        """
        shape = self.check(request)
        try:
            number = self.store.next_id()
        except StoreError as error:
            raise Refusal(503, f"no more jobs can be taken: {error}") from None
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
        )
        return accounting.joined(record, now) if running else record
