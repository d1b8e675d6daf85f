# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where it is measured: the cluster of KUBECONFIG, or the tests' fake one, to try a measure.

Both are as tests have them, with what tests do not need: the processes of a pod, an operator with
the timings of an installed one that can be killed, and the number of its calls.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import pytest

from benchmarks.common.children import REPOSITORY
from benchmarks.common.command_line import BenchmarkError
from tests.support.elastic_training import STEPS
from tests.support.kubernetes.cluster import Cluster
from tests.support.operators import JOBS, Object, Site
from tests.support.real_cluster import RealClient
from tests.support.real_site import RealSite
from tf_malleable.cluster import resource_names

_NAMESPACE: Final = "tf-malleable"
_OPERATOR: Final = "tf-malleable-operator"
_LOOK_SECONDS: Final = 0.02
# Two imports of TensorFlow take minutes on a busy machine.
PATIENCE_SECONDS: Final = 600.0
_PROGRAM: Final = str(REPOSITORY / "tests" / "support" / "elastic_training.py")
# Starts as trainings do, most of whose first seconds is the import of TensorFlow.
_WITH_TENSORFLOW: Final = (
    "import runpy, sys, tensorflow; del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
_FLOW: Final = "tf-malleable-benchmark"
_PAUSE: Final = "pause"
_Found = TypeVar("_Found")


class Place(ABC):
    """A cluster with an operator.

    Attributes:
        site: Its nodes, jobs and pods, as tests have them.
    """

    def __init__(self, site: Site) -> None:
        self.site = site

    @abstractmethod
    def start(self) -> None:
        """Start the operator, and wait until it leads."""

    @abstractmethod
    def processes(self, pod: Object) -> list[int]:
        """Return the processes of a pod's containers.

        Raises:
            BenchmarkError: They are on another machine.
        """

    @abstractmethod
    def kill_operator(self) -> None:
        """Kill the operator that leads; another one starts as the cluster has it."""

    @abstractmethod
    def renew_operator(self) -> None:
        """Have an operator that was not killed before, so that its next start is not put off."""

    @abstractmethod
    def calls(self) -> float:
        """Return how many calls of the API server operators have made."""

    @abstractmethod
    def set_steps(self, name: str, steps: int) -> None:
        """Decide how long a training is, before its job is created."""

    def leader(self) -> str:
        """Return the identity of the operator that leads; empty if none does."""
        lease = self.site.client.find("leases", _OPERATOR, _NAMESPACE)
        return str((lease or {"spec": {}})["spec"].get("holderIdentity") or "")

    def kill(self, pod: Object) -> None:
        """Kill the processes of a pod."""
        for pid in self.processes(pod):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def submit(self, name: str, *, tensorflow: bool = False, **spec: object) -> None:
        """Create a job of a training of a few numbers, whose shards take 20 ms each.

        Args:
            name: Name of the job.
            tensorflow: True to import TensorFlow first.
            spec: More of its spec.
        """
        made = self.site.make(name, seconds=0.02, backoffLimit=100, **spec)
        (container,) = made["spec"]["template"]["spec"]["containers"]
        words = container["command"]
        if "-m" in words:
            at = words.index("-m")
            words[at : at + 2] = [_PROGRAM]
            words += ["--steps-in", str(self.site.folder / name)]
        if tensorflow:
            at = words.index("python") + 1
            words[at:at] = ["-c", _WITH_TENSORFLOW]
            container["env"] = [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "3"}]
            container["resources"] = {"limits": {"memory": "2Gi"}}
        self.site.client.create(made)

    def coordinator(self, name: str = "t") -> Object | None:
        """Return what a training's coordinator says; None if none answers."""
        with suppress(Exception):  # It is coming or going.
            return next(self.site.coordinators_say(name), None)
        return None

    def wait(
        self,
        condition: Callable[[], _Found | None],
        name: str = "t",
        seconds: float = PATIENCE_SECONDS,
    ) -> _Found:
        """Wait for what must happen, looking often; return it.

        Raises:
            BenchmarkError: It does not happen in so many seconds.
        """
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise BenchmarkError(f"nothing happens any more: {self.site.why(name)()[:4000]}")
            time.sleep(_LOOK_SECONDS)
        return found

    def clear(self, name: str = "t") -> None:
        """Delete a job, and wait until its pods are gone."""
        if self.site.client.find(JOBS, name) is not None:
            self.site.client.delete(JOBS, name)
        label = f"{resource_names.JOB}={name}"
        self.wait(lambda: not self.site.client.list("pods", labelSelector=label), name)


