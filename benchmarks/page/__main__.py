# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure the live page with 128 jobs on 64 CPUs.

From a change in the controller until it is in a frame of a real browser; the CPU time of tfm web
per viewer, while jobs report progress; and how long a grant takes with and without ten viewers. The
service is real; its jobs are processes that sleep, and most of its CPUs are not there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import aiohttp

from tests.support.controllers import Client, ask
from tests.support.crowd import Crowd

CPUS, JOBS, VIEWERS = 64, 128, 10
# Resolves once the row of a job says this, and the frame with it has been drawn.
_SEEN = """([job, text]) => new Promise((done) => {
  const drawn = () => done(performance.timeOrigin + performance.now());
  const look = () => document.querySelector(`tr[data-job="${job}"]`)?.textContent.includes(text)
    ? requestAnimationFrame(() => setTimeout(drawn)) : requestAnimationFrame(look);
  look();
})"""


def _crowd(directory: str, ready: Event, stop: Event) -> None:
    """Run a service with its jobs, of which some report progress all the time."""
    crowd = Crowd(Path(directory), CPUS, "equal")
    jobs = [crowd.job(f"job {number}", max=4) for number in range(JOBS)]
    ready.set()
    steps = 0.0
    while not stop.wait(1.0):
        steps += 1
        for job in jobs[:CPUS]:
            crowd.report(job, steps, 1e6)
    crowd.close()


@contextmanager
def _service(directory: str) -> Iterator[Path]:
    """Run a service in a process of its own; yield its socket."""
    spawn = multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    process = spawn.Process(target=_crowd, args=(directory, ready, stop))
    process.start()
    try:
        assert ready.wait(120)
        yield Path(directory) / "run" / "controller.sock"
    finally:
        stop.set()
        process.join(60)


@contextmanager
def _page(socket: Path) -> Iterator[tuple[str, int]]:
    """Run tfm web; yield its address and its pid."""
    command = [sys.executable, "-m", "tf_malleable_cli", "web", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--socket", str(socket)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait(10)


def _watch(url: str, viewers: int, stop: Event) -> None:
    """Be so many viewers, who read everything."""

    async def read() -> None:
        base, _, token = url.partition("?token=")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
            opened = [
                await session.ws_connect(f"{base}stream", max_msg_size=0) for _ in range(viewers)
            ]
            readers = [asyncio.create_task(_drain(each)) for each in opened]
            await asyncio.to_thread(stop.wait)
            for reader in readers:
                reader.cancel()

    async def _drain(socket: aiohttp.ClientWebSocketResponse) -> None:
        async for _ in socket:
            pass

    asyncio.run(read())


@contextmanager
def _viewers(url: str, count: int) -> Iterator[None]:
    """Have so many viewers, in a process of their own."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    process = spawn.Process(target=_watch, args=(url, count, stop))
    process.start()
    time.sleep(2.0)
    try:
        yield
    finally:
        stop.set()
        process.join(10)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(pid: int, seconds: float) -> float:
    """Return the share of a core that a process uses."""
    before = _cpu_seconds(pid)
    time.sleep(seconds)
    return (_cpu_seconds(pid) - before) / seconds


def _to_pixel(socket: Path, url: str, changes: int) -> list[float]:
    """Return the milliseconds from changes until they were drawn."""
    from playwright.sync_api import sync_playwright

    waiting = [job["id"] for job in ask(socket, "GET", "/v1/jobs")[1]["jobs"] if not job["granted"]]
    chance = random.Random(1)
    found = []
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        tab = browser.new_page(viewport={"width": 1440, "height": 1000})
        tab.goto(url)
        tab.locator("#queue tbody tr").nth(len(waiting) - 1).wait_for()
        for number in range(changes):
            time.sleep(chance.uniform(0.3, 0.7))
            job, priority = chance.choice(waiting), 300 + number % 600
            tab.evaluate(
                f"([job, text]) => {{ window.seen = ({_SEEN})([job, text]) }}", [job, str(priority)]
            )
            begin = 1000 * time.time()
            ask(socket, "PATCH", f"/v1/jobs/{job}", {"priority": priority})
            found.append(tab.evaluate("window.seen") - begin)
        browser.close()
    return found


def _grants(socket: Path, changes: int) -> list[float]:
    """Return the milliseconds from a request for other cores until the job's stream has them."""
    job = ask(socket, "GET", "/v1/jobs")[1]["jobs"][0]["id"]
    stream = Client(socket)
    stream.request("GET", f"/v1/jobs/{job}/grants")
    lines = stream.getresponse()
    lines.readline()
    asking = Client(socket)
    found = []
    for number in range(changes):
        time.sleep(0.02)
        wanted = 2 + number % 2
        begin = time.monotonic()
        asking.request("PUT", f"/v1/jobs/{job}/cores", json.dumps({"cores": wanted}))
        while len(json.loads(lines.readline())["cpus"]) != wanted:
            pass
        found.append(1000 * (time.monotonic() - begin))
        asking.getresponse().read()
    stream.close()
    asking.close()
    return found


def _quantiles(values: Sequence[float]) -> str:
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    often = f"median {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms"
    return f"{often}, most {ordered[-1]:.1f} ms of {len(ordered)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--grants", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, _service(directory) as socket:
        with _page(socket) as (url, pid):
            print("change to pixel:", _quantiles(_to_pixel(socket, url, options.changes)))
            alone = _load(pid, options.seconds)
            with _viewers(url, VIEWERS):
                crowded = _load(pid, options.seconds)
            each = (crowded - alone) / VIEWERS
            print(f"tfm web: {alone:.2%} of a core, and {each:.2%} per viewer ({VIEWERS})")
            without, beside = [], []
        for _ in range(2):
            without += _grants(socket, options.grants // 2)
            with _page(socket) as (url, _), _viewers(url, VIEWERS):
                beside += _grants(socket, options.grants // 2)
        print("grants without viewers:", _quantiles(without))
        print(f"grants with {VIEWERS} viewers:", _quantiles(beside))


if __name__ == "__main__":
    main()
