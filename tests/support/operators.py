# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Operators in tests, on a fake cluster whose workers are trainings of a few numbers in NumPy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tests.support.elastic_training import STEPS, undisturbed, write_whole
from tests.support.kubernetes.authorization import account
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.examples import pod as idle
from tf_malleable.cluster import main, resource_names
from tf_malleable.cluster.settings import OperatorSettings, Timings
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.membership.worker_count import Patience

Object = dict[str, Any]
JOBS = "malleablejobs"
IMAGE = "trainer:1"
WORDS = 1000
TIMINGS = Timings(
    call=3.0,
    poll=0.1,
    report=0.2,
    backoff=0.3,
    longest_backoff=2.0,
    deferred=1.0,
    unscheduled=1.0,
    avoided=5.0,
    stuck=2.0,
    ending=20.0,
    closing=10.0,
    refused=0.3,
    longest_refused=1.0,
    look=2.0,
    patience=Patience(fewer=0.1, more=0.1, between=0.1),
)
_NAMESPACE, _ACCOUNT = "tf-malleable", "tf-malleable-operator"
_BASE = ROOT / "deploy" / "kubernetes" / "base"


def wait_until(condition: Callable[[], Any], why: Callable[[], object], seconds=DEADLINE) -> Any:
    """Wait for what must happen, and return it; if it does not, say what is known."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, why()
        time.sleep(0.03)
    return found


class OperatorThread:
    """An operator in a thread of this process."""

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings, self._loop = settings, asyncio.new_event_loop()
        self.problem: BaseException | None = None
        self.port = 0
        self._stop = asyncio.Event()
        self._task: asyncio.Task[int] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(
            main.operate(self._settings, self._stop, self._note_port)
        )
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.problem = error
        finally:
            self._loop.close()

    def _note_port(self, port: int) -> None:
        self.port = port

    def stop(self) -> None:
        """End it in peace."""
        with suppress(RuntimeError):  # It has ended by itself.
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the operator does not end"
        if self.problem is not None:
            raise self.problem


class OperatorProcess:
    """An operator in a process of its own."""

    def __init__(self, settings: OperatorSettings, log: Path) -> None:
        self.identity = settings.identity
        said = {"kubeconfig": str(settings.kubeconfig), "identity": settings.identity}
        said["lease_seconds"] = settings.lease_seconds
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.operators", json.dumps(said)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
            )

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in peace."""
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(DEADLINE) == 0
        finally:
            self.kill()


