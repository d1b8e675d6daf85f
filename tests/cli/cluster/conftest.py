# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A fake cluster that knows MalleableJobs, and tfm in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tests.support.kubernetes.cluster import Cluster
from tf_malleable.cli.main import main

CRD = yaml.safe_load((ROOT / "deploy/kubernetes/base/crd.yaml").read_text())
CONTAINER = {"name": "t", "image": "a:1", "command": ["tfm", "run", "--", "python", "t.py"]}
STATUS = {
    "phase": "Running",
    "generation": 3,
    "startedAt": "2026-01-01T00:00:10Z",
    "desired": {"cpus": 8, "workers": 4},
    "granted": {"cpus": 4, "workers": 2},
    "actual": {"cpus": 3.5, "workers": 2},
    "workers": [
        {"pod": "digits-worker-0", "node": "a", "granted": 2, "actual": 1.5, "shards": 4},
        {"pod": "digits-worker-1", "node": "b", "granted": 2, "actual": 2, "shards": 4},
    ],
    "parameterServers": [{"pod": "digits-server-0", "node": "b", "granted": 1, "actual": 1}],
    "progress": {"step": 120, "steps": 400, "stepsPerSecond": 12.25},
    "rescales": [
        {
            "at": "2026-01-01T00:01:00Z",
            "from": {"workers": 1},
            "to": {"workers": 2},
            "pauseSeconds": 0.048,
            "reason": "join",
        }
    ],
    "conditions": [
        {
            "type": "Granted",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "Scheduled",
            "message": "no node has room for more",
        }
    ],
}


@dataclass
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def bare(tmp_path):
    """A cluster that knows no MalleableJobs."""
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def cluster(bare):
    bare.client.create(CRD)
    return bare


@pytest.fixture
def tfm(bare, monkeypatch, capsys):
    """Runs tfm cluster against the cluster."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")

    def run(*words: object, kubeconfig: Any = True) -> Said:
        path = bare.kubeconfig() if kubeconfig is True else kubeconfig
        more = [] if path is None else ["--kubeconfig", path]
        monkeypatch.setattr(sys, "argv", ["tfm", "cluster", *map(str, [*words, *more])])
        capsys.readouterr()
        code = main()
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def submit(cluster):
    """Creates a job with a status."""

    def create(name: str = "digits", status: Any = STATUS, namespace: str = "default", **spec: Any):
        item = {
            "apiVersion": "tf-malleable.dev/v1alpha1",
            "kind": "MalleableJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "shards": 8,
                "workers": {"max": 4},
                "template": {"spec": {"containers": [CONTAINER]}},
                **spec,
            },
        }
        cluster.client.create(item)
        if status:
            cluster.client.patch(
                "malleablejobs", name, {"status": status}, namespace, part="status"
            )

    return create
