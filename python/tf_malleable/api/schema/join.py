# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Join request: the controller that a program joins, and the job as which it joins.

`tfm run` passes both in one environment variable, to the program that it starts and to
all descendants of that program.
"""

from __future__ import annotations

import json
import os

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.model.units import quoted
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

JOIN: Final = "TF_MALLEABLE_JOIN"


@dataclass(frozen=True)
class Join:
    """A job and its controller.

    Attributes:
        socket: Path of the controller's socket.
        request: Request of the job.

    Raises:
        ValueError: `socket` is not a path.
    """

    socket: str
    request: JobRequest

    def __post_init__(self) -> None:
        if not isinstance(self.socket, str) or not self.socket:
            raise ValueError(f"socket must be a path, not {quoted(self.socket)}")

    def encode(self) -> str:
        """Return the value of the environment variable."""
        return json.dumps({"socket": self.socket, **self.request.said()})

    @classmethod
    def decode(cls, text: str) -> Join:
        """Return the Join that encode() turned into this text.

        Unknown fields are ignored, as a newer `tfm` may have set them.

        Raises:
            ValueError: The text has another form; the message says what is wrong.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{JOIN} must be JSON as 'tfm run' writes it, not {_short(text)}")
        try:
            if found.get("socket") is None:
                raise ValueError("socket is missing")
            return cls(found["socket"], JobRequest.read(found))
        except ValueError as error:
            raise ValueError(
                f"{JOIN} must be JSON as 'tfm run' writes it, not {_short(text)}: {error}"
            ) from None


def join_asked_for() -> Join | None:
    """Return the job that this process belongs to; None if `tfm run` did not start it.

    Raises:
        ValueError: TF_MALLEABLE_JOIN does not have the form that `tfm run` writes.
    """
    text = os.environ.get(JOIN, "")
    return Join.decode(text) if text else None


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}…")
