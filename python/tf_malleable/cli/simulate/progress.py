# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Progress of a simulation and its remaining time, on stderr in a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class SimulationProgress:
    """A context manager that is called with the number of jobs that have ended."""

    def __init__(self, jobs: int) -> None:
        """Create the progress display of a simulation of this number of jobs."""
        console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("simulated jobs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=jobs)

    def __enter__(self) -> SimulationProgress:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, ended: int) -> None:
        """Show that this many jobs have ended."""
        self._progress.update(self._task, completed=ended)
