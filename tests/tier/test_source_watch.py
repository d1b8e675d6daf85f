# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the kernel tells of changed folders, and what it has lost."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.support.deadline import DEADLINE
from tf_malleable.tier.source_watch import SourceWatch

QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def told(path: Path, act, last: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return what is told of what happens in the folder of a file, up to a path."""
    loop = asyncio.get_running_loop()
    heard = loop.create_future()

    def changed(paths: frozenset[str], closed: frozenset[str]) -> None:
        if last in paths and not heard.done():
            heard.set_result((paths, closed))

    watch = SourceWatch(changed)
    try:
        watch.watch(str(path))
        act()
        return await asyncio.wait_for(heard, DEADLINE)
    finally:
        watch.close()


def test_a_folder_that_is_closed_is_told_as_such(tmp_path):
    file = tmp_path / "set" / "file"
    file.parent.mkdir()
    file.touch()
    _, closed = asyncio.run(told(file, lambda: file.parent.chmod(0o700), str(file.parent)))
    assert str(file.parent) in closed
    _, closed = asyncio.run(told(file, lambda: file.chmod(0o600), str(file)))
    assert str(file) not in closed


def test_after_a_loss_of_events_every_folder_may_be_closed(tmp_path):
    file = tmp_path / "file"
    file.touch()

    def flood() -> None:
        # Equal events in a row are one to the kernel.
        for number in range(QUEUE // 2 + 10):
            os.utime(file, (number, number))
            file.parent.chmod(0o700)

    _, closed = asyncio.run(told(file, flood, "/"))
    assert "/" in closed
