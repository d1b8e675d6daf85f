# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm cluster install: applies the operator's manifests, those of deploy/kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

import click

from tf_malleable.cli.cluster.connection import Cluster, cluster_options
from tf_malleable.cluster.resource_names import ResourceKind
from tf_malleable.model import OperationError

_NAMESPACE: Final = "tf-malleable"
_ACTS: Final = "tf-malleable-operator-acts"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_PATHS: Final = {
    "ClusterRole": (_RBAC, "clusterroles"),
    "ClusterRoleBinding": (_RBAC, "clusterrolebindings"),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Namespace": ("/api/v1", "namespaces"),
    "Role": (_RBAC, "roles"),
    "RoleBinding": (_RBAC, "rolebindings"),
    "Service": ("/api/v1", "services"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
}

Object = dict[str, Any]


@click.command()
@click.option(
    "--image", metavar="IMAGE", help="Image of the operator.  [default: tf_malleable:VERSION]"
)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default=_NAMESPACE,
    help="Namespace of the operator.",
    show_default=True,
)
@click.option("--only-in", metavar="NAME", help="Limit the operator to the jobs of this namespace.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be applied, without asking a cluster."
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other tools have set.")
@cluster_options
def install(
    cluster: Cluster,
    image: str | None,
    namespace: str,
    only_in: str | None,
    dry_run: bool,
    force_conflicts: bool,
) -> None:
    """Install the operator, or update it to this version.

    Does the same as kubectl apply --server-side -k deploy/kubernetes/base. The cluster must be
    able to pull IMAGE: see deploy/docker.
    """
    items = list(manifests(namespace, image, only_in))
    if dry_run:
        import yaml

        click.echo(yaml.safe_dump_all(items, sort_keys=False), nl=False)
        return
    for item in items:
        cluster.apply(_kind(item), item, force=force_conflicts)
        click.echo(f"{item['kind']} {item['metadata']['name']} applied")


def manifests(
    namespace: str = _NAMESPACE, image: str | None = None, only_in: str | None = None
) -> Iterator[Object]:
    """Yield the objects to apply, in this order.

    Args:
        namespace: Namespace of the operator.
        image: Image of the operator; None for that of this version.
        only_in: Only namespace in which the operator may act; None for all.

    Raises:
        OperationError: The package that reads YAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise OperationError(
            "the package kubernetes is missing: install tf_malleable with its extra, cluster"
        ) from None
    text = (resources.files("tf_malleable.cli.cluster") / "manifests.yaml").read_text()
    for item in yaml.safe_load_all(text):
        _move(item, namespace)
        if item["kind"] == "ClusterRoleBinding" and item["metadata"]["name"] == _ACTS and only_in:
            item["kind"] = "RoleBinding"
            item["metadata"]["namespace"] = only_in
        if item["kind"] == "Deployment":
            container = item["spec"]["template"]["spec"]["containers"][0]
            container["image"] = container["image"] if image is None else image
            container["command"] += ["--only-in", only_in] if only_in else []
        yield item


def _move(item: Object, namespace: str) -> None:
    """Set the namespace of an object, and of the subjects that it refers to."""
    metadata = item["metadata"]
    if item["kind"] == "Namespace":
        metadata["name"] = namespace
    elif "namespace" in metadata:
        metadata["namespace"] = namespace
    for subject in item.get("subjects", ()):
        subject["namespace"] = namespace


def _kind(item: Object) -> ResourceKind:
    prefix, plural = _PATHS[item["kind"]]
    return ResourceKind(prefix, plural, item["apiVersion"], item["kind"])
