# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MalleableJob as people want to see it, read from the API's object. Pure."""

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
    """A change of who takes part, or with how many CPUs.

    Attributes:
        at: When, in seconds since the epoch.
        before: Workers and CPUs before.
        after: And after.
        pause_seconds: For how long a worker that stayed could not compute; None if not known.
        reason: Why.
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
        namespace: Where it is.
        name: Of the object.
        created: When, in seconds since the epoch.
        spec: As its author wrote it.
        status: As the operator wrote it; empty if it has not seen it yet.
    """

    namespace: str
    name: str
    created: float
    spec: Said
    status: Said

    @classmethod
    def read(cls, item: Said) -> JobView:
        """Return what the API's object says."""
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
        """In a word; "New" before the operator has seen it."""
        return str(self.status.get("phase", "New"))

    @property
    def has_ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in ENDED

    @property
    def started(self) -> float | None:
        """When its first worker began."""
        return seconds(self.status.get("startedAt"))

    @property
    def ended(self) -> float | None:
        """When it had ended."""
        return seconds(self.status.get("endedAt"))

    @property
    def steps(self) -> tuple[float | None, float | None]:
        """How many it has done, and of how many."""
        progress = self.status.get("progress") or {}
        return progress.get("step"), progress.get("steps")

    @property
    def speed(self) -> float | None:
        """In steps per second."""
        found = (self.status.get("progress") or {}).get("stepsPerSecond")
        return None if found is None else float(found)

    @property
    def rescales(self) -> tuple[RescaleView, ...]:
        """The changes that are remembered, the first one first."""
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
        """Each worker, as the operator wrote it."""
        return list(self.status.get("workers") or ())

    @property
    def servers(self) -> Sequence[Said]:
        """Each parameter server, as the operator wrote it."""
        return list(self.status.get("parameterServers") or ())

    def cpus(self, which: Numbers) -> float | None:
        """Return how many CPUs are desired, granted or actual; None if not known."""
        found = (self.status.get(which) or {}).get("cpus")
        return None if found is None else float(found)

    def count(self, which: Numbers) -> int | None:
        """Return how many workers are desired, granted or actual; None if not known."""
        found = (self.status.get(which) or {}).get("workers")
        return None if found is None else int(found)

    @property
    def why(self) -> str:
        """Why it has not all that it could use: the first condition that says so."""
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
        """Return it for programs: what is said of it, and the whole status."""
        known = ("suspend", "priority", "shards", "workers", "parameterServers")
        return {
            "name": self.name,
            "namespace": self.namespace,
            "created": self.created,
            "spec": {name: self.spec[name] for name in known if name in self.spec},
            "status": dict(self.status),
        }


def seconds(text: object) -> float | None:
    """Return a time of the API in seconds since the epoch; None if there is none."""
    if not text:
        return None
    # Python 3.10 takes neither a Z nor other than three or six digits.
    whole, _, rest = str(text).removesuffix("Z").partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
    return at + (float(f"0.{rest}") if rest else 0.0)
