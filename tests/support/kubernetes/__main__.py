# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A cluster as a program: python -m tests.support.kubernetes FOLDER.

It knows MalleableJobs, and has no nodes at first. It prints a line of JSON with the kubeconfigs
of an administrator and of the operator's account; then each line of its standard input, such as
{"do": "add_node", "name": "a", "cpus": 2}, is answered by another one. All ends with its input.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.kubernetes.authorization import account
from tests.support.kubernetes.cluster import Cluster

_OPERATOR = account("tf-malleable", "tf-malleable-operator")
_MANIFESTS = ROOT / "deploy" / "kubernetes" / "base"


def pods_cpu_seconds() -> float:
    """Return the CPU time of the processes of all pods that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def actions(cluster: Cluster) -> Mapping[str, Callable[..., Any]]:
    """Return what can be asked for, by name."""

    def add_node(name: str, cpus: float, cordoned: bool = False) -> None:
        cluster.add_node(name, cpus)
        if cordoned:
            cluster.cordon(name)

    def add_image(name: str, variables: dict[str, str]) -> None:
        cluster.images[name] = variables

    return {
        "add_image": add_image,
        "add_node": add_node,
        "cordon": lambda name: cluster.cordon(name),
        "uncordon": lambda name: cluster.cordon(name, on=False),
        "kill_node": cluster.kill_node,
        "freeze_node": cluster.freeze_node,
        "restart_node": lambda name: cluster.restart_node(name) and None,
        "cpu_seconds": pods_cpu_seconds,
    }


def main(folder: Path) -> None:
    """Run a cluster until the input ends."""
    with Cluster(folder) as cluster:
        for file in ("namespace", "crd", "account"):
            cluster.apply((_MANIFESTS / f"{file}.yaml").read_text())
        said = {"admin": cluster.kubeconfig(), "operator": cluster.kubeconfig(_OPERATOR)}
        print(json.dumps({name: str(path) for name, path in said.items()}), flush=True)
        can = actions(cluster)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(can[asked.pop("do")](**asked)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
