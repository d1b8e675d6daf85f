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

from tf_malleable.agent.address import name_for_people
from tf_malleable.controller import messages
from tf_malleable.controller.refusal import Refusal
from tf_malleable.controller.validation import decode_body

PREFIX: Final = "tf_malleable."
JOB: Final = f"{PREFIX}job"
_SOCKET: Final = f"{PREFIX}socket"

# Where root's controller listens: it has the containers that do not say whose they are.
_USUAL_SOCKET: Final = "/run/tf_malleable/controller.sock"


class _Labels(messages.Request, frozen=True):
    """The numbers among them."""

    min: messages.Cores = 1
    preferred: messages.Cores | None = None
    max: messages.Cores | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    user: Annotated[int, Meta(ge=0, le=2**32)] = 0
    resize: Literal["cpuset", "quota"] = "cpuset"


@dataclass(frozen=True)
class Labels:
    """What a container asks for.

    Attributes:
        job: The job's name.
        socket: Of the controller whose job it is to be.
        min, preferred, max, priority, weight: As a submission has them.
        user: Whose job it is, as a number.
        resize: ``"cpuset"`` or ``"quota"``.
    """

    job: str
    socket: str
    min: int = 1
    preferred: int | None = None
    max: int | None = None
    priority: int = 0
    weight: float = 1.0
    user: int = 0
    resize: Literal["cpuset", "quota"] = "cpuset"

    def write(self) -> dict[str, str]:
        """Return the labels that say so."""
        said = {
            JOB: self.job,
            _SOCKET: self.socket,
            **{
                f"{PREFIX}{name}": getattr(self, name)
                for name in (each.name for each in msgspec.structs.fields(_Labels))
            },
        }
        return {name: str(value) for name, value in said.items() if value is not None}


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
    job = name_for_people(labels.get(JOB, "")) or name_for_people(name)
    return Labels(job, labels.get(_SOCKET, _USUAL_SOCKET), **msgspec.structs.asdict(numbers))


def _number(text: str) -> float | str:
    """Return what a label says, as a number if it is one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
