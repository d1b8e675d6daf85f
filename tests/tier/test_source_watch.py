# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the kernel tells of changed folders, and what it has lost."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from tests.support.deadline import DEADLINE
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.revalidation import Revalidation, watch_copies
from tf_malleable.tier.service import TierService
from tf_malleable.tier.source_watch import SourceWatch
from tf_malleable.tier.store.copy_store import CopyStore, Kept

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


def test_a_folder_that_is_closed_between_check_and_publication(tmp_path):
    """Its event comes when there is no copy yet that could be dropped."""
    folder = tmp_path / "source" / "set"
    folder.mkdir(parents=True)
    file = folder / "file"
    file.write_bytes(b"x")

    async def is_dropped(key: str) -> None:
        store = CopyStore(tmp_path / "store", (folder.parent,), 1 << 20)
        service = TierService(store, (folder.parent,), Counters())
        watch = watch_copies(service, Revalidation(service, 0.0))
        try:
            service.begun(key)
            folder.chmod(0o700)
            while not watch.was_closed(str(file)):
                await asyncio.sleep(0.01)
            # After the collected changes have been told, too.
            await asyncio.sleep(0.2)
            store.add(Kept(key, Identity.of(file.stat()), 0.0))
            deadline = time.monotonic() + DEADLINE
            while store.get(key) is not None:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
        finally:
            watch.close()

    asyncio.run(is_dropped(key_of("public", str(file))))
    asyncio.run(is_dropped(key_of(f"private/{os.geteuid() + 1}", str(file))))


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
