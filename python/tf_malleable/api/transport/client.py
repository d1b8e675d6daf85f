# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Typed client of the controller, for the command line. Each error is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from tf_malleable.api.schema.messages import ControllerInfo, Jobs, JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.connection import Connection
from tf_malleable.model import ControllerError, OperationError

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Client:
    """A client of one controller.

    Attributes:
        socket: Path of the controller's socket, or the name of its host.
        connect: Returns a connection for one request, to a controller on another host; None
            opens a connection to the socket for each request.
    """

    socket: Path | str
    connect: Callable[[], AbstractContextManager[Connection]] | None = None

    def get(self, path: str, answer: type[_Answer]) -> _Answer:
        """Send a GET request. Raises: as :meth:`ask`."""
        return self.ask("GET", path, answer)

    def ask(self, method: str, path: str, answer: type[_Answer], body: object = None) -> _Answer:
        """Send a request and return its answer.

        Raises:
            NoAnswerError: No controller can be reached.
            OperationError: The controller refuses, or its answer is not understood.
            ValueError: The request was invalid.
        """
        try:
            with self._connected() as connection:
                return msgspec.convert(connection.ask(method, path, body), answer)
        except ControllerError as error:
            raise OperationError(str(error)) from None
        except msgspec.ValidationError:
            raise OperationError(
                f"the controller at {self.socket} has a version that this tfm does not support"
            ) from None
        except OSError as error:
            raise NoAnswerError(self.socket, error) from None

    def _connected(self) -> AbstractContextManager[Connection]:
        return closing(Connection(self.socket)) if self.connect is None else self.connect()

    def info(self) -> ControllerInfo:
        """Return information about the controller itself."""
        return self.get("/v1", ControllerInfo)

    def jobs(self) -> list[JobStatus]:
        """Return the live jobs, in order of arrival."""
        return self.get("/v1/jobs", Jobs).jobs

    def find(self, job: str, jobs: Sequence[JobStatus] | None = None) -> JobStatus:
        """Return the live job with this id, or else the one with this name.

        Args:
            job: Id or name of the job.
            jobs: The live jobs; None to request them.

        Raises:
            OperationError: There is no such job, or several have this name.
        """
        jobs = self.jobs() if jobs is None else jobs
        found = [each for each in jobs if each.id == job] or [
            each for each in jobs if each.name == job
        ]
        if not found:
            raise OperationError(f"there is no job {job!r}; 'tfm jobs' lists the live jobs")
        if len(found) > 1:
            ids = ", ".join(each.id for each in found)
            raise OperationError(
                f"there are {len(found)} jobs named {job!r}; give the id of one: {ids}"
            )
        return found[0]
