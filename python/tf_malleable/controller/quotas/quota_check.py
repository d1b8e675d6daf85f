# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quota check: refuses requests that would exceed a user's quota."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import Shape
from tf_malleable.model.quota import NO_QUOTA, Quota, Quotas
from tf_malleable.model.units import cores as cores_of
from tf_malleable.model.units import size_text
from tf_malleable.scheduling.records.job_record import Record


@dataclass(frozen=True)
class QuotaCheck:
    """Checks requests against quotas.

    The quotas on running jobs, granted cores, and memory and GPUs of jobs that wait for them are
    kept by the decisions instead.

    Attributes:
        quotas: Quotas of all users.
    """

    quotas: Quotas

    def new(
        self,
        account: int,
        request: JobRequest,
        shape: Shape,
        live: Iterable[Record],
        *,
        running: bool,
    ) -> None:
        """Check whether a user may have one more job.

        Args:
            account: User id that the job would be counted for.
            request: Request of the job.
            shape: Shape of the job.
            live: Records of all live jobs.
            running: True if the job is already running, so that it does not wait in the queue.

        Raises:
            Refusal: 409; the job would exceed the user's quota.
        """
        quota, name = self.quotas.of(account), user_name(account)
        if quota == NO_QUOTA:
            return
        _check_size(quota, name, request, shape)
        own = [record for record in live if record.counted_for == account]
        if quota.max_jobs is not None and len(own) >= quota.max_jobs:
            raise Refusal(
                409,
                f"user {name} may have at most {_jobs(quota.max_jobs)} at once: wait until one"
                " has ended, or cancel one",
            )
        queued = sum(record.state == "waiting" for record in own)
        if quota.max_queued is not None and not running and queued >= quota.max_queued:
            raise Refusal(
                409,
                f"at most {_jobs(quota.max_queued)} of user {name} may wait at once: wait until"
                " one has started, or cancel one",
            )
        if running and quota.max_mem is not None and request.mem is not None:
            had = sum(record.mem or 0 for record in own if record.started is not None)
            if had + request.mem > quota.max_mem:
                raise Refusal(
                    409,
                    f"user {name} may have at most {size_text(quota.max_mem)} of memory at once,"
                    f" and has {size_text(had)}: wait until a job has ended, or cancel one",
                )

    def by_hand(self, record: Record, cores: int) -> None:
        """Check whether a job's number of cores may be set by hand.

        Raises:
            Refusal: 409; the number would exceed the quota of the job's user.
        """
        most = self.quotas.of(record.counted_for).max_cores
        if most is not None and cores > most:
            raise Refusal(
                409,
                f"cannot set {cores_of(cores)}: user {user_name(record.counted_for)} may have at"
                f" most {most}",
            )


def _check_size(quota: Quota, name: str, request: JobRequest, shape: Shape) -> None:
    """Check whether a user may have a job of this size at all.

    Raises:
        Refusal: 409; it could never start.
    """
    if quota.max_cores is not None and shape.min > quota.max_cores:
        raise Refusal(
            409,
            f"min must be at most {quota.max_cores}, the cores that user {name} may have,"
            f" not {shape.min}",
        )
    if quota.max_mem is not None and request.mem is not None and request.mem > quota.max_mem:
        raise Refusal(
            409,
            f"mem must be at most {size_text(quota.max_mem)}, the memory that user {name} may"
            f" have, not {size_text(request.mem)}",
        )
    if quota.max_gpus is not None and request.gpus > quota.max_gpus:
        raise Refusal(
            409,
            f"gpus must be at most {quota.max_gpus}, the GPUs that user {name} may have,"
            f" not {request.gpus}",
        )


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
