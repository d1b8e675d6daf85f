# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MalleableJob as its author wrote it, read from the API's object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import ceil, floor
from typing import Any, Final

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.elastic.settings import MOST_SHARDS

Manifest = Mapping[str, Any]
"""An object of the API, as it is in JSON."""

# The longest name of a pod's host is 63 characters, and ours add a role and a number.
_LONGEST_NAME: Final = 40
_BACKOFF_LIMIT: Final = 6
_LEAST_CPUS: Final = 0.01


class SpecError(ValueError):
    """A MalleableJob cannot be carried out as it is. The message is one sentence."""


@dataclass(frozen=True)
class WorkersSpec:
    """How many workers a job may have, and with how many CPUs each.

    Attributes:
        least: The fewest.
        most: The most.
        least_cpus: The fewest CPUs of one.
        most_cpus: The most.
    """

    least: int = 1
    most: int = 1
    least_cpus: float = 1.0
    most_cpus: float = 1.0


@dataclass(frozen=True)
class ServersSpec:
    """How many parameter servers a job may have.

    Attributes:
        least: The fewest.
        most: The most.
        cpus: CPUs of each.
    """

    least: int = 0
    most: int = 0
    cpus: float = 1.0


@dataclass(frozen=True)
class CheckpointSpec:
    """Where workers save, for others that start when none is left.

    Attributes:
        path: A folder that all of a job's workers have.
        every_seconds: How often.
    """

    path: str
    every_seconds: float


@dataclass(frozen=True)
class JobSpec:
    """What a MalleableJob says, and what the API knows of it.

    Attributes:
        uid: Of the object.
        name: Of the object.
        namespace: Where it is.
        created: When, in seconds since the epoch.
        generation: Of its spec.
        deleted: When somebody has deleted it, in seconds since the epoch; None if nobody has.
        finalizers: What holds it then.
        labels: Of the object.
        annotations: Of the object.
        suspend: It is to have no workers.
        managed_by: Who carries it out; empty for this operator.
        priority: Greater comes first.
        shards: Into how many pieces each batch is cut.
        workers: How many.
        servers: How many.
        checkpoint: Where to save; None for what the script does itself.
        backoff_limit: How many crashes without progress are borne.
        template: Of its workers' pods.
        status: As it was written last.
    """

    uid: str
    name: str
    namespace: str
    created: float = 0.0
    generation: int = 1
    deleted: float | None = None
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    suspend: bool = False
    managed_by: str = ""
    priority: int = 0
    shards: int = 4
    workers: WorkersSpec = field(default_factory=WorkersSpec)
    servers: ServersSpec = field(default_factory=ServersSpec)
    checkpoint: CheckpointSpec | None = None
    backoff_limit: int = _BACKOFF_LIMIT
    template: Manifest = field(default_factory=dict)
    status: Manifest = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    @property
    def is_ours(self) -> bool:
        """Whether this operator is to carry it out."""
        return self.managed_by in ("", resource_names.MANAGER)

    @property
    def memory(self) -> float:
        """How many bytes a worker's pod requests; 0 if it does not say."""
        return sum(_requested(each, "memory") for each in containers(self.template))

    @property
    def overhead_cpus(self) -> float:
        """How many CPUs the other containers of a worker's pod request."""
        return sum(_requested(each, "cpu") for each in containers(self.template)[1:])


def containers(template: Manifest) -> list[Manifest]:
    """Return the containers of a pod or of a template; the first is the one that trains."""
    return list(template.get("spec", {}).get("containers") or ())


def _requested(container: Manifest, resource: str) -> float:
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        found = (resources.get(kind) or {}).get(resource)
        if found is not None:
            return quantities.number(found)
    return 0.0


