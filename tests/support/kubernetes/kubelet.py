# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A node: it runs the containers of its pods as processes, and reports what becomes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.support.kubernetes import (
    conditions,
    environment,
    kinds,
    pods,
    quantities,
    resizing,
    scheduler,
)
from tests.support.kubernetes.api import Api, UnavailableError
from tests.support.kubernetes.authorization import system
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.environment import ConfigError, Images
from tests.support.kubernetes.lifecycle import Timings
from tests.support.kubernetes.loops import Loop
from tests.support.kubernetes.metadata import now
from tests.support.kubernetes.processes import Process
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.runs import ContainerRun, PodRun, terminated
from tests.support.kubernetes.store import Change

Object = dict[str, Any]
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


class Kubelet:
    """The part of a node that runs there.

    Attributes:
        resize_seconds: How long it takes to carry out a resize.
        refuses: "Deferred" if it gives no pod more; "Infeasible" if it changes no pod in which each
            container's requests are its limits, as with a static CPU manager; "" for neither. No
            object shows such reasons.
        died: When it was killed, or frozen, by the monotonic clock; None while it runs.
        is_frozen: Its processes are stopped, and not killed.
    """

    def __init__(
        self,
        api: Api,
        node: Object,
        folder: Path,
        images: Images,
        timings: Timings,
        address: Callable[[], str],
    ) -> None:
        """Register a node and run it.

        Args:
            api: The cluster's.
            node: The Node object.
            folder: For the output of containers.
            images: What images there are.
            timings: How long things take.
            address: Returns an address of 127.0.0.0/8 for one more pod.
        """
        self.name = str(node["metadata"]["name"])
        self.resize_seconds = 0.0
        self.refuses = ""
        self.died: float | None = None
        self.is_frozen = False
        self._client = Client(api, system(f"node:{self.name}"))
        self._node, self._allocatable = node, node["status"]["allocatable"]
        self._folder, self._images, self._timings = folder, images, timings
        self._address, self._host = address, address()
        self._runs: dict[str, PodRun] = {}
        self._known: list[Object] = []
        self._outputs: dict[tuple[str, str], list[Path]] = {}
        # Guards the processes and their outputs: whoever reads what one has printed finds it.
        self._started_lock = threading.Lock()
        with suppress(RefusedError, UnavailableError):  # Tried again in the loop.
            self._register()
        self._loop = Loop(api, f"kubelet-{self.name}", self._step, self._concerns)

    @property
    def broken(self) -> str:
        return self._loop.broken

    def die(self) -> None:
        """Lose power: every process is killed, and nobody reports it."""
        self.died, self.is_frozen = time.monotonic(), False
        self._loop.stop()
        for run in self._runs.values():
            for container in run.containers:
                if container.process is not None:
                    container.process.kill()

    def freeze(self) -> None:
        """Fall silent with all processes, whose connections stay open."""
        # The loop's thread stays: its end would be that of the processes which it started.
        self.died, self.is_frozen = time.monotonic(), True
        for run in self._runs.values():
            for container in run.containers:
                if container.process is not None:
                    container.process.stop()

    def output(self, uid: str, container: str, previous: bool) -> Path:
        """Return the file of a container's output.

        Raises:
            KeyError: There is none.
        """
        with self._started_lock:
            files = list(self._outputs[uid, container])
        if previous and len(files) < 2:
            raise KeyError(container)
        return files[-2 if previous else -1]

    def pids(self, uid: str) -> list[int]:
        """Return the first processes of a pod's containers that run."""
        run = self._runs.get(uid)
        with self._started_lock:
            return [c.process.pid for c in run.containers if c.process and c.runs] if run else []

    def process(self, uid: str) -> Process | None:
        """Return the process of a pod's first container."""
        run = self._runs.get(uid)
        return run.containers[0].process if run else None

    def _register(self) -> None:
        """Have the node known, and known as ready."""
        found = self._client.find("nodes", self.name) or self._client.create(self._node)
        if conditions.is_true(found.get("status", {}), "Ready"):
            return
        addresses = [{"type": "InternalIP", "address": self._host}]
        status = {**found.get("status", {}), **self._node["status"], "addresses": addresses}
        ready = conditions.condition("Ready", "True", "KubeletReady")
        status = conditions.with_condition(status, ready)
        for kind in _PRESSURES:
            status = conditions.with_condition(status, conditions.condition(kind, "False"))
        self._client.set_status("nodes", found, status)

    def _concerns(self, change: Change) -> bool:
        pod = change.key[0] == kinds.PODS and change.object["spec"].get("nodeName") == self.name
        node = change.key == (kinds.NODES, "", self.name)
        return pod or node or change.key[0] in (kinds.SECRETS, kinds.CONFIGMAPS)

    def _step(self) -> float | None:
        if self.is_frozen:
            return None
        with suppress(UnavailableError):  # The pods go on, as they are known.
            self._register()
            self._known = self._client.list("pods", fieldSelector=f"spec.nodeName={self.name}")
        present = {pod["metadata"]["uid"] for pod in self._known}
        for uid in self._runs.keys() - present:
            for container in self._runs.pop(uid).containers:
                if container.process is not None:
                    container.process.kill()
        failed: Exception | None = None
        for pod in self._known:
            try:
                self._look_after(pod)
            except (RefusedError, UnavailableError) as error:
                failed = error  # The other pods are looked after all the same.
        if failed is not None:
            raise failed
        return self._next()

    def _next(self) -> float | None:
        """Return in how many seconds something is due."""
        times = [run.stop_at for run in self._runs.values() if run.stop_at is not None]
        begun = [run.resize_begun for run in self._runs.values() if run.resize_begun is not None]
        times += [each + self.resize_seconds for each in begun]
        for run in self._runs.values():
            if run.over_at is not None and not run.is_over:
                times.append(run.over_at)
            if run.stop_at is None:
                times += [c.due for c in run.containers if not c.runs and c.ended is None]
        soonest = min(times, default=float("inf"))
        return None if soonest == float("inf") else max(0.001, soonest - time.monotonic())

    def _look_after(self, pod: Object) -> None:
        uid, leaving = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        run = self._runs.get(uid)
        if run is None:
            if leaving and pods.is_live(pod):
                why = {"phase": "Failed", "reason": "NodeLost"}
                pod = self._client.set_status("pods", pod, {**pod["status"], **why})
            if leaving:
                self._release(pod)
            elif pods.is_live(pod):
                self._admit(pod)
            return
        for container in run.containers:
            self._note_end(pod, run, container)
        if leaving:
            self._stop(pod, run)
        else:
            self._resize(pod, run)
            for container in run.containers:
                if not container.runs and container.ended is None:
                    self._start(pod, run, container)
        pod = self._report(pod, run)
        if leaving and run.is_over:
            self._release(pod)

    def _release(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and metadata.get("finalizers"):
            return  # Others hold it.
        self._client.delete(
            "pods",
            metadata["name"],
            metadata["namespace"],
            gracePeriodSeconds=0,
            preconditions={"uid": metadata["uid"]},
        )

    def _report(self, pod: Object, run: PodRun) -> Object:
        run.note_end(self._timings.teardown)
        status = run.status(pod, self._host)
        if status == pod["status"]:
            return pod
        return self._client.set_status("pods", pod, status)

    def _admit(self, pod: Object) -> None:
        free = self._free(pod["metadata"]["uid"])
        over = [n for n, v in pods.requests(pod).items() if v > free.get(n, 0)]
        node = self._client.get("nodes", self.name)
        if over or not scheduler.accepts(node, pod):
            reason = f"OutOf{over[0]}" if over else "NodeAffinity"
            said = f"Pod was rejected: Node didn't have enough resource or did not match: {reason}"
            status = {**pod["status"], "phase": "Failed", "reason": reason, "message": said}
            self._client.set_status("pods", pod, status)
            return
        uid = pod["metadata"]["uid"]
        before = {one["name"]: one for one in pod["status"].get("containerStatuses", ())}
        containers = [
            self._resume(uid, spec, before.get(spec["name"])) for spec in pod["spec"]["containers"]
        ]
        run = self._runs[uid] = PodRun(uid, self._address(), containers)
        for container in run.containers:
            if container.ended is None:
                self._start(pod, run, container)
        if pod["spec"]["restartPolicy"] == "Never":
            for container in run.containers:
                if container.last is not None:  # It ran here when the node died.
                    container.ended = container.last
        self._report(pod, run)

    def _resume(self, uid: str, spec: Object, before: Object | None) -> ContainerRun:
        """Return a container that is not started yet, or that ran when this node died."""
        folder = self._folder / uid
        folder.mkdir(parents=True, exist_ok=True)
        container = ContainerRun(spec, spec["resources"], folder / f"{spec['name']}.log")
        if before is not None:
            container.restarts = before["restartCount"]
            if "running" in before["state"]:
                container.restarts += 1
                container.last = terminated(137, before["state"]["running"]["startedAt"])
                container.due = float("inf")
        return container

    def _start(self, pod: Object, run: PodRun, container: ContainerRun) -> None:
        if container.last is not None and pod["spec"]["restartPolicy"] == "Never":
            return
        if container.due == float("inf"):
            container.due = 0.0
        if time.monotonic() < container.due:
            return
        image = container.spec["image"]
        if image in self._images.missing:
            again = container.waiting[0] == "ErrImagePull"
            said = f'Back-off pulling image "{image}"' if again else f"{image}: not found"
            self._put_off(container, "ImagePullBackOff" if again else "ErrImagePull", said)
            return
        known = {**pod, "status": {**pod["status"], "podIP": run.ip, "hostIP": self._host}}
        try:
            environment.check_volumes(pod, container.spec)
            defaults = {"PATH": "/usr/local/bin:/usr/bin:/bin", **self._images.get(image, {})}
            variables = environment.variables(known, container.spec, defaults, self._client)
            command = environment.command(container.spec, variables)
        except ConfigError as error:
            self._put_off(container, "CreateContainerConfigError", str(error))
            return
        folder = Path(container.spec.get("workingDir", container.output.parent))
        with self._started_lock:
            files = self._outputs.setdefault((run.uid, container.name), [])
            output = container.printed = container.output.with_suffix(f".{len(files)}.log")
            container.process = Process(command, variables, folder, output, self._wake)
            files.append(output)
        container.started = now()
        container.limit()

    def _wake(self) -> None:
        self._loop.wake()

    def _put_off(self, container: ContainerRun, reason: str, message: str) -> None:
        delay = self._timings.backoff * 2 ** min(container.failures, 10)
        container.failures += 1
        container.waiting = reason, message
        container.due = time.monotonic() + min(delay, self._timings.longest_backoff)

    def _note_end(self, pod: Object, run: PodRun, container: ContainerRun) -> None:
        if container.process is None or container.process.code is None:
            return
        end = container.note_end()
        policy = pod["spec"]["restartPolicy"]
        again = policy == "Always" or (policy == "OnFailure" and end["exitCode"] != 0)
        if not again or run.stop_at is not None or "deletionTimestamp" in pod["metadata"]:
            container.ended = end
            return
        container.last = end
        container.restarts += 1
        said = f"back-off restarting failed container={container.name}"
        self._put_off(container, "CrashLoopBackOff", said)

    def _stop(self, pod: Object, run: PodRun) -> None:
        grace = pod["metadata"]["deletionGracePeriodSeconds"]
        is_init = not pod["spec"].get("shareProcessNamespace", False)
        if run.stop_at is None:
            run.stop_at = time.monotonic() + grace
            for container in run.containers:
                if container.process is not None:
                    container.process.terminate(is_init=is_init)
        run.stop_at = min(run.stop_at, time.monotonic() + grace)
        for container in run.containers:
            if container.runs and container.process and time.monotonic() >= run.stop_at:
                container.process.kill()
                self._note_end(pod, run, container)
            elif not container.runs and container.ended is None:
                container.ended = container.last or terminated(137, container.started or now())
        if not run.runs:
            run.stop_at = float("inf")

    def _free(self, besides: str) -> dict[str, Fraction]:
        """Return what is allocatable here and not set aside for other pods than one."""
        free = {name: quantities.parse(value) for name, value in self._allocatable.items()}
        live = {p["metadata"]["uid"] for p in self._known if pods.is_live(p)}
        for uid, run in self._runs.items():
            if uid != besides and uid in live:
                for name, value in run.allocated().items():
                    free[name] = free.get(name, Fraction(0)) - value
        return free

    def _resize(self, pod: Object, run: PodRun) -> None:
        specs = {spec["name"]: spec["resources"] for spec in pod["spec"]["containers"]}
        changed = [c for c in run.containers if c.allocated != specs[c.name]]
        if changed and not run.in_progress:
            free = self._free(pod["metadata"]["uid"])
            run.pending = resizing.obstacle(pod, free, self._allocatable)
            if self.refuses == "Deferred" and resizing.grows(pod, run):
                run.pending = self.refuses, "this node gives no pod more than it has"
            if self.refuses == "Infeasible" and pod["status"]["qosClass"] == "Guaranteed":
                # The words of Kubernetes 1.36.2; it refuses less CPU, too.
                message = (
                    'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
                )
                run.pending = self.refuses, message
            if run.pending is not None:
                return
            for container in changed:
                container.allocated = specs[container.name]
            run.resize_begun = time.monotonic()
            run.in_progress = True
        if not changed and not run.in_progress:
            run.pending = None
        begun = run.resize_begun
        if begun is not None and time.monotonic() >= begun + self.resize_seconds:
            for container in run.containers:
                if container.actual != container.allocated:
                    resizing.carry_out(container)
            run.in_progress, run.resize_begun = False, None
