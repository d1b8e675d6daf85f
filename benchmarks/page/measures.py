# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is measured: from change to pixel, tfm web's CPU time, and how long grants take."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.page.processes import page, viewers
from tests.support.controllers import Client, ask

VIEWERS: Final = 10
# Resolves once the row of a job says this, and the frame with it has been drawn.
_SEEN: Final = """([job, text]) => new Promise((done) => {
  const drawn = () => done(performance.timeOrigin + performance.now());
  const look = () => document.querySelector(`tr[data-job="${job}"]`)?.textContent.includes(text)
    ? requestAnimationFrame(() => setTimeout(drawn)) : requestAnimationFrame(look);
  look();
})"""


def to_pixel(socket: Path, changes: int) -> list[float]:
    """Return the milliseconds from each change until it was drawn by a browser.

    A change is the priority of a job that waits; it comes at any time between two of the messages
    that the controller sends four times a second at most.
    """
    from playwright.sync_api import sync_playwright

    waiting = [job["id"] for job in ask(socket, "GET", "/v1/jobs")[1]["jobs"] if not job["granted"]]
    chance = random.Random(1)
    found = []
    with page(socket) as (url, _), sync_playwright() as playwright:
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


def load(socket: Path, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return the share of a core that tfm web uses, by the number of viewers, in each round."""
    found: dict[str, list[float]] = {"0": [], "1": [], str(VIEWERS): []}
    with page(socket) as (url, pid):
        # Until it has read everything.
        time.sleep(2.0)
        for _ in range(rounds):
            found["0"].append(_share(pid, seconds))
            for count in (1, VIEWERS):
                with viewers(url, count):
                    found[str(count)].append(_share(pid, seconds))
    return found


def _share(pid: int, seconds: float) -> float:
    before = _cpu_seconds(pid)
    time.sleep(seconds)
    return (_cpu_seconds(pid) - before) / seconds


def _cpu_seconds(pid: int) -> float:
    # In nanoseconds, while /proc/PID/stat has hundredths of a second.
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def grants(socket: Path, rounds: int, changes: int) -> dict[str, list[list[float]]]:
    """Return milliseconds until grants are with their job, without viewers and with ten.

    Rounds are pairs: without first in one, and with viewers first in the next.

    Args:
        socket: The controller's.
        rounds: Number of pairs.
        changes: Number of grants in each half.
    """
    found: dict[str, list[list[float]]] = {"without": [], "with": []}
    with _Asking.of_a_job(socket) as asking:
        for number in range(rounds):
            if number % 2 == 0:
                found["without"].append(asking.grants(changes))
            with page(socket) as (url, _), viewers(url, VIEWERS):
                found["with"].append(asking.grants(changes))
            if number % 2:
                found["without"].append(asking.grants(changes))
    return found


class _Asking:
    """Asks for other cores for a job, and reads the job's stream of grants."""

    def __init__(self, socket: Path) -> None:
        self._job = ask(socket, "GET", "/v1/jobs")[1]["jobs"][0]["id"]
        self._stream, self._socket = Client(socket), socket
        self._stream.request("GET", f"/v1/jobs/{self._job}/grants")
        self._lines = self._stream.getresponse()
        self._lines.readline()

    @classmethod
    @contextmanager
    def of_a_job(cls, socket: Path) -> Iterator[_Asking]:
        """Have the stream of the first job."""
        found = cls(socket)
        try:
            yield found
        finally:
            found._stream.close()

    def grants(self, changes: int) -> list[float]:
        """Return the milliseconds from each request until the grant is in the stream."""
        # The controller closes connections that are idle.
        asking = Client(self._socket)
        found = []
        for number in range(changes):
            time.sleep(0.02)
            wanted = 2 + number % 2
            begin = time.monotonic()
            asking.request("PUT", f"/v1/jobs/{self._job}/cores", json.dumps({"cores": wanted}))
            while len(json.loads(self._lines.readline())["cpus"]) != wanted:
                pass
            found.append(1000 * (time.monotonic() - begin))
            asking.getresponse().read()
        asking.close()
        return found
