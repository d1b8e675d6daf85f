# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Progress of a workload on stderr: a line per event, and in a terminal the view of tfm top."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.top_view import Scene, picture
from tf_malleable.model import OperationError
from tf_malleable.model.units import printable
from tf_malleable.workload.plan import PlannedJob
from tf_malleable.workload.runner import Event


class WorkloadProgress:
    """A context manager that shows the events it is called with."""

    def __init__(self, jobs: Sequence[PlannedJob], controller: Client | None) -> None:
        self._controller = controller
        self._to_arrive = len(jobs)
        self._live_jobs = 0
        self._ended = 0
        self._failed = 0
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> WorkloadProgress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.kind == "arrived":
            self._to_arrive -= 1
            self._live_jobs += 1
        elif event.kind == "ended":
            self._live_jobs -= 1
            self._ended += 1
            self._failed += event.exit_code != 0
        if event.job is not None:
            self._console.print(_line(event), soft_wrap=True)
        if self._live.is_started:
            self._live.update(self._picture(event.seconds), refresh=True)

    def _picture(self, seconds: float) -> RenderableType:
        counts = Text(
            f"{seconds:6.1f} s  {self._to_arrive} to arrive, {self._live_jobs} live,"
            f" {self._ended} ended, {self._failed} of these failed",
            style="bold",
        )
        if self._controller is None:
            return counts
        try:
            scene = Scene(self._controller.info(), self._controller.jobs())
        except OperationError as error:
            return Group(counts, Text(str(error)))
        return Group("", counts, picture(scene))


def _line(event: Event) -> str:
    assert event.job is not None
    start = f"{event.seconds:6.1f} s  {printable(event.job.request.name)}"
    if event.kind == "arrived":
        return f"{start} arrives"
    return f"{start} ends" if event.exit_code == 0 else f"{start} fails with {event.exit_code}"