class Site:
    """A fake cluster with an operator.

    Attributes:
        cluster: The cluster.
        nodes: What drains nodes and knows of their pods.
        folder: Where trainings write.
        seconds: For how long to wait for anything.
    """

    nodes: Any

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.nodes = cluster, folder, cluster
        self.client, self.seconds = cluster.client, DEADLINE
        self._operators: list[OperatorThread | OperatorProcess] = []
        for file in ("namespace", "crd", "account"):
            cluster.apply((_BASE / f"{file}.yaml").read_text())
        self.user, self.namespace = account(_NAMESPACE, _ACCOUNT), _NAMESPACE
        cluster.images[IMAGE] = _image(folder)

    def settings(self, **more: Any) -> OperatorSettings:
        """Return the settings of an operator of this cluster."""
        made = OperatorSettings(
            kubeconfig=self.cluster.kubeconfig(self.user),
            namespace=self.namespace,
            host="127.0.0.1",
            port=0,
            lease_seconds=1.5,
            timings=TIMINGS,
        )
        return replace(made, **more)

    def start(self, **more: Any) -> OperatorThread:
        """Start an operator in this process."""
        made = OperatorThread(self.settings(**more))
        self._operators.append(made)
        return made

    def spawn(self, **more: Any) -> OperatorProcess:
        """Start an operator that can be killed."""
        made = OperatorProcess(self.settings(**more), self.folder / "operator.log")
        self._operators.append(made)
        return made

    def close(self) -> None:
        """End all operators."""
        for each in self._operators:
            if isinstance(each, OperatorProcess):
                each.kill()
            else:
                each.stop()

    def node(self, name: str, cpus: float) -> str:
        """Have one more node with so many CPUs; return what it is called."""
        self.cluster.add_node(name, cpus)
        return name

    def other(self, name: str, cpus: str) -> None:
        """Have somebody else's pod that wants CPUs."""
        self.client.create(idle(name, cpus=cpus))

    def kill(self, pod: Object) -> None:
        """Kill the processes of a pod, as the kernel does that has no memory left."""
        for pid in self.cluster.pids(pod):
            with suppress(ProcessLookupError):  # It has just ended.
                os.kill(pid, signal.SIGKILL)

    # Jobs.

    def submit(self, name: str = "t", *, seconds: float = 0.004, **spec: Any) -> Object:
        """Create a job whose training goes on until end() says when it ends."""
        return self.client.create(self.make(name, seconds=seconds, **spec))

    def make(self, name: str, *, seconds: float = 0.004, **spec: Any) -> Object:
        """Return a job, of which nobody knows yet."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return job(name, folder, seconds, **spec)

    def job(self, name: str = "t") -> Object:
        """Return a job."""
        return self.client.get(JOBS, name)

    def status(self, name: str = "t") -> Object:
        """Return a job's status."""
        found: Object = self.job(name).get("status", {})
        return found

    def condition(self, kind: str, name: str = "t") -> Object:
        """Return a condition of a job; nothing if it has none of this type."""
        found = self.status(name).get("conditions", ())
        return next((one for one in found if one["type"] == kind), {})

    def pods(self, name: str = "t", role: str = resource_names.WORKER) -> list[Object]:
        """Return pods of a job that have not ended and are not leaving."""
        selector = f"{resource_names.JOB}={name},{resource_names.ROLE}={role}"
        return [
            pod
            for pod in self.client.list("pods", labelSelector=selector)
            if pod["status"]["phase"] in ("Pending", "Running")
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def why(self, name: str = "t") -> Callable[[], str]:
        """Return what says all that is known of a job."""

        def said() -> str:
            pods = [
                {
                    "name": pod["metadata"]["name"],
                    "status": pod["status"],
                    "deleted": pod["metadata"].get("deletionTimestamp"),
                    "log": self.nodes.log(pod["metadata"]["name"])[-600:],
                }
                for pod in self.client.list("pods")
            ]
            found = self.client.find(JOBS, name) or {}
            log = self.folder / "operator.log"
            text = log.read_text()[-3000:] if log.exists() else ""
            events = [(e["reason"], e["message"]) for e in self.client.list("events")]
            known = [pods, found.get("metadata"), found.get("status"), events]
            return json.dumps(known, indent=1) + text

        return said

    def wait(
        self, condition: Callable[[], Any], name: str = "t", seconds: float | None = None
    ) -> Any:
        """Wait for what must happen to a job."""

        def is_so() -> Any:
            broken = [each.problem for each in self._operators if isinstance(each, OperatorThread)]
            assert not any(broken), broken
            return condition()

        return wait_until(is_so, self.why(name), seconds or self.seconds)

    def wait_for_workers(self, count: int, name: str = "t") -> Object:
        """Wait until so many workers train and nobody else is there; return the status."""

        def is_so() -> Object | None:
            status = self.status(name)
            is_right = status.get("actual", {}).get("workers") == count
            return status if is_right and len(self.pods(name)) == count else None

        found: Object = self.wait(is_so, name)
        return found

    def wait_for_phase(self, phase: str, name: str = "t") -> Object:
        """Wait for a job's phase; return its status."""
        self.wait(lambda: self.status(name).get("phase") == phase, name)
        return self.status(name)

    def step(self, name: str = "t") -> int:
        """Return how far a training is."""
        return int(self.status(name).get("progress", {}).get("step", 0))

    def end(self, name: str = "t", ahead: int = 100) -> int:
        """Decide when a training ends; return the step."""
        step = max(self.step(name), self._step_now(name)) + ahead
        write_whole(self.folder / name / STEPS, str(step))
        return step

    def _step_now(self, name: str) -> int:
        """Return how far a training is; an operator that was killed says so late."""

        def known() -> int:
            # A coordinator may be too slow to answer, or not know yet after one that was killed.
            steps = (int(said["step"]) for said in self.coordinators_say(name))
            return max(steps, default=0)

        found: int = self.wait(known, name)
        return found

    def servers_in_training(self, name: str = "t") -> int:
        """Return how many servers the training uses, which a pod's status does not say."""
        return sum(
            each["role"] == "server" and each["state"] == "in the training"
            for said in self.coordinators_say(name)
            for each in said["processes"]
        )

    def coordinators_say(self, name: str) -> Iterator[Object]:
        """Tell the status that a training's coordinator reports now."""
        token = self.client.get(
            "secrets", resource_names.secret_name(name, self.job(name)["metadata"]["uid"])
        )
        secret = bytes.fromhex(b64decode(token["data"][resource_names.TOKEN_KEY]).decode())
        for pod in self.pods(name, resource_names.COORDINATOR):
            with suppress(OSError, EOFError, MeshError, KeyError):
                deadline = time.monotonic() + 2.0
                address = Address(pod["status"]["podIP"], resource_names.PORT)
                with messages.connect(address, secret, deadline) as connection:
                    messages.send(connection, {"kind": "status"}, deadline)
                    while (said := messages.receive(connection, deadline))["kind"] != "status":
                        pass
                yield said

    def finish(self, name: str = "t", ahead: int = 100) -> Object:
        """Have a training end; all who come to the end have the undisturbed run's state.

        Nor may it have begun anew, which ends with the same.
        """
        shards = self.job(name)["spec"]["shards"]
        step = self.end(name, ahead)
        status = self.wait_for_phase("Succeeded", name)

        def trained() -> list[Object]:
            return [each for each in self.said(name) if each["how"] == "trained"]

        # A node may have the log of a container a moment after its end.
        found = self.wait(trained, name)
        assert {each["step"] for each in found} == {step}
        assert self.is_undisturbed({each["digest"] for each in found}, step, shards)
        self.wait(lambda: not self.running(name), name)
        reasons = [each["reason"] for each in status["rescales"]]
        assert reasons.count("start") <= 1, reasons
        return status

    def said(self, name: str) -> list[Object]:
        """Return what the workers have said at their end."""
        return [json.loads(path.read_text()) for path in (self.folder / name).glob("*.json")]

    def is_undisturbed(self, digests: set[str], step: int, shards: int) -> bool:
        """Return whether all ended with the state of a run that nobody disturbed."""
        return digests == {undisturbed(WORDS, step, shards)}

    def running(self, name: str = "t") -> list[Object]:
        """Return the pods of a job that have not ended."""
        return [
            pod
            for pod in self.client.list("pods", labelSelector=f"{resource_names.JOB}={name}")
            if pod["status"]["phase"] in ("Pending", "Running")
        ]


def _image(folder: Path) -> dict[str, str]:
    """Return the environment of an image that has tfm and the tests' trainings."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    # A link to a Python would not find the packages of its environment.
    for name, words in (
        ("tfm", f"{sys.executable} -m tf_malleable_cli"),
        ("python", sys.executable),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tools / name).chmod(0o755)
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    paths = [*map(os.path.abspath, given), str(ROOT)]
    return {
        "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def job(name: str, folder: Path, seconds: float = 0.004, **spec: Any) -> Object:
    """Return a job whose workers train a few numbers; they go on until FOLDER/steps says."""
    command = ["tfm", "run", "--", "python", "-m", "tests.support.elastic_training", str(folder)]
    command += ["--words", str(WORDS), "--shard-seconds", str(seconds)]
    container = {"name": "train", "image": IMAGE, "command": command}
    container |= {"workingDir": str(ROOT), "resources": {"limits": {"memory": "64Mi"}}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 20}
    return {
        "apiVersion": resource_names.API_VERSION,
        "kind": resource_names.JOB_KIND,
        "metadata": {"name": name},
        "spec": {
            "shards": 4,
            "workers": {"min": 1, "max": 2, "cpu": {"min": 1, "max": 1}},
            "template": {"spec": pod},
            **spec,
        },
    }


def _main() -> None:
    said = json.loads(sys.argv[1])
    said["kubeconfig"] = Path(said["kubeconfig"])
    settings = OperatorSettings(
        **said, namespace=_NAMESPACE, host="127.0.0.1", port=0, timings=TIMINGS
    )
    sys.exit(main.run(settings))


if __name__ == "__main__":
    _main()
