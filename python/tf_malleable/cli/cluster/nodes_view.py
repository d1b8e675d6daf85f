# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""View of tfm cluster top: nodes as bars, and a table of jobs. No I/O.

A node's bar is as long as its CPUs; a job's letter stands for CPUs that its workers have there.
The view is complete without colours.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tf_malleable.cli.cluster.job_tables import overview
from tf_malleable.cli.cluster.job_view import JobView
from tf_malleable.cli.tables import table
from tf_malleable.cluster import quantities

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS: Final = ("green", "yellow", "blue", "magenta", "cyan", "red", "white")
_WIDEST: Final = 48
_MOST_NODES: Final = 40


@dataclass(frozen=True)
class NodeView:
    """A node.

    Attributes:
        name: Name of the node.
        cpus: Allocatable CPUs, for pods of all kinds.
        state: State in one or a few words.
    """

    name: str
    cpus: float
    state: str

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> NodeView:
        """Parse an API object."""
        status = item.get("status") or {}
        conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        state = "ready" if conditions.get("Ready") == "True" else "not ready"
        if (item.get("spec") or {}).get("unschedulable"):
            state += ", cordoned"
        amount = (status.get("allocatable") or {}).get("cpu", 0)
        return cls(item["metadata"]["name"], quantities.number(amount), state)


@dataclass(frozen=True)
class NodesScene:
    """State of the cluster at one time.

    Attributes:
        nodes: Nodes of the cluster; none if the user may not list them.
        jobs: The jobs.
        now: Time of the scene, in seconds since the epoch.
        namespaces: True if the jobs may be of several namespaces.
    """

    nodes: Sequence[NodeView]
    jobs: Sequence[JobView]
    now: float
    namespaces: bool = False


def picture(scene: NodesScene, note: str = "") -> RenderableType:
    """Return the view.

    Args:
        scene: State to show.
        note: Problem to show first; empty for none.
    """
    parts: list[RenderableType] = [Text(note, style="bold red")] if note else []
    parts.append(_summary(scene))
    live = [job for job in scene.jobs if not job.has_ended]
    if scene.nodes:
        parts += [Text(""), _nodes(scene, live)]
    if scene.jobs:
        parts += [Text(""), _jobs(scene)]
    return Group(*parts)


def _summary(scene: NodesScene) -> Text:
    running = sum(job.phase == "Running" for job in scene.jobs)
    used = sum(job.cpus("actual") or 0.0 for job in scene.jobs if not job.has_ended)
    said = f"{_several(len(scene.jobs), 'MalleableJob')}, {running} running with {used:g} CPUs"
    if scene.nodes:
        total = sum(node.cpus for node in scene.nodes)
        said += f", of {total:g} on {_several(len(scene.nodes), 'node')}"
    return Text(said)


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _nodes(scene: NodesScene, jobs: Sequence[JobView]) -> Table:
    most = max(node.cpus for node in scene.nodes) or 1.0
    # A cell is one CPU if the widest node fits into the bar.
    cell = max(1.0, most / _WIDEST)
    shown = sorted(scene.nodes, key=lambda node: node.name)[:_MOST_NODES]
    rows: list[tuple[RenderableType, ...]] = []
    for node in shown:
        bar, used = Text(), 0.0
        for job in jobs:
            own = sum(
                float(w.get("granted") or 0) for w in job.workers if w.get("node") == node.name
            )
            if own:
                cells = round((used + own) / cell) - round(used / cell)
                bar.append(letter(job) * max(1, cells), style=f"bold {colour(job)}")
                used += own
        free = round(node.cpus / cell) - len(bar)
        bar.append("." * max(0, free), style="dim")
        state = "" if node.state == "ready" else node.state
        rows.append((node.name, f"{used:g}", f"{node.cpus:g}", bar, state))
    hidden = len(scene.nodes) - len(shown)
    if hidden > 0:
        rows.append((f"and {hidden} more", "", "", "", ""))
    return table(("node", ">granted", ">CPUs", "", ""), rows)


def _jobs(scene: NodesScene) -> Table:
    def mark(job: JobView) -> Text:
        return Text(letter(job), style=f"bold {colour(job)}")

    return overview(scene.jobs, scene.now, namespaces=scene.namespaces, mark=mark)


def letter(job: JobView) -> str:
    """Return the letter of a job, which depends on its name alone."""
    return _LETTERS[_number(job) % len(_LETTERS)]


def colour(job: JobView) -> str:
    """Return the colour of a job."""
    return _COLOURS[_number(job) % len(_COLOURS)]


def _number(job: JobView) -> int:
    return zlib.crc32(f"{job.namespace}/{job.name}".encode())
