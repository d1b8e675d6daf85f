# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Exit files: how jobs of tfm submit have ended, written by their keepers.

A keeper waits for the program, also while no controller runs. Its file is beside the output, whose
path the job's user has given to the controller. So only regular files of that user are read, and
no devices or pipes; what they say is believed of that user's job only.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux.output_file import open_output
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError
from tf_malleable.model.units import quoted
from tf_malleable.scheduling.records.job_record import Record

_LONGEST: Final = 64
_FORM: Final = re.compile(r"([0-9]{1,3})(?: signal ([0-9]{1,2}))?(?: job ([0-9]{1,19}))?\n")
# Time for reading the files of all jobs: a file system of a user may not answer.
_READ_SECONDS: Final = 2.0
# The clock of files may be behind that of the records.
_SLACK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class RecordedExit:
    """The end of a job's program, as recorded by its keeper.

    Attributes:
        code: Exit code, as in a shell.
        signal: Number of the signal that has ended the program; None if it has exited.
        at: Unix time of the end in seconds.
        job: Id of the job; None in a file of an earlier version.
    """

    code: int
    signal: int | None = None
    at: float = 0.0
    job: str | None = None

    def is_of(self, job: str, submitted: float) -> bool:
        """Return whether this is of a job, and not of an earlier attempt with the same file.

        Args:
            job: Id of the job.
            submitted: Unix time at which it was submitted.
        """
        return job == self.job if self.job else self.at >= submitted - _SLACK_SECONDS

    def encode(self) -> str:
        """Return the content of the file; its modification time is the time of the end."""
        how = "" if self.signal is None else f" signal {self.signal}"
        whose = "" if self.job is None else f" job {self.job}"
        return f"{self.code}{how}{whose}\n"

    @classmethod
    def parse(cls, text: str, at: float) -> RecordedExit:
        """Return what a file says that was written at `at`.

        Raises:
            ValueError: The text has another form.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(
                f"must be an exit code, and maybe a signal and a job, not {quoted(text)}"
            )
        return cls(int(found[1]), None if found[2] is None else int(found[2]), at, found[3])


def exit_file(output: Path) -> Path:
    """Return the file for the exit of a job with this output."""
    return output.with_suffix(".exit")


def read_exit(output: Path, user: str, job: str, submitted: float) -> RecordedExit | None:
    """Return the recorded exit of a job; None if there is none.

    Args:
        output: Path of its output.
        user: Name of its user.
        job: Its id.
        submitted: Unix time at which it was submitted.
    """
    with (
        suppress(OperationError, ValueError, OSError),
        open_output(exit_file(output), user) as file,
    ):
        text, at = file.read(_LONGEST).decode("ascii"), os.fstat(file.fileno()).st_mtime
        found = RecordedExit.parse(text, at)
        return found if found.is_of(job, submitted) else None
    return None


def recorded_exits(records: Iterable[Record]) -> Mapping[str, RecordedExit]:
    """Return the recorded exits of jobs that have ended, by id; those that are known.

    The call takes two seconds at most: a user's file system that does not answer holds up neither
    the controller nor the files of other users.
    """
    by_user: dict[int, list[Record]] = {}
    for record in records:
        if record.output is not None and record.container is None:
            by_user.setdefault(record.uid, []).append(record)
    found: dict[str, RecordedExit] = {}

    def read(jobs: list[Record]) -> None:
        for job in jobs:
            assert job.output is not None
            known = read_exit(Path(job.output), user_name(job.uid), job.id, job.submitted)
            if known is not None:
                found[job.id] = known

    threads = [
        threading.Thread(target=read, args=(jobs,), daemon=True) for jobs in by_user.values()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_READ_SECONDS / len(threads))
    return dict(found)
