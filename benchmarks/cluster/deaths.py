# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How soon a training goes on, and is given another worker, when a node dies.

Nodes die in three ways: their processes are killed, so that their connections break; they fall
silent, as without power, and no connection breaks; and the killed one is the coordinator's.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from benchmarks.cluster.api import Object
from benchmarks.cluster.site import Site, site
from benchmarks.cluster.trained import NODE_CPUS, train
from benchmarks.common.command_line import BenchmarkError
from tf_malleable.cluster import resource_names

KINDS: Final = ("killed", "silent", "coordinator")
_NAME: Final = "t"
_NODES: Final = ("a", "b", "c")
_BARE: Final = ("-m", "benchmarks.elastic.worker", "1000", "0.01")
_ENDLESS: Final = 1_000_000
_REST_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 60.0


def measure(times: int, *, keras: bool) -> list[dict[str, Any]]:
    """Have nodes die; return a sample of each time.

    Args:
        times: How often in each way.
        keras: The training is one of Keras, and not of numbers without TensorFlow.

    Raises:
        BenchmarkError: The training does not go on.
    """
    chance = random.Random(1)
    with site() as here:
        for node in _NODES:
            here.tell("add_node", name=node, cpus=NODE_CPUS)
        if keras:
            train(here, _NAME, _ENDLESS, (1, 2))
        else:
            here.submit(_NAME, _BARE, (1, 2))
        found = []
        for kind in KINDS * times:
            here.wait(lambda: _is_whole(here))
            time.sleep(_REST_SECONDS * (1 + chance.random()))
            found.append(_die(here, kind, chance))
        return found


def _is_whole(here: Site) -> bool:
    """Return whether two workers train, and all nodes are ready."""
    ready = all(_is_ready(node) for node in here.api.list(resource_names.NODES))
    return ready and here.settled(_NAME, 2) is not None


def _is_ready(node: Object) -> bool:
    return any(
        (each["type"], each["status"]) == ("Ready", "True") for each in node["status"]["conditions"]
    )


def _die(here: Site, kind: str, chance: random.Random) -> dict[str, Any]:
    workers = here.api.pods(_NAME, resource_names.WORKER)
    before = {pod["metadata"]["uid"] for pod in workers}
    living = [pod for pod in workers if pod["status"]["phase"] == "Running"]
    lost = {pod["spec"]["nodeName"] for pod in living}
    (leading,) = {
        pod["spec"]["nodeName"]
        for pod in here.api.pods(_NAME, resource_names.COORDINATOR)
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }
    if kind == "coordinator" and leading not in lost:
        kind = "killed"  # No worker would be lost.
    victim = leading if kind == "coordinator" else chance.choice(sorted(lost - {leading}))
    died = time.time()
    here.tell("freeze_node" if kind == "silent" else "kill_node", name=victim)
    seen: dict[str, float] = {}
    end = time.monotonic() + _PATIENCE_SECONDS
    while len(seen) < 3:
        if time.monotonic() > end:
            raise BenchmarkError(f"{kind}: the training does not go on; so far: {seen}")
        now = time.time()
        if not _is_ready(here.api.get(resource_names.NODES, victim, "")):
            seen.setdefault("not_ready", now)
        fresh = {
            pod["metadata"]["uid"] for pod in here.api.pods(_NAME, resource_names.WORKER)
        } - before
        if fresh:
            seen.setdefault("replaced", now)
        said = here.coordinator(_NAME)
        if said is not None and kind == "coordinator" and said["phase"] == "steady":
            # Whoever is left may have gone on alone before, of which nobody keeps a record.
            seen.setdefault("generation", time.time())
        for each in (said or {"rescales": ()})["rescales"]:
            if each["at"] > died:
                seen.setdefault("generation", each["at"])
        time.sleep(_LOOK_SECONDS)
    trained = here.wait(lambda: time.time() if here.settled(_NAME, 2) else None)
    here.tell("restart_node", name=victim)
    after = {name: at - died for name, at in (seen | {"whole": trained}).items()}
    return {"kind": kind, **after}
