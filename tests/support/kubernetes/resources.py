# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which resources there are, with their subresources: those built in and those that CRDs add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True)
class Custom:
    """What a CRD says of one of its versions.

    Attributes:
        schema: Its openAPIV3Schema.
        scale: The paths of its scale subresource; None if it has none.
    """

    schema: dict[str, Any] = field(hash=False)
    scale: dict[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Resource:
    """A resource in one version of its group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    singular: str = ""
    verbs: tuple[str, ...] = tuple(VERBS)
    categories: tuple[str, ...] = ()
    custom: Custom | None = None

    @property
    def id(self) -> tuple[str, str]:
        """Return group and plural, which every version shares."""
        return self.group, self.plural

    @property
    def qualified(self) -> str:
        """Return the plural with its group, as error messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_RBAC = "rbac.authorization.k8s.io"
BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", False, ("status", "finalize"), ("ns",)),
    Resource("", "v1", "nodes", "Node", False, ("status",), ("no",)),
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        True,
        ("status", "binding", "eviction", "resize", "log"),
        ("po",),
        categories=("all",),
    ),
    Resource("", "v1", "services", "Service", True, ("status",), ("svc",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "events", "Event", short_names=("ev",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, (), ("pc",)),
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("status",), ("quota",)),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("status",)),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    # Nobody here makes pods of it.
    Resource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        True,
        ("status",),
        ("deploy",),
        categories=("all",),
    ),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        ("status",),
        ("crd", "crds"),
    ),
)
CRDS = BUILT_IN[-1]
# What a subresource takes and gives, where that is not the resource itself.
SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_SUBRESOURCE_VERBS = {"binding": ["create"], "eviction": ["create"], "log": ["get"]}


class Catalogue:
    """The resources that are served."""

    def __init__(self) -> None:
        self._resources = {(r.group, r.version, r.plural): r for r in BUILT_IN}

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an object's apiVersion and kind."""
        return next((r for r in self if (r.api_version, r.kind) == (api_version, kind)), None)

    def named(self, plural: str) -> Resource:
        """Return the resource of this plural, which may be followed by its group.

        Raises:
            KeyError: There is none.
        """
        for resource in self:
            if plural in (resource.plural, resource.qualified):
                return resource
        raise KeyError(f"no resource is called {plural!r}")

    def define(self, definition: dict[str, Any]) -> None:
        """Serve what a CRD defines, and no longer what it did before."""
        spec = definition["spec"]
        self.forget(spec["group"], spec["names"]["plural"])
        for version in spec["versions"]:
            if version["served"]:
                resource = _custom(spec, version)
                self._resources[resource.group, resource.version, resource.plural] = resource

    def forget(self, group: str, plural: str) -> None:
        """Serve a resource no longer."""
        self._resources = {
            key: resource
            for key, resource in self._resources.items()
            if resource.id != (group, plural)
        }

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group but core, the preferred one first."""
        groups: dict[str, list[str]] = {}
        for resource in self:
            versions = groups.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        groups.pop("")
        return groups


def _custom(spec: dict[str, Any], version: dict[str, Any]) -> Resource:
    names, subresources = spec["names"], version.get("subresources", {})
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        spec["scope"] == "Namespaced",
        tuple(name for name in ("status", "scale") if name in subresources),
        tuple(names.get("shortNames", ())),
        names.get("singular", names["kind"].lower()),
        categories=tuple(names.get("categories", ())),
        custom=Custom(version["schema"]["openAPIV3Schema"], subresources.get("scale")),
    )


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def discover(catalogue: Catalogue, path: str) -> dict[str, Any] | None:
    """Return what is served at a path that lists groups, versions or resources; None if nothing."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return {"major": "1", "minor": "35", "gitVersion": "v1.35.0", "platform": "linux/amd64"}
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = catalogue.groups()
    if parts == ["apis"]:
        listed = [_group(name, versions) for name, versions in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    if len(parts) == 2 and parts[0] == "apis" and parts[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    if parts == ["api", "v1"]:
        return _resource_list(catalogue, "", "v1")
    if len(parts) == 3 and parts[0] == "apis" and parts[2] in groups.get(parts[1], ()):
        return _resource_list(catalogue, parts[1], parts[2])
    return None


def _resource_list(catalogue: Catalogue, group: str, version: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    for resource in catalogue:
        if (resource.group, resource.version) == (group, version):
            entries += _entries(resource)
    api_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": entries,
    }


def _entries(resource: Resource) -> Iterator[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    for name in resource.subresources:
        group, version, kind = SUBRESOURCE_KINDS.get(name, ("", "", resource.kind))
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
            **({"group": group, "version": version} if version else {}),
        }
