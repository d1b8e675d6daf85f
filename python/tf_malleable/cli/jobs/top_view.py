# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""View of tfm top, rendered from the controller's answers without I/O.

A job's letter and colour depend only on its id, so they stay the same while other jobs
come and go. The view is complete without colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tf_malleable.api.schema.messages import ControllerInfo, CpuInfo, JobStatus
from tf_malleable.cli.jobs.job_texts import (
    actual,
    desired,
    granted,
    last_change,
    per_step,
    progress,
    read_and_saved,
    state,
    why_waiting,
)
from tf_malleable.cli.tables import JobTable, table
from tf_malleable.model.units import duration, number, percent, short

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "red", "white")

_FREE = "."
_LENT = "-"

_CPUS_PER_LINE = 64
# Up to this many CPUs, cells are wider for better visibility.
_FEW_CPUS = 16
_BAR = 10


@dataclass(frozen=True)
class Scene:
    """Data to show, at one instant."""

    info: ControllerInfo
    jobs: Sequence[JobStatus]


def picture(scene: Scene, note: str = "") -> RenderableType:
    """Return the whole view, of which rows are left out if the screen has too few lines.

    Args:
        scene: Data to show.
        note: Sentence about a current problem, shown on top; empty for none.
    """
    return _View(scene, note)


@dataclass(frozen=True)
class _View:
    """The view, of the size of the screen that it is shown on."""

    scene: Scene
    note: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scene = self.scene
        running = [job for job in scene.jobs if job.state != "waiting"]
        queue = [job for job in scene.jobs if job.state == "waiting"]
        parts: list[RenderableType] = [_header(scene, len(queue))]
        parts += [Text(text, style="bold red") for text in (self.note, scene.info.problem) if text]
        parts += ["", *_strip(scene), ""]
        rows = len(running), len(queue)
        if options.height is not None:
            elastic = [job for job in running if job.elastic is not None]
            heads = 1 + (2 if queue else 0) + (2 + len(elastic) if elastic else 0)
            rows = _shares(options.height - len(parts) - heads, *rows)
        parts.append(_running(running, rows[0]) if running else Text("no job runs", style="dim"))
        if any(job.elastic is not None for job in running):
            parts += ["", _elastic(running)]
        if queue:
            parts += ["", _queue(queue, rows[1])]
        yield Group(*parts)


