# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The processes of a measurement: a service with its jobs, tfm web, and viewers.

None of them is in the process that measures. What a new process runs is imported there by the name
of its module, so it cannot be in __main__.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.common.command_line import BenchmarkError
from tests.support.crowd import Crowd

CPUS: Final = 64
JOBS: Final = 128
_START_SECONDS: Final = 120
_END_SECONDS: Final = 60
# Until viewers have been told everything, and it has been paid for.
_SETTLE_SECONDS: Final = 2.0


def _crowd(directory: str, pipe: Connection) -> None:
    """Run a service with its jobs, of which those with CPUs report progress once a second.

    They do so one quarter after the other, so that there is news for each message to viewers.
    """
    crowd = Crowd(Path(directory), CPUS, "equal")
    jobs = [crowd.job(f"job {number}", max=4) for number in range(JOBS)]
    pipe.send_bytes(b"ready")
    turn = 0
    while not pipe.poll(0.25):
        for job in jobs[turn % 4 : CPUS : 4]:
            crowd.report(job, float(turn // 4 + 1), 1e6)
        turn += 1
    crowd.close()


@contextmanager
def service(directory: str) -> Iterator[Path]:
    """Run a service in a process of its own; yield its socket.

    Raises:
        BenchmarkError: It does not start.
    """
    with _child(_crowd, directory) as (pipe, _):
        try:
            if not pipe.poll(_START_SECONDS):
                raise EOFError
            pipe.recv_bytes()
        except EOFError:
            raise BenchmarkError("the service with its jobs has not started") from None
        yield Path(directory) / "run" / "controller.sock"


@contextmanager
def _child(
    run: Callable[..., None], *arguments: object
) -> Iterator[tuple[Connection, SpawnProcess]]:
    """Run a function in a process of its own, which ends once its pipe is closed.

    Not an event: to set one whose waiter was killed takes for ever.
    """
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=run, args=(*arguments, theirs))
    process.start()
    theirs.close()
    try:
        yield mine, process
    finally:
        mine.close()
        process.join(_END_SECONDS)
        process.kill()


@contextmanager
def page(socket: Path) -> Iterator[tuple[str, int]]:
    """Run tfm web; yield its address and its pid."""
    command = [sys.executable, "-m", "tf_malleable_cli", "web", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--socket", str(socket)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline().split()
        if not said:
            raise BenchmarkError("tfm web has not started")
        yield said[-1], process.pid
    finally:
        process.terminate()
        process.wait(10)


def _watch(url: str, viewers: int, pipe: Connection) -> None:
    """Be so many viewers, who read everything."""
    # In earnest viewers are on other machines; here they take only what is left of this one.
    os.nice(19)

    async def drain(socket: aiohttp.ClientWebSocketResponse) -> None:
        async for _ in socket:
            pass

    async def read() -> None:
        base, _, token = url.partition("#token=")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
            opened = [
                await session.ws_connect(f"{base}stream", max_msg_size=0) for _ in range(viewers)
            ]
            readers = [asyncio.create_task(drain(each)) for each in opened]
            await asyncio.to_thread(pipe.poll, None)
            for reader in readers:
                reader.cancel()

    asyncio.run(read())


@contextmanager
def viewers(url: str, count: int) -> Iterator[None]:
    """Have so many viewers, in a process of their own.

    Raises:
        BenchmarkError: They could not read.
    """
    with _child(_watch, url, count) as (_, process):
        time.sleep(_SETTLE_SECONDS)
        yield
        if not process.is_alive():
            raise BenchmarkError("the viewers have ended too early")
