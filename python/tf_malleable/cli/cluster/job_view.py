# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job view: a MalleableJob for display, parsed from the API object. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, Literal

Said = Mapping[str, Any]
Numbers = Literal["desired", "granted", "actual"]

ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class RescaleView:
    """A change of a job's workers or of their CPUs.

    Attributes:
        at: Time of the change, in seconds since the epoch.
        before: Workers and CPUs before the change.
        after: Workers and CPUs after the change.
        pause_seconds: Time for which a worker that stayed could not compute, in seconds; None if
            unknown.
        reason: Reason for the change.
    """

    at: float
    before: Said
    after: Said
    pause_seconds: float | None
    reason: str


@dataclass(frozen=True)
class JobView:
    """A MalleableJob.

    Attributes:
        namespace: Namespace of the object.
        name: Name of the object.
        created: Time of creation, in seconds since the epoch.
        spec: Spec as its author wrote it.
        status: Status as the operator wrote it; empty if the operator has not seen the job yet.
    """

    namespace: str
    name: str
    created: float
    spec: Said
    status: Said

    @classmethod
    def read(cls, item: Said) -> JobView:
        """Parse an API object."""
        metadata = item["metadata"]
        return cls(
            namespace=str(metadata.get("namespace", "")),
            name=str(metadata["name"]),
            created=seconds(metadata.get("creationTimestamp")) or 0.0,
            spec=item.get("spec") or {},
            status=item.get("status") or {},
        )

    @property
    def phase(self) -> str:
        """Phase in one word; "New" before the operator has seen the job."""
        return str(self.status.get("phase", "New"))

    @property
    def has_ended(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.phase in ENDED

    @property
    def started(self) -> float | None:
        """Start of the first worker, in seconds since the epoch; None before it."""
        return seconds(self.status.get("startedAt"))

    @property
    def ended(self) -> float | None:
        """End of the job, in seconds since the epoch; None before it."""
        return seconds(self.status.get("endedAt"))

    @property
    def steps(self) -> tuple[float | None, float | None]:
        """Numbers of steps done and of steps in total; None where unknown."""
        progress = self.status.get("progress") or {}
        return progress.get("step"), progress.get("steps")

    @property
    def speed(self) -> float | None:
        """Speed in steps per second; None if unknown."""
        found = (self.status.get("progress") or {}).get("stepsPerSecond")
        return None if found is None else float(found)

    @property
    def rescales(self) -> tuple[RescaleView, ...]:
        """Remembered changes, oldest first."""
        found = [
            RescaleView(
                at=seconds(each["at"]) or 0.0,
                before=each.get("from") or {},
                after=each.get("to") or {},
                pause_seconds=each.get("pauseSeconds"),
                reason=str(each.get("reason", "")),
            )
            for each in self.status.get("rescales") or ()
        ]
        return tuple(sorted(found, key=lambda each: each.at))

    @property
    def workers(self) -> Sequence[Said]:
        """Workers, as the operator wrote them."""
        return list(self.status.get("workers") or ())

    @property
    def servers(self) -> Sequence[Said]:
        """Parameter servers, as the operator wrote them."""
        return list(self.status.get("parameterServers") or ())

    def cpus(self, which: Numbers) -> float | None:
        """Return how many CPUs are desired, granted or actual; None if unknown."""
        found = (self.status.get(which) or {}).get("cpus")
        return None if found is None else float(found)

    def count(self, which: Numbers) -> int | None:
        """Return how many workers are desired, granted or actual; None if unknown."""
        found = (self.status.get(which) or {}).get("workers")
        return None if found is None else int(found)

    @property
    def why(self) -> str:
        """Reason why the job has less than it could use, from the first condition with one."""
        if self.has_ended or not self.status:
            return self._message("Failed") if self.phase == "Failed" else ""
        for kind, good in (("Valid", "True"), ("Healthy", "True"), ("Granted", "True")):
            for one in self.status.get("conditions") or ():
                if one["type"] == kind and one["status"] != good:
                    return str(one.get("message") or one.get("reason") or "")
        return self._message("Granted") if self.cpus("granted") != self.cpus("desired") else ""

    def _message(self, kind: str) -> str:
        for one in self.status.get("conditions") or ():
            if one["type"] == kind:
                return str(one.get("message") or "")
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return the job for programs: identity, parts of the spec, and the whole status."""
        known = ("suspend", "priority", "shards", "workers", "parameterServers")
        return {
            "name": self.name,
            "namespace": self.namespace,
            "created": self.created,
            "spec": {name: self.spec[name] for name in known if name in self.spec},
            "status": dict(self.status),
        }


def seconds(text: object) -> float | None:
    """Return a timestamp of the API in seconds since the epoch; None if there is none."""
    if not text:
        return None
    # Python 3.10 accepts neither a Z nor a fraction of other than three or six digits.
    whole, _, rest = str(text).removesuffix("Z").partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
    return at + (float(f"0.{rest}") if rest else 0.0)
