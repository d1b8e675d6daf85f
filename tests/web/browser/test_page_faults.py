# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The page when something is not as it should be: no controller, no page, many jobs, no rights."""

from __future__ import annotations

import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.controllers import controller, job
from tests.support.crowd import Crowd
from tests.web.browser.conftest import opened
from tests.web.conftest import served
from tf_malleable.api.schema.requests import JobChange

pytestmark = pytest.mark.slow


def drawn_through_a_gap(page):
    """Return the bars of the timeline that overlap a time without data, by more than a pixel."""
    return page.evaluate(
        """() => {
          const places = (what) => [...document.querySelectorAll(`#gantt ${what}`)]
            .map((each) => [each.x.baseVal.value, each.x.baseVal.value + each.width.baseVal.value]);
          const gaps = places(".gap rect");
          return places("rect.running").filter(([begin, end]) =>
            gaps.some(([from, to]) => Math.min(end, to) - Math.max(begin, from) > 2.5));
        }"""
    )


def test_a_controller_that_is_killed_is_missed_and_is_back(context, tmp_path):
    with controller(tmp_path, "--cpus", "0") as before, job(before.socket) as speaker:
        speaker.submit(name="survivor")
        with served(before.socket) as web:
            page = opened(context, web)
            page.locator("#gantt rect.running").wait_for()
            before.process.send_signal(signal.SIGKILL)
            page.locator("#connection.down").wait_for()
            banner = page.locator(".banner")
            banner.wait_for()
            assert "No data since" in banner.inner_text()
            assert "no controller answers" in banner.inner_text() or "ended" in banner.inner_text()
            # Time goes on without data, and no line is drawn through it.
            page.locator("#gantt .gap").first.wait_for()
            assert drawn_through_a_gap(page) == []
            # What was known stays to be seen, but cannot be changed.
            assert page.locator("#jobs tr", has_text="survivor").count() == 1
            assert page.get_by_role("button", name="Change job").count() == 0
            before.process.wait()
            with controller(tmp_path, "--cpus", "0"):
                page.wait_for_selector("#connection.live")
                page.locator(".banner").wait_for(state="detached")
                page.locator("#jobs tr", has_text="survivor").wait_for()
                page.locator("#gantt .gap").first.wait_for()
                page.locator("#gantt rect.running").nth(1).wait_for()
                assert drawn_through_a_gap(page) == []
                page.get_by_role("button", name="Change job").wait_for()
            # The browser tells of a connection that broke, and of what it asked for meanwhile.
            expected = {"WebSocket", "502"}
            assert [said for said in page.complaints if not expected & set(said.split())] == []


def test_without_the_history_jobs_are_drawn_from_now_on(context, tmp_path):
    context.route("**/v1/history?*", lambda request: request.abort())
    with controller(tmp_path, "--cpus", "0") as running, job(running.socket) as speaker:
        speaker.submit(name="present")
        with served(running.socket) as web:
            opened(context, web).locator("#gantt rect.running").wait_for()


def test_without_a_controller_the_page_says_so_and_waits_for_one(context, tmp_path):
    with served(tmp_path / "run" / "controller.sock") as web:
        page = context.new_page()
        page.goto(web.url)
        page.get_by_text("no controller answers at").wait_for()
        with controller(tmp_path, "--cpus", "0"):
            page.wait_for_selector("#connection.live")
            assert "No job runs." in page.locator("#jobs").inner_text()


def test_a_page_whose_server_is_gone_says_so_and_comes_back(context, crowd):
    with served(crowd.socket) as web:
        page = opened(context, web)
        web.process.kill()
        page.locator(".banner", has_text="is it still running?").wait_for()


def test_read_only_has_nothing_to_press(context, crowd):
    name = crowd.job("looked at")
    with served(crowd.socket, "--port", "0", "--read-only") as web:
        page = opened(context, web)
        page.locator("#user", has_text="read-only").wait_for()
        page.locator(f"tr[data-job='{name}']").wait_for()
        assert page.get_by_role("button", name="Change").count() == 0
    crowd.end(name)


def test_the_browser_keeps_the_token_to_itself(context, web):
    page = opened(context, web)
    assert "token" not in page.url
    assert context.cookies() == []
    page.reload()
    page.wait_for_selector("#connection.live")
    fresh = context.browser.new_context()
    try:
        stranger = fresh.new_page()
        stranger.goto(web.base)
        stranger.get_by_text("open the address that tfm web has printed").wait_for()
        # The link may be opened where the page is open already.
        stranger.goto(web.url)
        stranger.wait_for_selector("#connection.live")
    finally:
        fresh.close()


