# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The record that a new job begins with, if it can be one on this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_malleable.controller.messages import ContainerInfo, Submission
from tf_malleable.controller.record import ProcessId, Record
from tf_malleable.controller.refusal import Refusal
from tf_malleable.controller.store import Store, StoreError
from tf_malleable.model import Shape


@dataclass(frozen=True)
class Newcomers:
    """Makes the records of new jobs.

    Attributes:
        cpus: How many are shared out.
        store: Numbers the jobs.
    """

    cpus: int
    store: Store

    def shape(self, submission: Submission) -> Shape:
        """Return the shape that is asked for.

        Raises:
            Refusal: 400; no job of this machine can have it.
        """
        for name in ("min", "preferred", "max"):
            cores = getattr(submission, name)
            if cores is not None and cores > self.cpus:
                raise Refusal(
                    400,
                    f"{name} must be at most {self.cpus}, the CPUs shared out here, not {cores}",
                )
        most = submission.max if submission.max is not None else self.cpus
        try:
            return Shape(submission.min, submission.preferred or most, most)
        except ValueError as error:
            raise Refusal(400, str(error)) from None

    def record(
        self,
        submission: Submission,
        uid: int,
        now: float,
        process: ProcessId | None,
        container: ContainerInfo | None = None,
    ) -> Record:
        """Return the record of a job that arrives now, waiting unless it runs already.

        Raises:
            Refusal: As shape(); 503; the state file takes no more jobs.
        """
        shape = self.shape(submission)
        try:
            number = self.store.next_id()
        except StoreError as error:
            raise Refusal(503, f"no more jobs can be taken: {error}") from None
        record = Record(
            id=number,
            name=submission.name,
            command=tuple(submission.command),
            process=process,
            uid=uid,
            shape=shape,
            priority=submission.priority,
            weight=submission.weight,
            submitted=now,
            entered=now,
            since=now,
            container=container,
        )
        if submission.running:
            # It has the CPUs it was started with, until it is told others or to pause.
            return replace(record, state="paused", started=now)
        return record
