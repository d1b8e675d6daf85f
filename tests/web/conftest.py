# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One browser for all tests, one controller's service with jobs, and pages on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.controllers import DEADLINE, start_tfm
from tests.support.crowd import Crowd

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Served:
    """A tfm web process that is ready."""

    def __init__(self, socket: Path, *options: str) -> None:
        self.process = start_tfm(
            "web", *options, "--socket", str(socket), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.said)
        self.url = "" if found is None else found[0]
        self.base, _, self.token = self.url.partition("?token=")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(DEADLINE)


@contextmanager
def served(socket: Path, *options: str) -> Iterator[Served]:
    """Run tfm web for the length of a with statement."""
    running = Served(socket, *(options or ("--port", "0")))
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate(timeout=DEADLINE)


@pytest.fixture(scope="session")
def browser():
    """A browser, which needs Debian's package chromium."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "the tests of the page need a browser: apt-get install chromium"
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A controller's service with 8 CPUs and no job."""
    running = Crowd(tmp_path_factory.mktemp("crowd"), 8, "fcfs-strict")
    yield running
    running.close()


@pytest.fixture(scope="module")
def web(crowd):
    """A page of this service."""
    with served(crowd.socket) as running:
        yield running


@pytest.fixture
def context(browser):
    """What belongs together in a browser: cookies, and tabs that are closed at the end."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(20_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context, web):
    """The page, opened, with all that goes wrong in it kept in `page.complaints`."""
    return opened(context, web)


def opened(context, web):
    """Return a new tab with a page that is live."""
    tab = context.new_page()
    tab.complaints = []
    tab.on("console", lambda said: said.type == "error" and tab.complaints.append(said.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on("dialog", lambda dialog: (tab.complaints.append(dialog.message), dialog.dismiss()))
    tab.goto(web.url)
    tab.wait_for_selector("#connection.live")
    return tab
