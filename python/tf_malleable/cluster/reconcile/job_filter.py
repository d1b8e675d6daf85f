# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which MalleableJobs are this operator's, and which of them cannot be carried out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tf_malleable.cluster.job_spec import JobSpec, Manifest, parse, seconds_of
from tf_malleable.cluster.reconcile.planner_input import worker_bounds


def read(items: Iterable[Manifest]) -> tuple[dict[str, JobSpec], dict[str, tuple[JobSpec, str]]]:
    """Return the jobs that are ours, and those of which that cannot be said."""
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
            if bare.deleted is not None:  # It can be closed all the same.
                jobs[bare.uid] = bare
            else:
                wrong[metadata["uid"]] = bare, str(error)
    return jobs, wrong


def _bare(item: Manifest) -> JobSpec:
    """Return a job of which only the metadata and the status are known."""
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
