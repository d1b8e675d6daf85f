# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Errors between the processes of a training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tf_malleable.model import OperationError

COME_AGAIN: Final = 75
"""Exit code of a process that was sent away only because of what has happened to it.

Another one may come in its place. (It is EX_TEMPFAIL of sysexits.h.)
"""


class MeshError(OperationError):
    """This process cannot take part in the training. The message is one sentence."""


class WrongSecretError(MeshError):
    """One side does not know the secret of the other's training."""


class AbortedError(Exception):
    """The work of a process for a generation is no longer wanted."""


class LinkError(Exception):
    """Peers can no longer be reached.

    Attributes:
        lost: Ids of these peers.
    """

    def __init__(self, lost: Iterable[str]) -> None:
        self.lost = tuple(lost)
        super().__init__(", ".join(self.lost))
