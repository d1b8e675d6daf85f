# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How soon limits follow the cgroup, and what it costs to look.

Imported by a worker only, after tf_malleable.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import tf_malleable as tfm
from benchmarks.common.worker import settling

_POLL_SECONDS = 0.001
_SETTLE_SECONDS = 5.0
_FOLLOWER = "tf_malleable_cgroup"


class Watch:
    """Notes when limits change, until it is stopped. All times by the monotonic clock."""

    def __init__(self, loaded: bool) -> None:
        """Begin, beside one matmul after the other or nothing."""
        self._stack = ExitStack()
        if loaded:
            self._stack.enter_context(settling.under_matmuls())
        self._over = threading.Event()
        self._found: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> list[dict[str, float]]:
        """Return the changes: threads, when they were set and when that had settled."""
        self._over.set()
        self._thread.join()
        self._stack.close()
        return self._found

    def _watch(self) -> None:
        before = tfm.get_threads().intra
        while not self._over.wait(_POLL_SECONDS):
            threads = tfm.get_threads().intra
            if threads == before or threads is None:
                continue
            before, at = threads, time.monotonic()
            tfm.wait_settled(_SETTLE_SECONDS)
            self._found.append({"threads": threads, "set": at, "settled": time.monotonic()})


def cpu_seconds(seconds: float) -> float:
    """Return the CPU time that the follower used during `seconds` seconds."""
    (follower,) = (thread for thread in threading.enumerate() if thread.name == _FOLLOWER)
    file = Path(f"/proc/self/task/{follower.native_id}/schedstat")
    before = int(file.read_text().split()[0])
    time.sleep(seconds)
    return (int(file.read_text().split()[0]) - before) / 1e9
