# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server: owns slices of the vector, but computes no shards and has no state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf_malleable.elastic.member.process import LOOK_SECONDS, MeshProcess, RoleHandlers
from tf_malleable.elastic.settings import MeshSettings

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]


class ServingMember:
    """A server, which adds up its slices until it must end."""

    def __init__(self, settings: MeshSettings) -> None:
        """Connect to the coordinator; errors as for TrainingMember."""
        self._vector: Vector | None = None
        self._process = MeshProcess(settings, "server")
        # A server has nothing to keep, and is told if it continues.
        self._process.start(RoleHandlers(halted=self._process.current.forget))

    def leave(self) -> None:
        """Leave as soon as that is possible; a signal handler may call this."""
        self._process.leave()

    def close(self) -> None:
        """Close all connections."""
        self._process.close()

    def serve(self) -> int:
        """Serve until the training ends or this server leaves; return the exit code."""
        process = self._process
        current, ending = process.current, process.ending
        while True:
            with process.changed:
                if process.is_free_to_leave and current.generation is None:
                    ending.leaving = True
                if ending.is_near:
                    return 0 if ending.finished else ending.exit_code
                # A server has no state, so it can enter any generation it is prepared for.
                is_prepared = process.rendezvous.is_prepared(process.proposed)
                if current.allreduce is None and is_prepared:
                    process.enter(process.proposed)
                allreduce = current.use()
                if allreduce is None:
                    process.changed.wait(LOOK_SECONDS)
                    continue
            summed = process.sum(allreduce, None, {}, 0, self._room)
            with process.changed:
                is_current = current.allreduce is allreduce
                if summed is not None and summed.following and is_current:
                    process.enter(summed.following)

    def _room(self, words: int, type_: str) -> Vector:
        import numpy as np

        if self._vector is None or (len(self._vector), self._vector.dtype.name) != (words, type_):
            self._vector = np.empty(words, type_)
        return self._vector
