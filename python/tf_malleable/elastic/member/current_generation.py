# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Current generation of a process, and the life of its allreduce.

Only the thread that trains, or serves, uses the links of the current generation, and so it alone
closes them once they are retired: a descriptor that is closed while another thread waits at it
could be reused for another connection.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.mesh import Turn


class CurrentGeneration:
    """Current generation of a process; the caller of each method holds the process's condition.

    Attributes:
        generation: The generation; None before the first.
        allreduce: Allreduce of the generation; None if there is none, or it is retired.
    """

    def __init__(self, me: str) -> None:
        """Create it without a generation.

        Args:
            me: Id of this process.
        """
        self._me = me
        self.generation: Generation | None = None
        self.allreduce: Allreduce | None = None
        self._is_used = False
        self._retired: list[Allreduce] = []

    @property
    def number(self) -> int:
        """Number of the generation; 0 if there is none."""
        return 0 if self.generation is None else self.generation.number

    @property
    def ordinal(self) -> int:
        """Number of the generation for users; 0 if there is none."""
        return 0 if self.generation is None else self.generation.ordinal

    @property
    def is_lead(self) -> bool:
        """Whether this process is the generation's first member."""
        return self.generation is not None and self.generation.members[0].id == self._me

    @property
    def is_only(self) -> bool:
        """Whether this process is the generation's only one."""
        return self.generation is not None and len(self.generation.processes) == 1

    def turn(self, step: int) -> Turn | None:
        """Return what this member computes in a step; None if the generation is over."""
        if self.generation is None or self.allreduce is None:
            return None
        is_first = self.allreduce.is_first
        start, stop = self.generation.run(self._me, is_first_step=is_first)
        return Turn(step, self.ordinal, start, stop, self.is_lead, is_first, self.is_only)

    def begin(self, generation: Generation, links: Mapping[str, Link]) -> None:
        """Replace the generation, with links to the peers of the new one."""
        self.retire()
        self.generation = generation
        self.allreduce = Allreduce(generation, self._me, links, os.eventfd(0))

    def forget(self) -> None:
        """Have no generation; an allreduce of it stays until it is retired."""
        self.generation = None

    def use(self) -> Allreduce | None:
        """Mark the allreduce as in use and return it; None if there is none at the moment."""
        self._is_used = self.allreduce is not None
        return self.allreduce

    def unuse(self) -> None:
        """Mark the allreduce as no longer in use, and close the retired ones."""
        self._is_used = False
        self.close_retired()

    def retire(self) -> None:
        """Abort the allreduce; its links are closed once it is no longer in use."""
        allreduce, self.allreduce = self.allreduce, None
        if allreduce is None:
            return
        os.eventfd_write(allreduce.aborted, 1)
        for link in allreduce.links.values():
            with suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)
        self._retired.append(allreduce)
        if not self._is_used:
            self.close_retired()

    def close_retired(self) -> None:
        """Close the links of all retired allreduces."""
        while self._retired:
            allreduce = self._retired.pop()
            for link in allreduce.links.values():
                link.close()
            os.close(allreduce.aborted)
