# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What others on the host may do with the endpoint: nothing. And requests that are not S3's."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys

import pytest

from tests.support.controllers import wait_for
from tests.support.object_storage import endpoint, program_environment, run_words

pytestmark = pytest.mark.slow
STRANGER = 4104
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


# Python itself may be where the stranger cannot enter.
_BECOME = f"""
import encodings.idna, http.client, os, socket, sys, urllib.error, urllib.request
os.setgroups([])
os.setgid({STRANGER})
os.setuid({STRANGER})
"""


def as_stranger(code: str, url: str) -> str:
    command = [sys.executable, "-c", _BECOME + code, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(node, method: str, target: str, **headers: str) -> tuple[int, bytes]:
    """Return status and body of an answer; the target is sent as it is."""
    host, port = endpoint(node).removeprefix("http://").split(":")
    given = {"Host": f"{host}:{port}", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    with socket.create_connection((host, int(port)), timeout=300) as connection:
        request = f"{method} {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"
        connection.sendall(request.encode("latin-1"))
        answer = http.client.HTTPResponse(connection, method=method)
        answer.begin()
        return answer.status, answer.read()


@needs_root
def test_another_user_is_refused(s3, node, reader):
    s3.put("x", b"secret")
    assert reader.read("x") == b"secret"
    code = """
for path in ("/data/x", "/data"):
    try:
        print(urllib.request.urlopen(sys.argv[1] + path).read())
    except urllib.error.HTTPError as error:
        print(error.code, error.read())
"""
    said = as_stranger(code, endpoint(node)).splitlines()
    assert [line[:3] for line in said] == ["403", "403"]
    assert b"secret" not in "".join(said).encode()


@needs_root
def test_who_hangs_up_at_once_does_not_pass_for_root(s3, node):
    """The kernel says 0 for the user of a socket that nobody has any more."""
    s3.put("x", b"1")
    code = """
host, port = sys.argv[1].removeprefix("http://").split(":")
request = f"DELETE /data/x HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nContent-Length: 0\\r\\n\\r\\n"
for _ in range(200):
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request.encode())
print("done")
"""
    assert as_stranger(code, endpoint(node)) == "done\n"
    assert asked(node, "GET", "/data/x") == (200, b"1")
    assert s3.requests("DELETE") == []


@needs_root
def test_a_port_that_another_user_has_now_is_not_used(node):
    where = endpoint(node)
    node.kill()
    code = """
server = socket.create_server(("127.0.0.1", int(sys.argv[1].rpartition(":")[2])))
print("listening", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", _BECOME + code, where]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as squatter:
        assert squatter.stdout.readline() == b"listening\n"
        assert variables(node)["AWS_ENDPOINT_URL_S3"] == ""
        node.start()
        assert endpoint(node) != where
        assert variables(node)["AWS_ENDPOINT_URL_S3"] == endpoint(node)
        squatter.communicate()


def variables(node, **more: str) -> dict[str, str]:
    """Return what a program's environment says about S3."""
    names = ("AWS_ENDPOINT_URL_S3", "S3_ENDPOINT", "S3_USE_HTTPS", "NO_PROXY")
    code = f"import os\nfor name in {names}: print(os.environ.get(name, ''))"
    done = subprocess.run(
        [*run_words(), sys.executable, "-c", code],
        env=program_environment(node, **more),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return {**dict(zip(names, done.stdout.splitlines(), strict=True)), "said": done.stderr}


def test_the_endpoint_of_programs(s3, node):
    where = endpoint(node)
    found = variables(node, NO_PROXY="x.org")
    assert found.pop("said")
    assert found == {
        "AWS_ENDPOINT_URL_S3": where,
        "S3_ENDPOINT": where.removeprefix("http://"),
        "S3_USE_HTTPS": "0",
        "NO_PROXY": "x.org,127.0.0.1",
    }
    assert variables(node, AWS_ENDPOINT_URL=s3.url)["AWS_ENDPOINT_URL_S3"] == where
    other = variables(node, AWS_ENDPOINT_URL_S3="http://other:1")
    assert other["AWS_ENDPOINT_URL_S3"] == "http://other:1"
    assert "S3 is read from http://other:1" in other["said"]


def test_web_pages_are_refused(s3, node):
    s3.put("x", b"1")
    for headers in ({"Origin": "http://evil.org"}, {"Host": "evil.org"}, {"Host": ""}):
        assert asked(node, "GET", "/data/x", **headers)[0] == 403


@pytest.mark.parametrize(
    "target",
    ["/data/../other/x", "/data/a/%2e%2E/x", "/data/a/./x", "/%2e%2e/x", "/data%2F..%2Fother/x",
     "/data/%00", "/data/%FF", "/data?prefix=%FF", "//data/x", "/da%20ta/x"],
)  # fmt: skip
def test_targets_that_are_not_plain(s3, node, target):
    before = s3.requests("GET")
    assert asked(node, "GET", target)[0] == 400
    assert s3.requests("GET") == before


def test_one_key_in_several_encodings_is_one_object(s3, node):
    s3.put("a/b c", b"1")
    for target in ("/data/a/b%20c", "/data%2Fa%2fb%20c", "/%64ata/a/%62%20c?x-id=GetObject"):
        assert asked(node, "GET", target) == (200, b"1")
    wait_for(lambda: node.status()["copies"] == 1)
    assert s3.requests("GET").count("/data/a/b%20c") == 1
