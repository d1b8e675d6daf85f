# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How soon workers come, are missed, go, and make way."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from benchmarks.real_cluster.place import PATIENCE_SECONDS, Place
from tests.support.operators import Object
from tf_malleable.elastic.membership.worker_count import Patience

# Of a node for one worker, and for a coordinator; for two; for one of two CPUs.
_ONE: Final = 1.5
_TWO: Final = 2.5
_LARGE: Final = 3.0
_STEP_SECONDS: Final = 0.02 * 4
_AWAY: Final = "other"


def room(here: Place, times: int) -> list[dict[str, float]]:
    """Uncordon a node again and again; return what happened how long after each time.

    Raises:
        BenchmarkError: No worker comes.
    """
    site = here.site
    site.node("a", _ONE)
    b = site.node("b", _ONE)
    site.nodes.cordon(b)
    here.submit("t")
    found = []
    for _ in range(times):
        here.wait(lambda: _settled(here, 1))
        # So soon after a change the operator would wait for longer than it does for room.
        time.sleep(Patience().between)
        old = {pod["metadata"]["uid"] for pod in site.pods()}
        begin = time.time()
        site.nodes.cordon(b, on=False)

        def fresh(old: set[str] = old) -> Object | None:
            return next((pod for pod in site.pods() if pod["metadata"]["uid"] not in old), None)

        here.wait(fresh)
        moments = {"created": time.time() - begin}
        here.wait(lambda fresh=fresh: _runs(fresh()))  # type: ignore[misc]
        moments["runs"] = time.time() - begin
        here.wait(lambda: len(_workers(here)) == 2)
        moments["registered"] = time.time() - begin
        here.wait(lambda: _settled(here, 2))
        moments["trains"] = time.time() - begin
        found.append(moments)
        site.nodes.cordon(b)
    return found


def _runs(pod: Object | None) -> bool:
    states = (pod or {"status": {}})["status"].get("containerStatuses") or [{"state": {}}]
    return "running" in states[0]["state"]


def _workers(here: Place) -> list[Object]:
    said = here.coordinator() or {"processes": ()}
    return [each for each in said["processes"] if each["role"] == "worker"]


def _settled(here: Place, count: int) -> Object | None:
    """Return what the coordinator says, if so many workers train and nobody else is there."""
    said = here.coordinator()
    if said is None or said["phase"] != "steady":
        return None
    inside = [each["state"] == "in the training" for each in said["processes"]]
    return said if all(inside) and len(inside) == count == len(here.site.pods()) else None


def worker_killed(here: Place, times: int) -> list[dict[str, Any]]:
    """Kill workers; return when there was a generation without each, and its pause.

    Raises:
        BenchmarkError: The training does not go on.
    """
    chance = random.Random(1)
    here.site.node("n", _TWO)
    here.submit("t")
    found = []
    for _ in range(times):
        here.wait(lambda: _settled(here, 2))
        victim = chance.choice(here.site.pods())
        killed = time.time()
        here.kill(victim)

        def generation(killed: float = killed) -> list[Object]:
            said = here.coordinator() or {"rescales": ()}
            return [each for each in said["rescales"] if each["at"] > killed]

        at = here.wait(generation)[0]["at"]
        here.wait(lambda: _settled(here, 2))
        # Of those that make a generation alone there is none to report a pause.
        pauses = [each["pause_seconds"] for each in generation() if each["reason"] == "lost"]
        found.append(
            {
                "generation": at - killed,
                "pause": max(map(float, filter(None, pauses)), default=None),
            }
        )
    return found


def term(here: Place, moments: int) -> dict[str, Any]:
    """Delete workers at random moments of their lives; return how long each took to go.

    Raises:
        BenchmarkError: One does not go, or no other one comes.
    """
    chance = random.Random(1)
    site = here.site
    site.node("n", _TWO)
    here.submit("t", tensorflow=True)
    here.wait(lambda: _settled(here, 2))
    begin = time.time()
    subject = _delete(here, site.pods()[0])[1]
    here.wait(lambda: _settled(here, 2))
    life = time.time() - begin
    found, step = [], _step(here)
    for number in range(moments):
        # One within each part of a life, and of a while after it has begun to train.
        age = 1.2 * life * (number + chance.random()) / moments
        time.sleep(max(0.0, age - (time.time() - begin)))
        taken, after = _delete(here, subject)
        found.append({"age": age, "gone": taken})
        subject, begin = after, time.time()
    here.wait(lambda: _settled(here, 2))
    reasons = [each["reason"] for each in site.status()["rescales"]]
    lost = reasons.count("start") > 1 or _step(here) < step
    return {"life": life, "ends": found, "lost": lost}


