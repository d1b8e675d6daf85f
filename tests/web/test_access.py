# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who gets in: the token's holder, from the page itself, under a name that is ours."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import socket
import stat
import threading
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.support.controllers import ask, start_tfm
from tests.support.deadline import DEADLINE
from tests.web.conftest import served
from tf_malleable.web.access import Access, Visit
from tf_malleable.web.jupyter import setup

HOST = "127.0.0.1:8823"
JSON = {"Content-Type": "application/json"}


def visit(method="GET", path="/", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Visit(method, path, {"Host": HOST, **named})


@pytest.fixture
def access():
    return Access("secret")


@pytest.mark.parametrize("host", [HOST, "localhost", "localhost:9000", "[::1]:8823", "[::1]"])
def test_hosts_that_nobody_else_can_be_are_ours(access, host):
    assert access.stranger(Visit("GET", "/", {"Host": host})) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8823", "127.0.0.1.evil.example", ""]
)
def test_another_site_s_name_for_our_address_is_refused(access, host):
    assert "hosts 127.0.0.1" in access.stranger(Visit("GET", "/", {"Host": host}))


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9999"},
    ],
)
def test_what_another_site_sends_is_refused(access, headers):
    for method, path in (("GET", "/stream"), ("POST", "/v1/jobs/1/pause"), ("GET", "/")):
        assert access.stranger(visit(method, path, **headers)) is not None


def test_a_link_to_the_page_may_be_anywhere(access):
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert access.stranger(visit(Sec_Fetch_Dest="document", **link)) is None
    assert access.stranger(visit(Sec_Fetch_Dest="iframe", **link)) is not None
    assert access.stranger(visit("POST", Sec_Fetch_Dest="document", **link)) is not None
    assert access.stranger(visit(Origin=f"http://{HOST}")) is None


def test_behind_a_proxy_the_browser_is_believed_and_other_sites_are_not():
    access = Access(None, hosts=None)
    outer = {"Origin": "https://hub.example"}
    assert access.stranger(visit(Sec_Fetch_Site="same-origin", **outer)) is None
    assert access.stranger(visit("POST", Sec_Fetch_Site="cross-site", **outer)) is not None
    assert access.stranger(visit("POST", **outer)) is not None


def test_only_the_token_in_a_header_opens(access):
    about = {"path": "/about"}
    assert access.admits(visit(Authorization="Bearer secret", **about))
    assert access.admits(visit(path="/stream", Sec_WebSocket_Protocol="tfm, bearer.secret"))
    for headers in (
        {},
        {"Authorization": "Bearer secret2"},
        {"Authorization": "secret"},
        {"Authorization": "Bearer é"},
        {"Authorization": "Bearer \udcff"},  # A byte that is not UTF-8.
        {"Sec_WebSocket_Protocol": "tfm"},
        {"Sec_WebSocket_Protocol": "bearer.secret2"},
        {"Sec_WebSocket_Protocol": "bearer."},
        {"Cookie": "tfm-web=secret; token=secret"},
    ):
        assert not access.admits(visit(**headers, **about)), headers
        assert not access.admits(visit("PUT", "/v1/policy", **headers)), headers
    assert Access(None).admits(visit(**about))
    # The page itself is the same for everybody, and has to be loaded before it can send a token.
    assert access.admits(visit())
    assert access.admits(visit(path="/static/main.js"))
    assert not access.admits(visit("POST"))


def test_a_form_cannot_change_anything_and_nobody_can_if_read_only(access):
    assert access.forbidden(visit("POST", Content_Type="application/json; charset=utf-8")) is None
    assert access.forbidden(visit("POST", Content_Type="text/plain")) is not None
    assert access.forbidden(visit("POST")) is not None
    assert access.forbidden(visit()) is None
    assert "read-only" in Access("x", read_only=True).forbidden(
        visit("PUT", **{"Content_Type": "application/json"})
    )


def send(web, method, path, headers=None, body=None):
    """Return status, headers and text of an answer, without a browser's help."""
    parts = urlsplit(web.base)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def token_of(web):
    return {"Authorization": f"Bearer {web.token}"}


def test_without_the_token_there_is_nothing_but_the_page(web):
    for path in ("/about", "/stream", "/v1/history", f"/about?token={web.token}"):
        for headers in ({}, {"Authorization": "Bearer guess"}, {"Cookie": f"token={web.token}"}):
            status, received, text = send(web, "GET", path, headers)
            assert (status, "with its token" in text) == (403, True), path
            assert "Set-Cookie" not in received
    assert web.token not in send(web, "GET", "/")[2]


