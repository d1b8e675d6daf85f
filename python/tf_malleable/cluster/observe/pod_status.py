# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pod status: a member's pod, parsed from the API object. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import Manifest, seconds_of
from tf_malleable.elastic.links.errors import COME_AGAIN
from tf_malleable.elastic.settings import LEFT

Resize = Literal["", "Deferred", "Infeasible", "InProgress"]
UNSEEN: Final = "no scheduler has looked at it"
"""Message of a pod that has no node yet, and of which no scheduler has said anything."""
# Limits of a container's last output: enough for an error and where it was raised.
_MOST_LINES: Final = 4
_MOST_CHARACTERS: Final = 500
# Reasons for which a kubelet does not start a container, and tries again.
_STUCK: Final = frozenset(
    (
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImagePull",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    )
)


@dataclass(frozen=True)
class PodEnd:
    """End of a pod.

    Attributes:
        code: Exit code of the first container; None if it never ran.
        reason: Reason in one word.
        at: Time of the end, in seconds since the epoch; 0 if unknown.
        kind: ``"trained"``: it reached the training's end. ``"left"``: it left earlier, on
            request. ``"lost"``: an external cause ended it. ``"crashed"``: it failed by itself.
        said: Last lines of the container's output if it crashed; otherwise empty.
    """

    code: int | None
    reason: str
    at: float
    kind: Literal["trained", "left", "lost", "crashed"]
    said: str = ""

    def __str__(self) -> str:
        """Return a text such as "ended with Error and exit code 1: out of memory"."""
        what = f"ended with {self.reason} and exit code {self.code}"
        return f"{what}: {self.said}" if self.said else what


@dataclass(frozen=True)
class PodStatus:
    """A pod of a job.

    Attributes:
        name: Name of the pod.
        uid: Uid of the pod, which is also the worker's id in the training.
        role: ``"worker"``, ``"server"`` or ``"coordinator"``.
        member: Number of the member; -1 if unknown.
        node: Name of the node on which the pod runs or for which it is planned.
        ip: IP of the pod; empty before it has one.
        created: Time of creation, in seconds since the epoch.
        cpus: CPUs that all containers request.
        allocated: CPUs that the node has allocated; None before it has.
        actual: CPUs that the containers have; None before they run.
        is_running: True if the first container runs, or has failed and the pod has yet to end: what
            ended it is known only then.
        is_leaving: True if the pod has been deleted and is terminating.
        leaves_by: End of the grace period of a deleted pod, in seconds since the epoch.
        end: End of the pod, or of its first container if it is clear what that means; None while it
            has not ended.
        is_held: True if the first container has ended, and others of the pod go on.
        waiting: Reason and message if the first container cannot start; otherwise None.
        unscheduled: Message of the scheduler and time of creation, in seconds since the epoch, if
            the pod has no node yet; otherwise None.
        resize: State of a resize that is not complete; empty if there is none.
        resize_since: Time since which the resize is in this state, in seconds since the epoch.
        is_holder: True if the pod's label says that it holds the training's state.
        failure: Number of this crash in a row, and the training's step then; None if the pod has
            no such annotation.
    """

    name: str
    uid: str
    role: str
    member: int
    node: str
    ip: str = ""
    created: float = 0.0
    cpus: float = 0.0
    allocated: float | None = None
    actual: float | None = None
    is_running: bool = False
    is_leaving: bool = False
    leaves_by: float = 0.0
    end: PodEnd | None = None
    is_held: bool = False
    waiting: tuple[str, str] | None = None
    unscheduled: tuple[str, float] | None = None
    resize: Resize = ""
    resize_since: float = 0.0
    is_holder: bool = False
    failure: tuple[int, int] | None = None

    @property
    def is_present(self) -> bool:
        """Whether the pod takes part, or may still do so."""
        return self.end is None and not self.is_leaving


def owner_uid(pod: Manifest) -> str:
    """Return the uid of a pod's controlling owner; empty if it has none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def see(pod: Manifest) -> PodStatus:
    """Return the status of a job's pod."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    own = _own_status(pod)
    state = own.get("state") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    waiting = state.get("waiting") or {}
    end, is_held = _end(pod, own, conditions), _is_held(pod, own)
    resize, since = _resize(conditions)
    member = str(labels.get(resource_names.MEMBER, ""))
    return PodStatus(
        name=metadata["name"],
        uid=metadata["uid"],
        role=str(labels.get(resource_names.ROLE, "")),
        member=int(member) if member.isdigit() else -1,
        node=spec.get("nodeName") or annotations.get(resource_names.NODE, ""),
        ip=status.get("podIP", ""),
        created=seconds_of(metadata.get("creationTimestamp")),
        cpus=_cpus(spec.get("containers") or (), "requests"),
        allocated=_allocated(status),
        actual=_actual(status),
        is_running="running" in state or ("terminated" in state and end is None),
        is_leaving="deletionTimestamp" in metadata,
        leaves_by=seconds_of(metadata.get("deletionTimestamp")),
        end=end,
        is_held=is_held,
        waiting=(waiting["reason"], waiting.get("message", ""))
        if waiting.get("reason") in _STUCK
        else None,
        unscheduled=_unscheduled(pod, conditions),
        resize=resize,
        resize_since=since,
        is_holder=labels.get(resource_names.HOLDER) == "true",
        failure=_failure(annotations.get(resource_names.FAILURE, "")),
    )


def _own_status(pod: Manifest) -> Manifest:
    """Return the status of the first container."""
    name = pod["spec"]["containers"][0]["name"]
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((one for one in statuses if one["name"] == name), {})


def _cpus(containers: Iterable[Manifest], kind: str) -> float:
    found = [(one.get("resources") or {}).get(kind, {}).get("cpu", 0) for one in containers]
    return round(sum(map(quantities.number, found)), 6)


def _allocated(status: Manifest) -> float | None:
    found = [one.get("allocatedResources") for one in status.get("containerStatuses") or ()]
    if not any(found):
        return None
    return round(sum(quantities.number((one or {}).get("cpu", 0)) for one in found), 6)


def _actual(status: Manifest) -> float | None:
    statuses = status.get("containerStatuses") or ()
    if not any((one.get("state") or {}).get("running") for one in statuses):
        return None
    found = [one for one in statuses if one.get("resources")]
    return _cpus(found, "requests") if found else None


def _resize(conditions: Mapping[str, Manifest]) -> tuple[Resize, float]:
    pending = conditions.get("PodResizePending", {})
    if pending.get("status") == "True":
        since = seconds_of(pending.get("lastTransitionTime"))
        return ("Infeasible" if pending.get("reason") == "Infeasible" else "Deferred"), since
    going_on = conditions.get("PodResizeInProgress", {})
    if going_on.get("status") == "True":
        return "InProgress", seconds_of(going_on.get("lastTransitionTime"))
    return "", 0.0


def _unscheduled(pod: Manifest, conditions: Mapping[str, Manifest]) -> tuple[str, float] | None:
    found = conditions.get("PodScheduled", {})
    if pod["spec"].get("nodeName") or found.get("reason") == "SchedulingGated":
        return None
    message = str(found.get("message") or UNSEEN)
    return message, seconds_of(pod["metadata"].get("creationTimestamp"))


def _failure(text: str) -> tuple[int, int] | None:
    number, _, step = text.partition("@")
    is_right = all(one.isascii() and one.isdigit() and len(one) < 16 for one in (number, step))
    return (int(number), int(step)) if is_right else None


def _is_held(pod: Manifest, own: Manifest) -> bool:
    """Return whether the first container has ended and others go on."""
    if "terminated" not in (own.get("state") or {}):
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses)