class FakePlace(Place):
    """The tests' fake cluster, with an operator as it is installed."""

    def __init__(self, site: Site, folder: Path) -> None:
        super().__init__(site)
        self._folder = folder
        self._operator: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the operator, and wait until it leads."""
        config = self.site.cluster.kubeconfig(self.site.user)
        words = [sys.executable, "-m", "tf_malleable_cli", "cluster", "operator"]
        words += ["--kubeconfig", str(config), "--namespace", _NAMESPACE, "--port", "0"]
        with (self._folder / "operator.log").open("ab") as log:
            self._operator = subprocess.Popen(words, stderr=log, cwd=self._folder)
        self.wait(self.leader)

    def stop(self) -> None:
        """End the operator."""
        if self._operator is not None:
            self._operator.terminate()
            self._operator.wait()

    def processes(self, pod: Object) -> list[int]:
        """Return the processes of a pod's containers."""
        return list(self.site.cluster.pids(pod))

    def kill_operator(self) -> None:
        """Kill the operator that leads; another one starts at once."""
        assert self._operator is not None
        self._operator.kill()
        self._operator.wait()
        self.start()

    def renew_operator(self) -> None:
        """Have an operator that was not killed before."""
        self.wait(self.leader)

    def calls(self) -> float:
        """Return how many calls of the API server operators have made."""
        return len(self.site.cluster.calls(self.site.user))

    def set_steps(self, name: str, steps: int) -> None:
        """Decide how long a training is, before its job is created."""
        (self.site.folder / name).mkdir(exist_ok=True)
        (self.site.folder / name / STEPS).write_text(str(steps))


class RealPlace(Place):
    """The cluster of KUBECONFIG, all of whose nodes are on this machine."""

    def __init__(self, site: RealSite, client: RealClient) -> None:
        super().__init__(site)
        self._real, self._client = site, client

    def start(self) -> None:
        """Start the operator, and wait until it leads."""
        self.site.start()
        self._client.apply(_flow_schema(), force="true")
        self.wait(self._leading_pod)

    def processes(self, pod: Object) -> list[int]:
        """Return the processes of a pod's containers."""
        uid = pod["metadata"]["uid"]
        found = [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, uid)
        ]
        if not found and pod["status"]["phase"] == "Running":
            raise BenchmarkError(
                "the nodes' processes are not on this machine: start them by tools/real_cluster.py"
            )
        return found

    def kill_operator(self) -> None:
        """Kill the operator that leads; another one starts at once."""
        self.kill(self.wait(self._leading_pod))

    def renew_operator(self) -> None:
        """Have an operator that was not killed before."""
        before = self.wait(self._leading_pod)
        name, uid = before["metadata"]["name"], before["metadata"]["uid"]
        with suppress(Exception):
            self._client.delete("pods", name, _NAMESPACE, gracePeriodSeconds=0)

        def is_another() -> bool:
            found = self._leading_pod()
            return found is not None and found["metadata"]["uid"] != uid

        self.wait(is_another)

    def calls(self) -> float:
        """Return how many calls of the API server operators have made."""
        pattern = (
            rf'^apiserver_flowcontrol_dispatched_requests_total{{flow_schema="{_FLOW}",.*}} (\S+)'
        )
        return sum(map(float, re.findall(pattern, self._client.metrics(), re.MULTILINE)))

    def set_steps(self, name: str, steps: int) -> None:
        """Decide how long a training is, before its job is created."""
        self._real.set_steps(name, steps)

    def _leading_pod(self) -> Object | None:
        """Return the pod that leads and runs; None if there is none."""
        leader = self.leader()
        for pod in self._client.list("pods", _NAMESPACE):
            states = pod["status"].get("containerStatuses") or [{"ready": False}]
            if leader.startswith(f"{pod['metadata']['name']}-") and states[0]["ready"]:
                return pod
        return None


def _is_of(pid: int, uid: str) -> bool:
    """Return whether a process belongs to a container of a pod."""
    with suppress(OSError):
        groups = Path(f"/proc/{pid}/cgroup").read_text()
        if uid in groups or uid.replace("-", "_") in groups:
            return Path(f"/proc/{pid}/comm").read_text().strip() != _PAUSE
    return False


def _flow_schema() -> Object:
    """Return what has the API server count the operator's calls."""
    account = {"name": _OPERATOR, "namespace": _NAMESPACE}
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
        "resourceRules": [{**every, "clusterScope": True, "namespaces": ["*"]}],
    }
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": _FLOW},
        "spec": {
            "matchingPrecedence": 500,
            "priorityLevelConfiguration": {"name": "workload-low"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule],
        },
    }


@contextmanager
def place(*, fake: bool) -> Iterator[Place]:
    """Have a cluster with an operator for a while.

    Args:
        fake: True for the tests' fake one.

    Raises:
        BenchmarkError: The cluster is too small, or nothing happens there.
    """
    with tempfile.TemporaryDirectory(prefix="tfm-") as name:
        folder = Path(name)
        try:
            yield from _fake(folder) if fake else _real(folder)
        except pytest.skip.Exception as lack:
            raise BenchmarkError(str(lack)) from None
        except AssertionError as error:
            raise BenchmarkError(str(error)[:4000]) from None


def _fake(folder: Path) -> Iterator[Place]:
    with Cluster(folder) as cluster:
        site = Site(cluster, folder)
        here = FakePlace(site, folder)
        try:
            here.start()
            yield here
        finally:
            here.stop()
            site.close()


def _real(folder: Path) -> Iterator[Place]:
    image = os.environ.get("TFM_TEST_IMAGE", "")
    if not image:
        raise BenchmarkError("TFM_TEST_IMAGE names no image: see tools/real_cluster.py, or --fake")
    client = RealClient()
    try:
        site = RealSite(client, image, folder)
        here = RealPlace(site, client)
        try:
            here.start()
            yield here
        finally:
            site.close()
    finally:
        client.close()
