# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a container's labels say of the job that it is.

They stay with the container, so whoever finds it knows all that the controller has
to know: after a restart, or made by `docker run --label`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.naming import printable_name
from tf_malleable.api.refusal import Refusal
from tf_malleable.api.requests import Asked
from tf_malleable.api.validation import decode_body
from tf_malleable.workload.options import ASKED

PREFIX: Final = "tf_malleable."
JOB: Final = f"{PREFIX}job"
_SOCKET: Final = f"{PREFIX}socket"

# Where root's controller listens: it has the containers that do not say whose they are.
_USUAL_SOCKET: Final = "/run/tf_malleable/controller.sock"


class _Labels(Asked, frozen=True):
    """The numbers among them."""

    user: Annotated[int, Meta(ge=0, le=2**32)] = 0
    resize: Literal["cpuset", "quota"] = "cpuset"


@dataclass(frozen=True)
class Labels:
    """What a container asks for.

    Attributes:
        request: What the job asks for; its command is no label.
        socket: Of the controller whose job it is to be.
        user: Whose job it is, as a number.
        resize: ``"cpuset"`` or ``"quota"``.
    """

    request: JobRequest
    socket: str
    user: int = 0
    resize: Literal["cpuset", "quota"] = "cpuset"

    def write(self) -> dict[str, str]:
        """Return the labels that say so."""
        said = {
            **{name: value for name, value in self.request.said().items() if name in ASKED},
            "user": self.user,
            "resize": self.resize,
        }
        numbers = {f"{PREFIX}{name}": str(value) for name, value in said.items()}
        return {JOB: self.request.name, _SOCKET: self.socket, **numbers}


def is_ours(labels: Mapping[str, str], socket: str) -> bool:
    """Return whether a container with these labels is a job of the controller at a socket."""
    return JOB in labels and labels.get(_SOCKET, _USUAL_SOCKET) == os.path.abspath(socket)


def read(labels: Mapping[str, str], name: str) -> Labels:
    """Return what a container's labels say.

    Args:
        labels: All it has; those of others are passed over.
        name: The container's, for a job that has none.

    Raises:
        Refusal: 400; one of ours cannot be.
    """
    ours = {
        label.removeprefix(PREFIX): _number(value)
        for label, value in labels.items()
        if label.startswith(PREFIX) and label not in (JOB, _SOCKET)
    }
    try:
        numbers = decode_body(msgspec.json.encode(ours), _Labels)
    except Refusal as refusal:
        raise Refusal(
            refusal.status, f"the labels of container {name}: {refusal.sentence}"
        ) from None
    asked = msgspec.structs.asdict(numbers)
    user, resize = asked.pop("user"), asked.pop("resize")
    try:
        job = printable_name(labels.get(JOB, "")) or printable_name(name)
        request = JobRequest(name=job, **asked)
    except ValueError as error:
        raise Refusal(400, f"the labels of container {name}: {error}") from None
    return Labels(request, labels.get(_SOCKET, _USUAL_SOCKET), user, resize)


def _number(text: str) -> float | str:
    """Return what a label says, as a number if it is one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