def _end(pod: Manifest, own: Manifest, conditions: Mapping[str, Manifest]) -> PodEnd | None:
    """Return the end of a pod; None while it has not ended.

    A kubelet reports the end of containers about a second before it reports the phase of the pod,
    and only with that what ended them. Where the exit code says enough, that is not awaited.
    """
    status = pod.get("status") or {}
    ended = (own.get("state") or {}).get("terminated") or {}
    code = ended.get("exitCode")
    is_over = status.get("phase") in ("Succeeded", "Failed")
    if not is_over and code not in (0, LEFT, COME_AGAIN) and not _is_held(pod, own):
        return None
    at = seconds_of(ended.get("finishedAt")) or seconds_of(status.get("startTime"))
    said = str(status.get("reason") or ended.get("reason") or "")
    target = conditions.get("DisruptionTarget", {})
    if status.get("phase") == "Succeeded" or code == 0:
        return PodEnd(code, said or "Completed", at, "trained")
    if code in (LEFT, COME_AGAIN):
        return PodEnd(code, "Left", at, "left")
    # If no container ran, the node rejected the pod or has vanished.
    is_lost = target.get("status") == "True" or code is None or bool(status.get("reason"))
    is_lost = is_lost or "deletionTimestamp" in pod["metadata"]
    if is_lost:
        return PodEnd(code, said or str(target.get("reason", "Lost")), at, "lost")
    return PodEnd(code, said or "Error", at, "crashed", _last_lines(ended.get("message", "")))


def _last_lines(text: str) -> str:
    """Return the last lines of a container's output, joined into one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_MOST_LINES:])[-_MOST_CHARACTERS:]
