# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A fake cluster with an operator, both as programs of their own.

The fake is that of the tests: a strict API server whose pods are real processes, with a CPU quota
each where cgroups can be made. It is started as a program and spoken to as any cluster is,
through a kubeconfig, as benchmarks of containers speak to an engine; nothing of the
tests is imported. So what it computes is not in the benchmark's process, and only what
no API has, that a node dies, is asked for in another way. All its nodes share this machine.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import tf_malleable
from benchmarks.cluster.api import Api, Object
from benchmarks.common.children import REPOSITORY, clean_environment
from benchmarks.common.command_line import BenchmarkError
from tf_malleable.cluster import resource_names
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError

_FAKE: Final = (sys.executable, "-m", "tests.support.kubernetes")
_OPERATOR: Final = (sys.executable, "-m", "tf_malleable_cli", "cluster", "operator")
_NAMESPACE: Final = "tf-malleable"
_IMAGE: Final = "trainer:1"
_SHARDS: Final = 4
_PATIENCE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.02
# While something is measured that looking takes CPU time from.
_GLANCE_SECONDS: Final = 0.5
_ANSWER_SECONDS: Final = 2.0
_Found = TypeVar("_Found")


class Site:
    """A cluster with an operator.

    Attributes:
        api: Calls its API as an administrator.
        folder: Where trainings write.
    """

    def __init__(self, stack: ExitStack) -> None:
        """Start both.

        Args:
            stack: Ends them.
        """
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfm-")))
        self._log = stack.enter_context((self.folder / "log").open("w+b"))
        # Above the repository's, whose package may not be what is measured.
        paths = [str(Path(tf_malleable.__file__).parents[1]), str(REPOSITORY)]
        self._env = clean_environment({"PYTHONPATH": os.pathsep.join(paths)})
        self._fake = subprocess.Popen(
            [*_FAKE, str(self.folder)],
            cwd=REPOSITORY,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        stack.callback(self._end_fake)
        found = self._answer()
        self.api = Api(Path(found["admin"]))
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        variables = {"PATH": path, "PYTHONPATH": self._env["PYTHONPATH"]}
        self.tell("add_image", name=_IMAGE, variables=variables)
        words = [*_OPERATOR, "--kubeconfig", found["operator"], "--namespace", _NAMESPACE]
        self._operator = subprocess.Popen(
            [*words, "--port", "0"], cwd=REPOSITORY, env=self._env, stderr=self._log
        )
        stack.callback(self._end_operator)

    def _end_fake(self) -> None:
        self._fake.communicate()

    def _end_operator(self) -> None:
        self._operator.terminate()
        self._operator.wait()

    def _answer(self) -> Any:  # noqa: ANN401 - whatever was asked for
        assert self._fake.stdout is not None
        line = self._fake.stdout.readline()
        if not line:
            raise BenchmarkError(f"the fake cluster has ended{self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return f": {lines[-1]}" if lines else ""

    def tell(self, do: str, **how: object) -> Any:  # noqa: ANN401 - whatever was asked for
        """Have the machines of the cluster do something that no API has, and return the answer."""
        assert self._fake.stdin is not None
        self._fake.stdin.write(json.dumps({"do": do, **how}).encode() + b"\n")
        self._fake.stdin.flush()
        return self._answer()

    def submit(
        self, name: str, program: Sequence[str], workers: tuple[int, int], cpus: int = 1
    ) -> float:
        """Create a job; return when.

        Args:
            name: Name of the job; its folder is the last word of the program.
            program: Words after python.
            workers: The fewest and the most.
            cpus: The most of a worker.
        """
        folder = self.folder / name
        folder.mkdir()
        variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_MALLEABLE_ELASTIC_SEED": "1"}
        container = {
            "name": "train",
            "image": _IMAGE,
            "command": ["tfm", "run", "--", "python", *program, str(folder)],
            "workingDir": str(REPOSITORY),
            "resources": {"limits": {"memory": "1Gi"}},
            "env": [{"name": key, "value": value} for key, value in variables.items()],
        }
        least, most = workers
        spec = {
            "shards": _SHARDS,
            "workers": {"min": least, "max": most, "cpu": {"min": 1, "max": cpus}},
            "backoffLimit": 100,
            "template": {"spec": {"containers": [container]}},
        }
        self.api.create(
            resource_names.JOBS,
            {
                "apiVersion": resource_names.API_VERSION,
                "kind": resource_names.JOB_KIND,
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        return time.time()

    def coordinator(self, name: str) -> dict[str, Any] | None:
        """Return what a job's coordinator says; None if none answers."""
        try:
            job = self.api.get(resource_names.JOBS, name)
            secret = self.api.get(
                resource_names.SECRETS, resource_names.secret_name(name, job["metadata"]["uid"])
            )
            service = self.api.get(resource_names.SERVICES, resource_names.service_name(name))
        except BenchmarkError:
            return None  # They are not there yet.
        token = bytes.fromhex(base64.b64decode(secret["data"][resource_names.TOKEN_KEY]).decode())
        deadline = time.monotonic() + _ANSWER_SECONDS
        try:
            where = Address(service["spec"]["clusterIP"], resource_names.PORT)
            with messages.connect(where, token, deadline) as connection:
                messages.send(connection, {"kind": "status"}, deadline)
                return messages.receive(connection, deadline)
        except (OSError, EOFError, MeshError):
            return None

    def settled(self, name: str, workers: int) -> dict[str, Any] | None:
        """Return what the coordinator says, if so many workers train and nobody else is there."""
        said = self.coordinator(name)
        if said is None or said["phase"] != "steady":
            return None
        inside = [each for each in said["processes"] if each["state"] == "in the training"]
        return said if len(inside) == len(said["processes"]) == workers else None

    def phase(self, name: str) -> str:
        """Return a job's phase."""
        found: str = self.status(name).get("phase", "")
        return found

    def status(self, name: str) -> Object:
        """Return a job's status."""
        found: Object = self.api.get(resource_names.JOBS, name).get("status", {})
        return found

    def wait(
        self,
        condition: Callable[[], _Found | None],
        seconds: float = _PATIENCE_SECONDS,
        look: float = _LOOK_SECONDS,
    ) -> _Found:
        """Wait for a condition, and return what it found.

        Args:
            condition: Returns something true once it is so.
            seconds: For how long at most.
            look: How often to look.

        Raises:
            BenchmarkError: It does not come true, or the operator has ended.
        """
        end = time.monotonic() + seconds
        while not (found := condition()):
            if self._operator.poll() is not None:
                raise BenchmarkError(f"the operator has ended{self._last_words()}")
            if time.monotonic() > end:
                jobs = {
                    j["metadata"]["name"]: j.get("status")
                    for j in self.api.list(resource_names.JOBS)
                }
                raise BenchmarkError(f"nothing happens any more: {json.dumps(jobs)[:2000]}")
            time.sleep(look)
        return found

    def finish(self, name: str, epochs: int) -> None:
        """Wait until a job has succeeded.

        Raises:
            BenchmarkError: It has failed, or takes too long for so many epochs.
        """

        def is_over() -> bool:
            phase = self.phase(name)
            if phase == "Failed":
                raise BenchmarkError(f"{name} has failed: {json.dumps(self.status(name))[:2000]}")
            return phase == "Succeeded"

        self.wait(is_over, _PATIENCE_SECONDS + 10.0 * epochs, _GLANCE_SECONDS)

    def notes(self, name: str) -> list[list[dict[str, Any]]]:
        """Return what each process of a training has noted, in the order of their starts."""
        files = sorted((self.folder / name).glob("*.jsonl"))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


@contextmanager
def site() -> Iterator[Site]:
    """Run a cluster without nodes, and an operator, for a while."""
    with ExitStack() as stack:
        yield Site(stack)
