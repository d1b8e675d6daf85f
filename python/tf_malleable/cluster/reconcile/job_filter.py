# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job filter: the MalleableJobs of this operator, and those with an invalid spec. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tf_malleable.cluster.job_spec import JobSpec, Manifest, parse, seconds_of
from tf_malleable.cluster.reconcile.planner_input import worker_bounds


def read(items: Iterable[Manifest]) -> tuple[dict[str, JobSpec], dict[str, tuple[JobSpec, str]]]:
    """Return the jobs of this operator, and the invalid jobs with their problems; both by uid.

    The former include deleted jobs that are invalid.
    """
    jobs: dict[str, JobSpec] = {}
    wrong: dict[str, tuple[JobSpec, str]] = {}
    for item in items:
        metadata = item["metadata"]
        try:
            job = parse(item)
            if job.is_ours:
                worker_bounds(job)
                jobs[job.uid] = job
        except ValueError as error:
            bare = _bare(item)
            if bare.deleted is not None:  # A deleted job can be closed even if it is invalid.
                jobs[bare.uid] = bare
            else:
                wrong[metadata["uid"]] = bare, str(error)
    return jobs, wrong


def _bare(item: Manifest) -> JobSpec:
    """Return a job from its metadata and status only."""
    metadata: Mapping[str, Any] = item["metadata"]
    return JobSpec(
        metadata["uid"],
        metadata["name"],
        metadata["namespace"],
        generation=int(metadata.get("generation", 1)),
        deleted=seconds_of(metadata.get("deletionTimestamp")) or None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        status=item.get("status") or {},
    )
