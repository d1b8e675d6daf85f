# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Stored jobs: what tfm submit needs to start a job again after a reboot.

A file beside the job's output has the command, the environment, the folder and all options. It is
the user's own, and read only by commands of that user: no controller ever starts what somebody
else has stored. It is deleted when the job has ended.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.cli.background.outputs import is_kept
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.linux.processes.users import user_name
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError

_SUFFIX: Final = ".job"
_MOST_BYTES: Final = 1 << 26


@dataclass(frozen=True)
class StoredJob:
    """A job of tfm submit that has not ended.

    Attributes:
        output: Output file of the job.
        options: Options of tfm run, by attribute of RunOptions; of an array, those of this index.
        array: Name of the job's array; None for none.
        at_once: Maximum number of running jobs of the array; None for all.
        folder: Folder in which the program starts.
        umask: Mask of the modes of the files that it makes.
        environment: Environment of the program.
        submitted: Unix time of the submission in seconds.
        job: Id of the job; None before the controller has it.
        attempt: Number of the present attempt, from 1.
        started: True if the program has started in this attempt.
        is_interrupted: True if the end of the program was requested by signals to its keeper.
    """

    output: str
    options: Mapping[str, Any]
    array: str | None
    at_once: int | None
    folder: str
    umask: int
    environment: Mapping[str, str]
    submitted: float
    job: str | None = None
    attempt: int = 1
    started: bool = False
    is_interrupted: bool = False

    @classmethod
    def of_this_process(cls, output: Path, options: RunOptions, request: JobRequest) -> StoredJob:
        """Return the job that this process is about to submit.

        Raises:
            OperationError: This process's folder is gone.
        """
        try:
            folder = os.getcwd()
        except OSError as error:
            raise OperationError(f"cannot find this folder: {error.strerror}") from None
        os.umask(umask := os.umask(0))
        said = {field: getattr(options, field) for field in _FIELDS}
        said |= {"after": request.after, "after_ok": request.after_ok}
        said |= {"array": None, "name": request.name, "given": ()}
        return cls(
            str(output),
            said,
            request.array,
            request.at_once,
            folder,
            umask,
            dict(os.environ),
            time.time(),
        )

    @property
    def title(self) -> str:
        """Id and name of the job, for people."""
        name = self.options["name"]
        return f"job {name}" if self.job is None else f"job {self.job} ({name})"

    def next_attempt(self, *, has_failed: bool = False) -> StoredJob | None:
        """Return the job as it is to be submitted again; None if it is not to run again.

        What has not started waits again. What was interrupted runs again with --requeue, or as
        one of its --retries.

        Args:
            has_failed: True if it was not interrupted, but has failed.
        """
        again = replace(self, started=False, is_interrupted=False)
        if not self.started or (self.options["requeue"] and not has_failed):
            return again
        if self.attempt <= self.options["retries"]:
            return replace(again, attempt=self.attempt + 1)
        return None

    def run_options(self, ids: Mapping[str, str]) -> RunOptions:
        """Return the options of tfm run.

        Args:
            ids: Present ids, by earlier ones, of the jobs that have not ended.
        """
        said = {
            **self.options,
            "after": tuple(ids[each] for each in self.options["after"] if each in ids),
            # Of those that have ended, it matters how.
            "after_ok": tuple(ids.get(each, each) for each in self.options["after_ok"]),
        }
        return RunOptions(**{**said, "command": tuple(said["command"]), "given": frozenset()})

    def save(self, *, durably: bool = False) -> None:
        """Write the file.

        Args:
            durably: Whether to wait until the disk has it.

        Raises:
            OperationError: The file cannot be written.
        """
        path = stored_file(Path(self.output))
        text = json.dumps(dataclasses.asdict(self))
        name = f"{path.name}.{os.getpid()}"
        try:
            with TrustedFolder(path.parent) as folder:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with open(folder.open(name, flags, 0o600), "w") as file:
                    file.write(text)
                    file.flush()
                    if durably:
                        os.fsync(file.fileno())
                places = {"src_dir_fd": folder.descriptor, "dst_dir_fd": folder.descriptor}
                os.rename(name, path.name, **places)
                if durably:
                    folder.sync()
        except OSError as error:
            raise OperationError(f"cannot write {path}: {error.strerror}") from None


