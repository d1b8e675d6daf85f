# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be done about a job: each of these once or twice, with the same end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_malleable.cluster.kube.objects.pod_template import Draft
from tf_malleable.cluster.observe.pod_status import PodStatus


@dataclass(frozen=True)
class EnsureDependents:
    """Create what a job needs before its pods: its token, Service and disruption budget."""


@dataclass(frozen=True)
class CreatePod:
    """Create a pod.

    Attributes:
        pod: The pod.
        why: In one word, for an event.
        message: The same for people.
    """

    pod: Draft
    why: str
    message: str


@dataclass(frozen=True)
class DeletePod:
    """Delete a pod, which has its grace.

    Attributes:
        pod: The pod.
        why: In one word, for an event.
        message: The same for people; empty for no event.
    """

    pod: PodStatus
    why: str
    message: str = ""


@dataclass(frozen=True)
class ResizePod:
    """Change how many CPUs a pod's first container has, in place.

    Attributes:
        pod: The pod.
        container: Name of the container.
        cpus: How many it is to have.
    """

    pod: PodStatus
    container: str
    cpus: float


@dataclass(frozen=True)
class MarkPod:
    """Change labels and annotations of a pod.

    Attributes:
        pod: The pod.
        metadata: A merge patch of its metadata.
    """

    pod: PodStatus
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class SetFinalizers:
    """Set the finalizers of a job.

    Attributes:
        finalizers: All of them.
    """

    finalizers: tuple[str, ...]


@dataclass(frozen=True)
class WriteStatus:
    """Write a job's status.

    Attributes:
        change: A merge patch of it.
    """

    change: Mapping[str, Any]


@dataclass(frozen=True)
class EmitEvent:
    """Say something about a job in an event.

    Attributes:
        reason: In one word.
        message: For people.
        is_warning: Something is wrong.
    """

    reason: str
    message: str
    is_warning: bool = False


Action = (
    EnsureDependents
    | CreatePod
    | DeletePod
    | ResizePod
    | MarkPod
    | SetFinalizers
    | WriteStatus
    | EmitEvent
)
