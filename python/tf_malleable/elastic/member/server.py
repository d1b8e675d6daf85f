# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server: owns slices of the vector, but computes no shards and has no state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tf_malleable.elastic.allreduce.allreduce_step import Summed
from tf_malleable.elastic.links.errors import AbortedError, LinkError
from tf_malleable.elastic.member.process import MeshProcess
from tf_malleable.elastic.settings import MeshSettings

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]

_LOOK_SECONDS: Final = 0.2


class ServingMember(MeshProcess):
    """A server, which adds up its slices until it must end."""

    def __init__(self, settings: MeshSettings) -> None:
        """Connect to the coordinator; errors as for TrainingMember."""
        self._vector: Vector | None = None
        super().__init__(settings, "server")

    def serve(self) -> int:
        """Serve until the training ends or this server leaves; return the exit code."""
        while True:
            with self.changed:
                self._note_leaving()
                if self.ending.is_near:
                    return 0 if self.ending.finished else self.ending.exit_code
                # A server has no state, so it can enter any generation it is prepared for.
                if self._use.exchange is None and self.is_prepared(self.proposed):
                    self._follow(self.proposed)
                exchange = self.use()
                if exchange is None:
                    self.changed.wait(_LOOK_SECONDS)
                    continue
            problem: BaseException | None = None
            summed: Summed | None = None
            try:
                summed = exchange.sum(None, {}, 0, self._room)
            except (LinkError, AbortedError) as error:
                problem = error
            finally:
                self.unuse(exchange, problem)
            with self.changed:
                if summed is not None and summed.following and self._use.exchange is exchange:
                    self._follow(summed.following)

    def _note_leaving(self) -> None:
        if self._is_leaving and self.generation is None and not self._drafts:
            self.ending.leaving = True

    def _follow(self, number: int) -> None:
        if self.drafted(number) is None:
            self.ending.leaving = True
        else:
            self.enter(number)
            self.halted = False
            self.tell_entered()

    def _halted(self) -> None:
        # A server has nothing to keep, and is told if it continues.
        self.generation = None

    def _room(self, words: int, type_: str) -> Vector:
        import numpy as np

        if self._vector is None or (len(self._vector), self._vector.dtype.name) != (words, type_):
            self._vector = np.empty(words, type_)
        return self._vector
