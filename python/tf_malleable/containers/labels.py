# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Labels that make a container a job.

Labels stay with the container, so they tell the controller all it needs to know, also after
a restart or for a container created by `docker run --label`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.schema.job_names import printable_name
from tf_malleable.api.schema.job_request import ASKED, JobRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import Asked, SloText
from tf_malleable.api.transport.address import ROOT_SOCKET
from tf_malleable.api.validation import decode_body

PREFIX: Final = "tf_malleable."
JOB: Final = f"{PREFIX}job"
_SOCKET: Final = f"{PREFIX}socket"


class _Labels(Asked, frozen=True, kw_only=True):
    """Labels whose values are validated as JSON."""

    user: Annotated[int, Meta(ge=0, le=2**32)]
    resize: Literal["cpuset", "quota"] = "cpuset"
    slo: SloText | None = None


@dataclass(frozen=True)
class Labels:
    """The labels of a job's container.

    Attributes:
        request: Job request; its command is not stored in a label.
        socket: Socket of the controller that the container belongs to.
        user: User id of the job.
        resize: ``"cpuset"`` or ``"quota"``.
    """

    request: JobRequest
    socket: str
    user: int
    resize: Literal["cpuset", "quota"] = "cpuset"

    def write(self) -> dict[str, str]:
        """Return the labels by name."""
        stored = (*ASKED, "slo")
        said = {
            **{name: value for name, value in self.request.said().items() if name in stored},
            "user": self.user,
            "resize": self.resize,
        }
        values = {f"{PREFIX}{name}": str(value) for name, value in said.items()}
        return {JOB: self.request.name, _SOCKET: self.socket, **values}


def is_ours(labels: Mapping[str, str], socket: str) -> bool:
    """Return whether a container with these labels belongs to the controller at `socket`.

    Without a label for that, it belongs to the controller of root.
    """
    return JOB in labels and labels.get(_SOCKET, ROOT_SOCKET) == os.path.abspath(socket)


def read(labels: Mapping[str, str], name: str) -> Labels:
    """Parse a container's labels, in the controller it belongs to.

    Without a user, the job is that of the controller's user.

    Args:
        labels: All labels of the container; those without the project's prefix are ignored.
        name: Name of the container, used if the job has none.

    Raises:
        Refusal: 400; one of the project's labels is invalid.
    """
    ours: dict[str, float | str] = {"user": os.getuid()}
    ours |= {
        label.removeprefix(PREFIX): _number(value)
        for label, value in labels.items()
        if label.startswith(PREFIX) and label not in (JOB, _SOCKET)
    }
    try:
        values = decode_body(msgspec.json.encode(ours), _Labels)
    except Refusal as refusal:
        raise Refusal(
            refusal.status, f"the labels of container {name}: {refusal.sentence}"
        ) from None
    try:
        job = printable_name(labels.get(JOB, "")) or printable_name(name)
        request = JobRequest(name=job, slo=values.slo, **values.numbers())
    except ValueError as error:
        raise Refusal(400, f"the labels of container {name}: {error}") from None
    return Labels(request, labels.get(_SOCKET, ROOT_SOCKET), values.user, values.resize)


def _number(text: str) -> float | str:
    """Return a label's value, as a number if it is one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