_FIELDS: Final = tuple(RunOptions.__annotations__)
_NEEDED: Final = frozenset({"command", "name", "socket"})
_DEFAULTS: Final = {each.variable: each.initial for each in OPTIONS}
_TYPES: Final[Mapping[str, Any]] = {
    "int": int,
    "size": int,
    "float": float,
    "duration": float,
    "text": str,
    "path": str,
    "flag": bool,
    "switch": bool,
    "array": type(None),  # Each job of an array is stored with its own index.
}
_ANY_MASK: Final = 0o777


def stored_file(output: Path) -> Path:
    """Return the file for a stored job with this output."""
    return output.with_suffix(_SUFFIX)


def forget(output: Path) -> None:
    """Delete the stored job with this output, if there is one."""
    with suppress(OSError):
        stored_file(output).unlink()


def stored_jobs(folder: Path) -> tuple[list[StoredJob], list[str]]:
    """Return the stored jobs of this user in order of submission, and what cannot be read.

    Args:
        folder: Folder of the outputs.

    Returns:
        The jobs, and a sentence for each file or folder that is not understood or not this user's.
    """
    found: list[StoredJob] = []
    bad: list[str] = []
    try:
        with TrustedFolder(folder) as inside:
            for name in inside.names():
                if not name.endswith(_SUFFIX):
                    continue
                try:
                    found.append(_read(inside, folder / name))
                except OSError as error:
                    bad.append(f"cannot read {folder / name}: {error.strerror}")
                except ValueError:
                    bad.append(f"cannot understand {folder / name}: delete it, or upgrade")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"cannot read {folder}: {error.strerror}"]
    return sorted(found, key=lambda each: each.submitted), bad


def stored_job(output: Path) -> StoredJob | None:
    """Return the stored job with this output; None if it has ended, or cannot be read."""
    path = stored_file(output)
    with suppress(OSError, ValueError), TrustedFolder(path.parent) as inside:
        return _read(inside, path)
    return None


def interrupted_jobs(folder: Path, socket: str, live: Collection[str | None]) -> list[StoredJob]:
    """Return the stored jobs of this user that nobody keeps.

    Args:
        folder: Folder of the outputs.
        socket: Path of the controller's socket.
        live: Outputs of the controller's live jobs.
    """
    me = user_name(os.geteuid())
    return [
        job
        for job in stored_jobs(folder)[0]
        if job.options["socket"] == socket
        and job.output not in live
        and not is_kept(Path(job.output), me)
    ]


def _read(inside: TrustedFolder, path: Path) -> StoredJob:
    """Return the job of a file in an open folder.

    Raises:
        OSError: The file cannot be read, or is another user's.
        ValueError: As _parse().
    """
    with open(inside.open(path.name, os.O_RDONLY)) as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise ValueError(f"must have at most {_MOST_BYTES} bytes")
        return _parse(file.read(), path)


def _parse(text: str, path: Path) -> StoredJob:
    """Return the job of a file.

    Raises:
        ValueError: The file has another form, as of a newer version.
    """
    import msgspec  # Slow to load, and nothing is read when a job is submitted.

    try:
        said = json.loads(text)
        if not said.keys() <= {field.name for field in dataclasses.fields(StoredJob)}:
            raise ValueError("must have the fields of a stored job")
        job = msgspec.convert(said, StoredJob)
        known = job.options.keys()
        if not _NEEDED <= known <= {*_FIELDS} or stored_file(Path(job.output)) != path:
            raise ValueError(f"must have the options of {path}")
        # An older version has fewer options.
        job = replace(job, options={**_DEFAULTS, **job.options})
        for name, kind in _option_types().items():
            msgspec.convert(job.options[name], kind)
        if not 0 <= job.umask <= _ANY_MASK or not math.isfinite(job.submitted):
            raise ValueError("must have the mask and the time of a process")
        job.title.encode()
    except (msgspec.ValidationError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return job


@cache
def _option_types() -> Mapping[str, Any]:
    """Return the types of the options, by attribute of RunOptions."""
    from msgspec import Meta

    found: dict[str, Any] = {"command": Annotated[list[str], Meta(min_length=1)], "socket": str}
    for option in OPTIONS:
        kind = list[str] if option.multiple else _TYPES[option.kind]
        found[option.variable] = kind if option.initial is not None else kind | None
    return found
