# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A browser, and pages that are open in it."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_PATIENCE_MS = 1000 * DEADLINE
# One browser for all tests of this folder.
_RUNNING = ExitStack()
_BROWSERS: list = []


def _start():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "the tests of the page need a browser: apt-get install chromium"
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    playwright = _RUNNING.enter_context(sync_playwright())
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM,
        args=[*sandbox, "--disable-dev-shm-usage"],
        timeout=_PATIENCE_MS,
    )
    _BROWSERS.append(browser)
    _RUNNING.callback(_BROWSERS.clear)
    _RUNNING.callback(browser.close)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End it after the last of them: while Playwright runs, no other test can run a loop."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _RUNNING.close()


@pytest.fixture
def browser():
    """A browser, which needs Debian's package chromium."""
    if not _BROWSERS:
        _start()
    return _BROWSERS[0]


@pytest.fixture
def context(browser):
    """What belongs together in a browser: cookies, and tabs that are closed at the end."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(_PATIENCE_MS)
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
