# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Actions for a job. They are idempotent: carried out twice, they have the same result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_malleable.cluster.kube.objects import Draft
from tf_malleable.cluster.observe.pod_status import PodStatus


@dataclass(frozen=True)
class EnsureDependents:
    """Create what a job needs before its pods: its token, Service and disruption budget."""


@dataclass(frozen=True)
class CreatePod:
    """Create a pod.

    Attributes:
        pod: The pod.
        why: Reason in one word, for an event.
        message: The reason for people.
    """

    pod: Draft
    why: str
    message: str


@dataclass(frozen=True)
class TryPod:
    """Ask whether a pod that was refused would now be admitted, without creating it.

    Attributes:
        pod: The pod.
    """

    pod: Mapping[str, Any]


@dataclass(frozen=True)
class DeletePod:
    """Delete a pod, with its own grace period.

    Attributes:
        pod: The pod.
        why: Reason in one word, for an event.
        message: The reason for people; empty for no event.
    """

    pod: PodStatus
    why: str
    message: str = ""


@dataclass(frozen=True)
class ResizePod:
    """Resize the CPUs of a pod's first container in place.

    Attributes:
        pod: The pod.
        container: Name of the container.
        cpus: CPUs that the container is to have.
    """

    pod: PodStatus
    container: str
    cpus: float


@dataclass(frozen=True)
class MarkPod:
    """Change labels and annotations of a pod.

    Attributes:
        pod: The pod.
        metadata: Merge patch of the pod's metadata.
    """

    pod: PodStatus
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class SetFinalizers:
    """Set the finalizers of a job.

    Attributes:
        finalizers: Complete new list of finalizers.
    """

    finalizers: tuple[str, ...]


@dataclass(frozen=True)
class WriteStatus:
    """Write a job's status.

    Attributes:
        change: Merge patch of the status.
    """

    change: Mapping[str, Any]


@dataclass(frozen=True)
class EmitEvent:
    """Create an event about a job.

    Attributes:
        reason: Reason in one word.
        message: Text for people.
        is_warning: True for an event of type Warning.
    """

    reason: str
    message: str
    is_warning: bool = False


Action = (
    EnsureDependents
    | CreatePod
    | TryPod
    | DeletePod
    | ResizePod
    | MarkPod
    | SetFinalizers
    | WriteStatus
    | EmitEvent
)
