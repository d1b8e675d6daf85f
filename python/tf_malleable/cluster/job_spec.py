# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job spec: a MalleableJob as its author wrote it, parsed from the API object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import ceil, floor
from typing import Any, Final

from tf_malleable.cluster import pod_template, quantities, resource_names
from tf_malleable.elastic.settings import MOST_SHARDS
from tf_malleable.model.units import quoted

Manifest = Mapping[str, Any]
"""An API object as JSON."""

# A pod's hostname has at most 63 characters, and pod names add a role and a number to the job's.
_LONGEST_NAME: Final = 40
_BACKOFF_LIMIT: Final = 6
_LEAST_CPUS: Final = 0.01


class SpecError(ValueError):
    """Invalid MalleableJob. The message is one sentence."""


@dataclass(frozen=True)
class WorkersSpec:
    """Bounds of a job's number of workers and of the CPUs of each.

    Attributes:
        least: Minimum number of workers.
        most: Maximum number of workers.
        least_cpus: Minimum CPUs of a worker.
        most_cpus: Maximum CPUs of a worker.
    """

    least: int = 1
    most: int = 1
    least_cpus: float = 1.0
    most_cpus: float = 1.0


@dataclass(frozen=True)
class ServersSpec:
    """Bounds of a job's number of parameter servers.

    Attributes:
        least: Minimum number of servers.
        most: Maximum number of servers.
        cpus: CPUs of each server.
    """

    least: int = 0
    most: int = 0
    cpus: float = 1.0


@dataclass(frozen=True)
class CheckpointSpec:
    """Checkpoint of a job, from which new workers start when no worker is left.

    Attributes:
        path: Path of a folder that all workers of the job share.
        every_seconds: Interval between checkpoints, in seconds.
    """

    path: str
    every_seconds: float


@dataclass(frozen=True)
class CoordinatorSpec:
    """Resources of a job's coordinator.

    Attributes:
        cpus: CPUs that it requests.
        memory: Memory that it requests, in bytes.
        most_cpus: Limit of its CPUs.
        most_memory: Limit of its memory, in bytes.
    """

    cpus: float = 0.05
    memory: float = 96.0 * 2**20
    most_cpus: float = 1.0
    most_memory: float = 256.0 * 2**20


@dataclass(frozen=True)
class JobSpec:
    """Spec, metadata and status of a MalleableJob.

    Attributes:
        uid: Uid of the object.
        name: Name of the object.
        namespace: Namespace of the object.
        created: Time of creation, in seconds since the epoch.
        generation: Generation of the spec, as the API server counts it.
        deleted: Deletion timestamp, in seconds since the epoch; None if the job is not deleted.
        finalizers: Finalizers that delay the deletion.
        labels: Labels of the object.
        annotations: Annotations of the object.
        suspend: True if the job must have no workers.
        managed_by: Name of the controller that carries the job out; empty for this operator.
        priority: Priority; a greater number goes first.
        shards: Number of shards that each batch is cut into.
        workers: Bounds of the workers.
        servers: Bounds of the parameter servers.
        coordinator: Resources of the coordinator.
        checkpoint: Checkpoint settings; None if only the script itself saves.
        backoff_limit: Number of crashes without progress that are tolerated.
        template: Template of the workers' pods.
        status: Status as last written.
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
    coordinator: CoordinatorSpec = field(default_factory=CoordinatorSpec)
    checkpoint: CheckpointSpec | None = None
    backoff_limit: int = _BACKOFF_LIMIT
    template: Manifest = field(default_factory=dict)
    status: Manifest = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def is_ours(self) -> bool:
        """Whether this operator carries the job out."""
        return self.managed_by in ("", resource_names.MANAGER)

    @property
    def memory(self) -> float:
        """Memory that a worker's pod requests, in bytes; 0 if the template states none."""
        return sum(_requested(each, "memory") for each in containers(self.template))

    @property
    def overhead_cpus(self) -> float:
        """CPUs that the other containers of a worker's pod request."""
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
    """Return a timestamp of the API in seconds since the epoch; 0 if there is none.

    Raises:
        ValueError: The text is not a timestamp.
    """
    if not text:
        return 0.0
    plain = text.removesuffix("Z")
    # Python 3.10 accepts neither a Z nor a fraction of other than three or six digits.
    whole, _, rest = plain.partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
    return at + (float(f"0.{rest}") if rest else 0.0)