class Eavesdropper(http.server.BaseHTTPRequestHandler):
    """What another user could run at another port: it keeps what it is sent."""

    def do_GET(self):
        self.server.received.append(f"{self.path}\n{self.headers}")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_server_at_another_port_gets_nothing(web):
    """Cookies of a host go to all its ports, so there must be none."""
    with http.server.HTTPServer(("127.0.0.1", 0), Eavesdropper) as other:
        other.received = []
        threading.Thread(target=other.serve_forever, daemon=True).start()
        browser = build_opener(HTTPCookieProcessor())
        for url in (web.url, f"{web.base}?token={web.token}"):
            assert browser.open(url).status == 200
        browser.open(f"http://127.0.0.1:{other.server_port}/a/link")
        other.shutdown()
    (received,) = other.received
    assert received.startswith("/a/link\n")
    assert "cookie" not in received.lower()


def test_with_it_there_is_the_page_and_it_may_load_nothing_of_others(web):
    mine = token_of(web)
    status, headers, text = send(web, "GET", "/", mine)
    assert status == 200
    assert "<script" in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    status, headers, _ = send(web, "GET", "/static/page.css", mine)
    assert (status, headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    status, _, _ = send(web, "GET", "/static/page.css", {**mine, "If-None-Match": headers["ETag"]})
    assert status == 304
    assert send(web, "GET", "/static/../access.py", mine)[0] == 404
    assert send(web, "GET", "/static/%2e%2e/access.py", mine)[0] == 404


def test_other_sites_and_names_are_refused_even_with_the_token(crowd, web):
    job = crowd.job("guarded")
    path, mine = f"/v1/jobs/{job}/pause", {**token_of(web), **JSON}
    foreign = [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ]
    for headers in foreign:
        assert send(web, "POST", path, {**mine, **headers})[0] == 403, headers
    assert not crowd.do(lambda: crowd.service.status(job)).held
    assert send(web, "POST", path, mine)[0] == 200
    assert crowd.do(lambda: crowd.service.status(job)).held
    crowd.end(job)


def test_only_what_the_page_needs_is_passed_on(web):
    mine = {**token_of(web), **JSON}
    assert send(web, "POST", "/v1/jobs", mine, '{"name": "web"}')[0] == 404
    assert send(web, "POST", "/v1/containers", mine, '{"container": "x"}')[0] == 404
    assert send(web, "GET", "/v1/jobs/..%2f..%2fmetrics/outlook", mine)[0] == 404
    assert send(web, "PUT", "/v1/jobs/1/cores", mine, "x" * 100_000)[0] == 413
    status, _, text = send(web, "PUT", "/v1/policy", mine, '{"policy": "nonsense"}')
    assert (status, "error" in json.loads(text)) == (400, True)


def test_read_only_means_it(crowd):
    job = crowd.job("kept")
    with served(crowd.socket, "--port", "0", "--read-only") as web:
        mine = {**token_of(web), **JSON}
        status, _, text = send(web, "POST", f"/v1/jobs/{job}/cancel", mine)
        assert (status, "read-only" in text) == (403, True)
        assert json.loads(send(web, "GET", "/about", mine)[2])["read_only"] is True
        assert send(web, "GET", f"/v1/jobs/{job}/preview?change=cancel", mine)[0] == 200
    crowd.end(job)


def test_on_a_unix_socket_only_this_user_can_connect(crowd, tmp_path):
    path = tmp_path / "page.sock"
    # Left behind by one that was killed.
    with socket.socket(socket.AF_UNIX) as before:
        before.bind(str(path))
    with served(crowd.socket, "--unix", str(path)) as web:
        assert f"ssh -L 8823:{path} " in web.said
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert ask(path, "GET", "/about")[0] == 403
        assert web.stop() == 0
    assert not path.exists()


def test_jupyter_s_proxy_needs_no_token(crowd, tmp_path):
    path = tmp_path / "page.sock"
    wanted = setup()
    options = [part.format(unix_socket=path) for part in wanted["command"][4:]]
    assert (wanted["command"][3], wanted["unix_socket"]) == ("web", True)
    with served(crowd.socket, *options) as web:
        assert "listening at" in web.said
        status, about = ask(path, "GET", "/about")
        assert (status, about["read_only"]) == (200, False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--port", "70000"], "--port must be a port from 0 to 65535, not 70000"),
        (["--port", "1", "--unix", "x"], "--port and --unix exclude each other"),
        (["--behind-proxy"], "requires --unix"),
        (["--unix", "/nowhere/page.sock"], "cannot listen at /nowhere/page.sock"),
    ],
)
def test_bad_options_are_one_sentence(options, sentence, tmp_path):
    done = start_tfm("web", *options, stdout=-1, stderr=-1, text=True, cwd=tmp_path)
    _, errors = done.communicate(timeout=DEADLINE)
    assert done.returncode in (1, 2)
    assert errors.startswith("tfm: ")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