def seconds_of(text: str | None) -> float:
    """Return a time of the API in seconds since the epoch; 0 if there is none.

    Raises:
        ValueError: It is none.
    """
    if not text:
        return 0.0
    plain = text.removesuffix("Z")
    # Python 3.10 takes neither a Z nor other than three or six digits.
    whole, _, rest = plain.partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
    return at + (float(f"0.{rest}") if rest else 0.0)


def time_of(seconds: float) -> str:
    """Return a time as the API has it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(item: Manifest) -> JobSpec:
    """Return a MalleableJob from the API's object.

    Raises:
        SpecError: It cannot be carried out, with the path of the field.
    """
    metadata, spec = item["metadata"], item.get("spec") or {}
    try:
        job = JobSpec(
            uid=metadata["uid"],
            name=metadata["name"],
            namespace=metadata["namespace"],
            created=seconds_of(metadata.get("creationTimestamp")),
            generation=int(metadata.get("generation", 1)),
            deleted=seconds_of(metadata.get("deletionTimestamp")) or None,
            finalizers=tuple(metadata.get("finalizers") or ()),
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            suspend=bool(spec.get("suspend", False)),
            managed_by=str(spec.get("managedBy") or ""),
            priority=int(spec.get("priority") or 0),
            shards=int(spec.get("shards") or 4),
            workers=_workers(spec.get("workers") or {}, int(spec.get("shards") or 4)),
            servers=_servers(spec.get("parameterServers") or {}),
            checkpoint=_checkpoint(spec.get("checkpoint")),
            backoff_limit=int(spec.get("backoffLimit", _BACKOFF_LIMIT)),
            template=spec.get("template") or {},
            status=item.get("status") or {},
        )
        _check(job)
    except SpecError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SpecError(f"spec cannot be understood: {error}") from None
    return job


def _workers(said: Manifest, shards: int) -> WorkersSpec:
    least = int(said.get("min", 1))
    cpu = said.get("cpu") or {}
    least_cpus = quantities.number(cpu.get("min", 1))
    return WorkersSpec(
        least,
        int(said.get("max", least)),
        least_cpus,
        # Of more than there are shards, a worker cannot make use.
        quantities.number(cpu["max"]) if "max" in cpu else float(max(ceil(least_cpus), shards)),
    )


def _servers(said: Manifest) -> ServersSpec:
    least = int(said.get("min", 0))
    return ServersSpec(least, int(said.get("max", least)), quantities.number(said.get("cpu", 1)))


def _checkpoint(said: Manifest | None) -> CheckpointSpec | None:
    if not said:
        return None
    return CheckpointSpec(str(said["path"]), float(said.get("everySeconds", 300)))


def _check(job: JobSpec) -> None:
    """Check what the schema of the API checks, too: it may be an older one."""
    workers, servers = job.workers, job.servers
    problem = ""
    if len(job.name) > _LONGEST_NAME:
        problem = f"metadata.name has at most {_LONGEST_NAME} characters, not {len(job.name)}"
    elif not 1 <= workers.least <= workers.most:
        problem = (
            f"spec.workers.min must be from 1 to spec.workers.max, {workers.most}, not"
            f" {workers.least}"
        )
    elif not _LEAST_CPUS <= workers.least_cpus <= workers.most_cpus:
        problem = "spec.workers.cpu.min must be from 10m to spec.workers.cpu.max"
    elif ceil(workers.least_cpus) > floor(workers.most_cpus):
        problem = "spec.workers.cpu.max must allow a whole number of CPUs, not below cpu.min"
    elif not 1 <= job.shards <= MOST_SHARDS:
        problem = f"spec.shards must be from 1 to {MOST_SHARDS}, not {job.shards}"
    elif job.shards < workers.most:
        problem = f"spec.shards, {job.shards}, must not be below spec.workers.max, {workers.most}"
    elif not 0 <= servers.least <= servers.most:
        problem = "spec.parameterServers.min must not be above spec.parameterServers.max"
    elif not containers(job.template):
        problem = "spec.template.spec.containers must have a container that trains"
    if problem:
        raise SpecError(problem)
