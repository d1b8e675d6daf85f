# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A browser, and pages that are open in it."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of a file, which needs Debian's package chromium.

    Not for the session: while Playwright runs, no other test can run a loop of its own.
    """
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "the tests of the page need a browser: apt-get install chromium"
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


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