def test_a_page_at_another_port_gets_nothing(context, web):
    """It is of the same host and site, and whoever follows a link there has the page open."""
    received = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            received.append(f"{self.path}\n{self.headers}")
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = opened(context, web)
        page.goto(f"http://127.0.0.1:{server.server_port}/link")
        assert page.evaluate("[document.cookie, sessionStorage.length, document.referrer]") == [
            "",
            0,
            "",
        ]
        said = page.evaluate(
            """async (base) => {
              const get = (options) => fetch(`${base}about`, {credentials: "include", ...options})
                .then((answer) => answer.type === "opaque" ? "?" : answer.status, () => "refused");
              return [await get({mode: "cors"}), await get({mode: "no-cors"})];
            }""",
            web.base,
        )
        assert 200 not in said
        server.shutdown()
    assert "/link\n" in received[0]
    assert web.token not in "".join(received)
    assert "cookie:" not in "".join(received).lower()


def test_another_site_cannot_use_what_the_browser_has(context, crowd, web):
    """A page of another origin posts, fetches and opens a socket with what the browser has."""
    name = crowd.job("target")
    opened(context, web)
    evil = context.new_page()
    evil.route("http://evil.example/", lambda route: route.fulfill(body="<p>evil</p>"))
    evil.goto("http://evil.example/")
    done = evil.evaluate(
        """async ([base, job]) => {
          const url = `${base}v1/jobs/${job}/cancel`;
          const json = {"Content-Type": "application/json"};
          const said = [];
          for (const options of [{mode: "no-cors"}, {headers: json}, {mode: "cors"}])
            said.push(await fetch(url, {method: "POST", credentials: "include", ...options})
              .then((answer) => answer.type === "opaque" ? "?" : answer.status, () => "refused"));
          said.push(await new Promise((done) => {
            const socket = new WebSocket(`${base.replace("http", "ws")}stream`);
            socket.onmessage = () => done("heard");
            socket.onerror = () => done("refused");
          }));
          return said;
        }""",
        [web.base, name],
    )
    assert "heard" not in done
    assert 200 not in done
    time.sleep(0.2)
    assert not crowd.do(lambda: crowd.service._roster.live[name].record.cancelled)
    crowd.end(name)


def test_a_browser_that_stops_reading_is_left_behind(context, crowd):
    names = [crowd.job(f"long {number}", command=["x" * 4096]) for number in range(30)]
    name = names[-1]

    def change(priority: int) -> None:
        for each in names:
            crowd.service.change(crowd.sleepers[each].peer, each, JobChange(priority=priority))

    with served(crowd.socket) as web:
        page = opened(context, web)
        parts = urlsplit(web.base)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((parts.hostname, parts.port))
            deaf.sendall(
                b"GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                b"Authorization: Bearer " + web.token.encode() + b"\r\n\r\n"
            )
            assert deaf.recv(12) == b"HTTP/1.1 101"
            connections = Path(f"/proc/{web.process.pid}/fd")
            before = len(list(connections.iterdir()))
            for priority in range(1, 200):
                crowd.do(lambda priority=priority: change(priority))
                time.sleep(0.1)
                if len(list(connections.iterdir())) < before:
                    break
            else:
                raise AssertionError("it was not left behind")
        # The others have missed nothing.
        page.locator(f"tr[data-job='{name}']").wait_for()
        assert page.locator("#connection.live").count() == 1
    for each in names:
        crowd.end(each)


def test_128_jobs_on_64_cpus(context, tmp_path):
    crowd = Crowd(tmp_path, 64, "equal")
    try:
        names = [crowd.job(f"job {number}", min=1, max=4) for number in range(128)]
        with served(crowd.socket) as web:
            page = opened(context, web)
            page.locator("#cpus .cpu.fill").nth(63).wait_for()
            assert page.locator("#jobs tbody tr").count() == 64
            assert page.locator("#queue tbody tr").count() == 64
            assert page.locator(f"#queue tr[data-job='{names[-1]}'] .reason").inner_text() == (
                "it needs 1 core, 0 of 64 are free, and 63 jobs that wait arrived before it"
            )
            crowd.end(names[0])
            page.locator(f"#jobs tr[data-job='{names[64]}']").wait_for()
            assert page.complaints == []
    finally:
        crowd.close()