def _step(here: Place) -> int:
    return int((here.coordinator() or {"step": 0})["step"])


def _delete(here: Place, pod: Object) -> tuple[float, Object]:
    """Delete a pod; return how long it took to go, and the pod that comes for it."""
    site, metadata = here.site, pod["metadata"]
    known = {each["metadata"]["uid"] for each in site.client.list("pods")}
    begin = time.time()
    site.client.delete("pods", metadata["name"])

    def is_gone() -> bool:
        now = site.client.find("pods", metadata["name"])
        return now is None or now["metadata"]["uid"] != metadata["uid"]

    here.wait(is_gone)
    taken = time.time() - begin

    def successor() -> Object | None:
        return next((each for each in site.pods() if each["metadata"]["uid"] not in known), None)

    found: Any = here.wait(successor)
    return taken, found


def way(here: Place, rounds: int) -> list[dict[str, Any]]:
    """Have pods that fit only if a worker shrinks; return how often its spec changed for each.

    Raises:
        BenchmarkError: No way is made, or the worker does not grow back.
    """
    site = here.site
    site.node("n", _LARGE)
    here.submit("t", workers={"max": 1, "cpu": {"min": 1, "max": 2}})
    found = []
    for number in range(rounds):
        before = here.wait(lambda: _large_worker(here))
        name, begin = f"{_AWAY}-{number}", time.time()
        site.other(name, "1500m")

        def phase(name: str = name) -> str:
            now: str = site.client.get("pods", name)["status"]["phase"]
            return "" if now == "Pending" else now

        ended = here.wait(phase)
        taken = time.time() - begin
        (after,) = site.pods()
        found.append(
            {
                "seconds": taken,
                "phase": ended,
                "same": after["metadata"]["uid"] == before["metadata"]["uid"],
                "changes": after["metadata"]["generation"] - before["metadata"]["generation"],
            }
        )
        site.client.delete("pods", name, gracePeriodSeconds=0)
    return found


def _large_worker(here: Place) -> Any:  # noqa: ANN401 - a pod, or None
    """Return the only worker, if it has grown to two CPUs and its kubelet says so."""
    pods = here.site.pods()
    for pod in pods if len(pods) == 1 else ():
        states = pod["status"].get("containerStatuses") or [{}]
        for one in (pod["spec"]["containers"][0], states[0]):
            if one.get("resources", {}).get("limits", {}).get("cpu") != "2":
                return None
        return pod
    return None


def growth(here: Place, length: float) -> dict[str, float]:
    """Train with one worker, with two, and with room for a second one from a third on.

    Args:
        here: Where.
        length: Length of the training with one worker, in seconds.

    Returns:
        The seconds of each, and when in the last one there was room and the second worker trained.

    Raises:
        BenchmarkError: It does not train.
    """
    site = here.site
    site.node("a", _ONE)
    b = site.node("b", _ONE)
    steps, found = max(60, round(length / _STEP_SECONDS)), {}

    def reached(name: str, step: int, workers: int = 0) -> float:
        """Wait until a training is so far; return the time."""
        # On a busy machine it takes longer than it should.
        patience = PATIENCE_SECONDS + 3 * length
        return here.wait(lambda: _reached(here, name, step, workers), name, patience)

    for name, least, most in (("static-1", 1, 1), ("static-2", 2, 2), ("grows", 1, 2)):
        site.nodes.cordon(b, on=least == 1)
        here.set_steps(name, steps)
        here.submit(name, workers={"min": least, "max": most})
        begin = reached(name, 1, least)
        if name == "grows":
            third = reached(name, steps // 3)
            site.nodes.cordon(b, on=False)
            found["room"] = third - begin
            found["joined"] = reached(name, 0, 2) - begin
        # A little before the end, after which no coordinator answers.
        found[name] = reached(name, steps - 20) - begin
        here.wait(lambda name=name: site.status(name).get("phase") == "Succeeded", name)  # type: ignore[misc]
        here.clear(name)
    return found


def _reached(here: Place, name: str, step: int, workers: int = 0) -> float:
    """Return the time if a training has done so many steps and has so many workers; else 0."""
    said = here.coordinator(name)
    if said is None or said["steps_done"] < step:
        return 0.0
    inside = sum(each["state"] == "in the training" for each in said["processes"])
    return time.time() if inside >= workers else 0.0