def time_of(seconds: float) -> str:
    """Return a time, given in seconds since the epoch, in the API's format."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(item: Manifest) -> JobSpec:
    """Parse the API object of a MalleableJob.

    Raises:
        SpecError: The job is invalid; the message names the path of the field.
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
            priority=_whole(spec, "priority", 0),
            shards=_whole(spec, "shards", 4),
            workers=_workers(spec.get("workers") or {}, _whole(spec, "shards", 4)),
            servers=_servers(spec.get("parameterServers") or {}),
            coordinator=_coordinator(spec.get("coordinator") or {}),
            checkpoint=_checkpoint(spec.get("checkpoint")),
            backoff_limit=_whole(spec, "backoffLimit", _BACKOFF_LIMIT),
            template=spec.get("template") or {},
            status=item.get("status") or {},
        )
        _check(job)
    except SpecError:
        raise
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SpecError(f"spec cannot be understood: {error}") from None
    return job


def _section(said: object, path: str) -> Manifest:
    if not isinstance(said, dict):
        raise SpecError(f"spec.{path} must be an object, not {quoted(said)}")
    return said


def _whole(said: Manifest, path: str, default: int) -> int:
    """Return a field of the spec that is a whole number.

    Args:
        said: Part of the spec that has the field.
        path: Path of the field, from the spec.
        default: Value if the field is missing.
    """
    found = said.get(path.rpartition(".")[2])
    if found is None:
        return default
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not -(2**63) <= found < 2**63 or found != int(found):
        raise SpecError(f"spec.{path} must be a whole number, not {quoted(found)}")
    return int(found)


def _quantity(said: Manifest, path: str, default: float) -> float:
    """Return a field of the spec that is a quantity; the arguments are those of _whole()."""
    found = said.get(path.rpartition(".")[2])
    if found is None:
        return default
    try:
        return quantities.number(found if isinstance(found, str | int | float) else None)
    except ValueError:
        raise SpecError(f"spec.{path} must be a quantity, not {quoted(found)}") from None


def _workers(given: object, shards: int) -> WorkersSpec:
    said = _section(given, "workers")
    least = _whole(said, "workers.min", 1)
    cpu = _section(said.get("cpu") or {}, "workers.cpu")
    least_cpus = _quantity(cpu, "workers.cpu.min", 1.0)
    return WorkersSpec(
        least,
        _whole(said, "workers.max", least),
        least_cpus,
        # A worker cannot use more CPUs than there are shards.
        _quantity(cpu, "workers.cpu.max", float(max(ceil(least_cpus), shards))),
    )


def _servers(given: object) -> ServersSpec:
    said, path = _section(given, "parameterServers"), "parameterServers"
    least = _whole(said, f"{path}.min", 0)
    most, cpus = _whole(said, f"{path}.max", least), _quantity(said, f"{path}.cpu", 1.0)
    return ServersSpec(least, most, cpus)


def _coordinator(given: object) -> CoordinatorSpec:
    path = "coordinator.resources"
    said = _section(_section(given, "coordinator").get("resources") or {}, path)
    asked, most = (
        _section(said.get(kind) or {}, f"{path}.{kind}") for kind in ("requests", "limits")
    )
    usual = CoordinatorSpec()
    # What is limited but not requested is requested, as Kubernetes has it.
    most_cpus = _quantity(most, f"{path}.limits.cpu", usual.most_cpus)
    most_memory = _quantity(most, f"{path}.limits.memory", usual.most_memory)
    cpus = _quantity(asked, f"{path}.requests.cpu", min(usual.cpus, most_cpus))
    memory = _quantity(asked, f"{path}.requests.memory", min(usual.memory, most_memory))
    for name, least, limit in (("cpu", cpus, most_cpus), ("memory", memory, most_memory)):
        if least < 0:
            raise SpecError(f"spec.{path}.requests.{name} must not be negative")
        if least > limit and name in most:
            raise SpecError(f"spec.{path}.requests.{name} must not be above limits.{name}")
    return CoordinatorSpec(cpus, memory, max(cpus, most_cpus), max(memory, most_memory))


def _checkpoint(given: object) -> CheckpointSpec | None:
    if not given:
        return None
    said = _section(given, "checkpoint")
    path = said.get("path")
    if not isinstance(path, str):
        raise SpecError(f"spec.checkpoint.path must be a text, not {quoted(path)}")
    return CheckpointSpec(path, float(_whole(said, "checkpoint.everySeconds", 300)))


def _check(job: JobSpec) -> None:
    """Check also what the CRD's schema checks: the installed CRD may be an older one."""
    try:
        pod_template.check(job.template)
    except ValueError as error:
        raise SpecError(str(error)) from None
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
    elif servers.cpus <= 0:
        problem = "spec.parameterServers.cpu must be above 0"
    elif not containers(job.template):
        problem = "spec.template.spec.containers must have a container that trains"
    if problem:
        raise SpecError(problem)


def parse_all(
    items: Iterable[Manifest],
) -> tuple[dict[str, JobSpec], dict[str, tuple[JobSpec, str]]]:
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
                jobs[job.uid] = job
        except SpecError as error:
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
