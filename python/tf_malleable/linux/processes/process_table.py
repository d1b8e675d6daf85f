# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Process table: parents and children of all processes, read in small steps.

Reading thousands of processes takes long.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

from tf_malleable.linux.processes.procfs import read_parent


class ProcessTable:
    """The processes read so far.

    Attributes:
        starts: Start times by pid, in clock ticks since boot.
    """

    def __init__(self) -> None:
        self.starts: dict[int, int] = {}
        self._children: defaultdict[int, list[int]] = defaultdict(list)

    @classmethod
    def now(cls) -> ProcessTable:
        """Return a table of all processes."""
        table = cls()
        for _ in table.filling():
            pass
        return table

    def filling(self) -> Iterator[None]:
        """Read all processes, one per step of the iterator."""
        with os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdigit():
                    self._add(int(entry.name))
                    yield

    def _add(self, pid: int) -> None:
        found = read_parent(pid)
        if found is not None:
            parent, self.starts[pid] = found
            self._children[parent].append(pid)

    def tree(self, root: int) -> list[int]:
        """Return a process and all its descendants; only the process if it was not read."""
        tree = [root]
        for pid in tree:  # The list grows during the loop.
            tree.extend(self._children.get(pid, ()))
        return tree
