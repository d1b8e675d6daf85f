# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller as its clients have it: typed answers, and one sentence when it fails."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from tf_malleable.api.connection import Connection
from tf_malleable.api.messages import ControllerInfo, Jobs, JobStatus
from tf_malleable.model import ControllerError, OperationError

_Answer = TypeVar("_Answer")

_BAD_REQUEST = 400


class NoAnswerError(OperationError):
    """No controller answers at the socket."""


@dataclass(frozen=True)
class Client:
    """A controller, by its socket. Each request is a connection of its own.

    Attributes:
        socket: Where it listens.
    """

    socket: Path

    def get(self, path: str, answer: type[_Answer]) -> _Answer:
        """Read something. Raises as :meth:`ask` does."""
        return self.ask("GET", path, answer)

    def ask(self, method: str, path: str, answer: type[_Answer], body: object = None) -> _Answer:
        """Send a request and return its answer.

        Raises:
            NoAnswerError: No controller answers.
            OperationError: It refuses, or speaks another language.
            ValueError: It finds fault with what was asked for.
        """
        try:
            with closing(Connection(self.socket)) as connection:
                return msgspec.convert(connection.request(method, path, body), answer)
        except ControllerError as error:
            if error.status == _BAD_REQUEST:
                raise ValueError(str(error)) from None
            raise OperationError(str(error)) from None
        except msgspec.ValidationError:
            raise OperationError(
                f"the controller at {self.socket} is of a version that this tfm does not understand"
            ) from None
        except PermissionError:
            raise NoAnswerError(f"you may not use the controller at {self.socket}") from None
        except OSError:
            raise NoAnswerError(
                f"no controller answers at {self.socket}; start one with: tfm controller"
            ) from None

    def info(self) -> ControllerInfo:
        """Return what the controller says of itself."""
        return self.get("/v1", ControllerInfo)

    def jobs(self) -> list[JobStatus]:
        """Return the live jobs, in order of arrival."""
        return self.get("/v1/jobs", Jobs).jobs

    def find(self, job: str) -> JobStatus:
        """Return the live job with this id, or else the one with this name.

        Raises:
            OperationError: There is none, or there are several of that name.
        """
        jobs = self.jobs()
        found = [each for each in jobs if each.id == job] or [
            each for each in jobs if each.name == job
        ]
        if not found:
            raise OperationError(f"there is no job {job!r}; tfm jobs lists those there are")
        if len(found) > 1:
            ids = ", ".join(each.id for each in found)
            raise OperationError(f"there are {len(found)} jobs {job!r}; say which by its id: {ids}")
        return found[0]
