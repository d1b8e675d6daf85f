# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What operators that are killed leave, and how much one asks of the API server."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from benchmarks.common.command_line import BenchmarkError
from benchmarks.real_cluster.place import Place
from tf_malleable.cluster import resource_names

_JOBS: Final = 10
_STEPS: Final = 150
_NODE_CPUS: Final = 2.5


def leads(here: Place, times: int) -> list[float]:
    """Kill operators; return the seconds until another one leads.

    Raises:
        BenchmarkError: None does.
    """
    found = []
    for _ in range(times):
        here.renew_operator()
        before, begin = here.leader(), time.time()
        here.kill_operator()
        here.wait(lambda before=before: here.leader() not in ("", before))  # type: ignore[misc]
        found.append(time.time() - begin)
    return found


def refused(here: Place, seconds: float) -> dict[str, float]:
    """Have ten jobs whose pods are refused; return the number of calls in so many seconds.

    Raises:
        BenchmarkError: They are not refused.
    """
    site = here.site
    site.node("n", _NODE_CPUS)
    limits = [{"type": "Container", "min": {"cpu": "100m"}}]
    about = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "least"}}
    site.client.create({**about, "spec": {"limits": limits}})
    names = [f"refused-{number}" for number in range(_JOBS)]
    for name in names:
        here.submit(name, workers={"max": 1})
    for name in names:
        here.wait(
            lambda name=name: (  # type: ignore[misc]
                site.condition("Healthy", name).get("status") == "False"
            ),
            name,
        )
    first = _counted(here, seconds)
    return {"seconds": seconds, "at_first": first, "calls": _counted(here, seconds)}


def _counted(here: Place, seconds: float) -> float:
    before = here.calls()
    time.sleep(seconds)
    return here.calls() - before


def killed(here: Place, kills: int) -> dict[str, Any]:
    """Kill the operator in each of so many short trainings; return what became of them.

    Raises:
        BenchmarkError: Not even the first training ends, in which nothing is killed.
    """
    chance = random.Random(1)
    here.site.node("n", _NODE_CPUS)
    begin = time.time()
    calm = _train(here, "calm")
    if not calm["succeeded"]:
        raise BenchmarkError(f"a training does not end: {here.site.why('calm')()[:4000]}")
    length = time.time() - begin
    here.clear("calm")
    found = []
    for number in range(kills):
        # One within each part of a training, and of a while after its end.
        at = 1.2 * length * (number + chance.random()) / kills
        found.append({"at": at, **_train(here, f"t{number}", at)})
        here.clear(f"t{number}")
    return {"length": length, "runs": found}


def _train(here: Place, name: str, kill_at: float | None = None) -> dict[str, Any]:
    """Run a short training, and kill the operator after so many seconds."""
    site = here.site
    here.set_steps(name, _STEPS)
    here.submit(name)
    if kill_at is not None:
        time.sleep(kill_at)
        here.kill_operator()
        here.renew_operator()
    try:
        here.wait(lambda: site.status(name).get("phase") in ("Succeeded", "Failed"), name)
    except BenchmarkError:
        return {"succeeded": False, "twice": False, "logs": 0, "phase": site.status(name)}
    status = site.status(name)
    label = f"{resource_names.JOB}={name},{resource_names.ROLE}={resource_names.WORKER}"
    pods = site.client.list("pods", labelSelector=label)
    logs = [site.nodes.log(pod["metadata"]["name"]) for pod in pods]
    return {
        "succeeded": status["phase"] == "Succeeded",
        "twice": [each["reason"] for each in status["rescales"]].count("start") > 1,
        "logs": sum('"trained"' in text for text in logs),
        "phase": status["phase"],
    }