def _shares(room: int, running: int, waiting: int) -> tuple[int, int]:
    """Return how many of the running and of the waiting jobs are shown on so many lines.

    A line is needed to say how many more there are. Waiting jobs have at most a third of the
    lines, unless the running ones need less than the others.
    """
    if running + waiting <= room:
        return running, waiting
    for_queue = min(waiting, max(room // 3, room - running))
    for_running = min(running, room - for_queue)
    shown = [
        lines if lines == jobs else max(1, lines - 1)
        for lines, jobs in ((for_running, running), (for_queue, waiting))
    ]
    return min(running, shown[0]), min(waiting, shown[1])


def _limited(jobs: JobTable, most: int) -> RenderableType:
    """Return a table with at most so many rows, which says how many more there are."""
    more = len(jobs.rows) - most
    if more <= 0:
        return jobs
    return Group(replace(jobs, rows=jobs.rows[:most]), Text(f"… {more} more", style="dim"))


def _header(scene: Scene, queued: int) -> Text:
    cpus = len(scene.info.cpus)
    used = sum(job.used_cpus or 0.0 for job in scene.jobs)
    busy = f"{used:.1f} used, {used / cpus:.0%}" if cpus else "none"
    return Text.assemble(
        ("policy ", "dim"),
        (scene.info.policy, "bold"),
        ("   CPUs ", "dim"),
        f"{cpus}, {busy}",
        ("   jobs ", "dim"),
        str(len(scene.jobs)),
        ("   queue ", "dim"),
        str(queued),
    )


def _strip(scene: Scene) -> Iterator[Text]:
    """Yield lines with one cell per CPU, grouped by NUMA node."""
    used = {cpu: job for job in scene.jobs for cpu in {*job.granted} & {*job.lent}}
    # Of two jobs that share a CPU, the borrower is shown.
    used |= {cpu: job for job in scene.jobs for cpu in {*job.granted} - {*job.lent}}
    lent = {cpu: job for job in scene.jobs for cpu in job.lent}
    cpus = sorted(scene.info.cpus, key=lambda cpu: (cpu.node, cpu.id))
    width = 3 if len(cpus) <= _FEW_CPUS else 1
    several = len({cpu.node for cpu in cpus}) > 1
    for node, members in groupby(cpus, key=lambda cpu: cpu.node):
        for line in _lines(list(members)):
            text = Text(f"node {node} " if several else "")
            text.append(f"CPU {line[0].id:>3} ", style="dim")
            for cpu in line:
                text.append_text(_cell(used.get(cpu.id), lent.get(cpu.id), width))
            yield text
    yield Text(f"each letter is a job; {_FREE} free, {_LENT} lent and unused", style="dim")


def _lines(cpus: Sequence[CpuInfo]) -> Iterator[Sequence[CpuInfo]]:
    for begin in range(0, len(cpus), _CPUS_PER_LINE):
        yield cpus[begin : begin + _CPUS_PER_LINE]


def _cell(user: JobStatus | None, lender: JobStatus | None, width: int) -> Text:
    if user is not None:
        return Text(letter(user).center(width), style=f"bold black on {colour(user)}")
    if lender is not None:
        return Text(_LENT.center(width), style=colour(lender))
    return Text(_FREE.center(width), style="dim")


def _running(jobs: Sequence[JobStatus], most: int) -> RenderableType:
    columns: tuple[str, ...] = (
        *("", ">id", "name", "state", ">desired", ">granted", ">actual"),
        *(">steps/s", "progress", ">eff.", ">waited"),
    )
    is_metered = any(job.watts is not None for job in jobs)
    if is_metered:
        columns = (*columns, ">W", ">J/step")
    has_tier = any(job.reading is not None for job in jobs)
    if has_tier:
        columns = (*columns, ">from source", ">saved")
    waits = any(why_waiting(job) for job in jobs)
    if waits:
        columns = (*columns, "reason")
    rows: list[tuple[RenderableType, ...]] = [
        (
            Text(letter(job), style=f"bold {colour(job)}"),
            job.id,
            job.name,
            state(job),
            desired(job),
            granted(job),
            actual(job),
            number(job.steps_per_second),
            _bar(job),
            percent(efficiency(job)),
            duration(job.waiting_seconds + job.paused_seconds),
            *(_power(job) if is_metered else ()),
            *(read_and_saved(job.reading) if has_tier else ()),
            *((why_waiting(job),) if waits else ()),
        )
        for job in jobs
    ]
    kept, spare = ("", ">id", "name", "state"), (">waited", ">eff.", ">desired")
    return _limited(JobTable(columns, rows, kept, spare, says_so=False), most)


def _power(job: JobStatus) -> tuple[str, ...]:
    # A tilde marks an estimate, as there is little space for columns.
    about = "" if job.watts is None or job.energy_source == "measured" else "~"
    each = number(per_step(job.energy_joules, job.steps_done), 2)
    return about + number(job.watts), each if each == "-" else about + each


def _elastic(jobs: Sequence[JobStatus]) -> Table:
    columns = ("", "elastic", ">workers", ">servers", ">generation", "last change", ">paused")
    rows = [
        (
            Text(letter(job), style=f"bold {colour(job)}"),
            job.name,
            str(job.elastic.workers),
            str(job.elastic.servers),
            str(job.elastic.generation),
            last_change(job.elastic),
            short(job.elastic.pause_seconds),
        )
        for job in jobs
        if job.elastic is not None
    ]
    return table(columns, rows)


def _queue(jobs: Sequence[JobStatus], most: int) -> RenderableType:
    waits = any(why_waiting(job) for job in jobs)
    columns: tuple[str, ...] = (
        *(">id", "queue", "user", "state", ">min", ">desired", ">priority", ">waiting"),
    )
    rows = [
        (
            job.id,
            job.name,
            job.user,
            state(job),
            str(job.min),
            desired(job),
            str(job.priority),
            duration(job.waiting_seconds),
            *((why_waiting(job),) if waits else ()),
        )
        for job in jobs
    ]
    kept = (">id", "queue", "state", "reason")
    columns = (*columns, "reason") if waits else columns
    spare = (">desired", ">priority", "user", ">min")
    return _limited(JobTable(columns, rows, kept, spare, name="queue", says_so=False), most)


def _bar(job: JobStatus) -> RenderableType:
    share = progress(job)
    if share is None:
        steps = job.steps_done
        return Text("-" if steps is None else f"{steps:.0f} steps")
    bar = Table.grid(padding=(0, 1, 0, 0))
    bar.add_row(
        ProgressBar(total=1.0, completed=share, width=_BAR - 5, complete_style=colour(job)),
        Text(f"{share:4.0%}"),
    )
    return bar


def efficiency(job: JobStatus) -> float | None:
    """Return the share of its cores that a job keeps busy; None if unknown."""
    if job.used_cpus is None or not job.granted:
        return None
    return job.used_cpus / len(job.granted)


def letter(job: JobStatus) -> str:
    """Return the letter of a job."""
    return _LETTERS[(int(job.id) - 1) % len(_LETTERS)]


def colour(job: JobStatus) -> str:
    """Return the colour of a job."""
    return _COLOURS[(int(job.id) - 1) % len(_COLOURS)]
