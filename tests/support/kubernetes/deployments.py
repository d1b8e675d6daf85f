# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Deployments as a server keeps them. Nobody here makes pods of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.support.kubernetes import pods
from tests.support.kubernetes.refusals import Cause, invalid, required, unsupported

Object = dict[str, Any]
_SPEC_FIELDS = ("replicas", "selector", "template", "strategy", "revisionHistoryLimit")
# What nodes here do not carry out, and what a Deployment's pods may have all the same.
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PLACING = ("topologySpreadConstraints",)


def fill(deployment: Object) -> Object:
    """Return a deployment with its defaults."""
    deployment.setdefault("spec", {}).setdefault("replicas", 1)
    return deployment


def validate(deployment: Object) -> Iterator[Cause]:
    """Tell what is wrong with a deployment."""
    spec = deployment["spec"]
    for name in sorted(set(spec) - set(_SPEC_FIELDS)):
        yield unsupported("spec", name, _SPEC_FIELDS)
    template, wanted = spec.get("template") or {}, (spec.get("selector") or {}).get("matchLabels")
    labels = template.get("metadata", {}).get("labels", {})
    if not wanted:
        yield required("spec.selector")
        return
    if not wanted.items() <= labels.items():
        why = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, why)
    inner = {k: v for k, v in template.get("spec", {}).items() if k not in _PLACING}
    names = set()
    for container in inner.get("containers", ()):
        names |= {port.get("name") for port in container.get("ports", ())}
        for probe in set(_PROBES) & set(container):
            port = container[probe].get("httpGet", {}).get("port")
            if port not in names and not isinstance(port, int):
                at = f"spec.template.spec.containers[0].{probe}.httpGet.port"
                yield invalid(at, port, "must be a number, or the name of a port")
    bare = [
        {k: v for k, v in each.items() if k not in _PROBES} for each in inner.get("containers", ())
    ]
    pod = {"metadata": {"name": "a", "labels": labels}, "spec": {**inner, "containers": bare}}
    filled = pods.fill(pod)
    if filled["spec"]["restartPolicy"] != "Always":
        at = "spec.template.spec.restartPolicy"
        yield unsupported(at, filled["spec"]["restartPolicy"], ["Always"])
    for cause in pods.validate(filled):
        yield replace(cause, field=f"spec.template.{cause.field}")
