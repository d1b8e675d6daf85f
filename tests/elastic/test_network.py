# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cut networks, strangers, other trainings' secrets, and half messages."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress

import pytest

from tests.support.deadline import DEADLINE
from tests.support.elastic_proxy import Proxy
from tests.support.elastic_runs import ElasticRun, wait_until
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError, WrongSecretError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def run(tmp_path):
    with ElasticRun(tmp_path) as running:
        yield running


@pytest.mark.parametrize("how", ["close", "swallow"])
def test_a_network_cut_between_two_workers(run, how):
    with Proxy() as proxy:
        run.start_worker(*behind(proxy))
        run.wait_for_members(1)
        run.start_worker()
        run.start_worker()
        run.wait_for_members(3)
        assert proxy.connections
        getattr(proxy, how)()
        # One that all others can reach goes on with nobody, or they without it.
        wait_until(lambda: 0 < len(run.in_training()) < 3, str)
        assert "it cannot reach" in run.said()
        run.finish()


def behind(proxy):
    """Return options of a worker that others reach through a proxy only."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        proxy.target = found.getsockname()[1]
    return "--port", str(proxy.target), "--reached-at", f"127.0.0.1:{proxy.port}"


def test_a_link_that_breaks_once_is_made_again(run):
    with Proxy() as proxy:
        run.start_worker(*behind(proxy))
        run.wait_for_members(1)
        run.start_worker()
        run.wait_for_members(2)
        proxy.hang_up()
        wait_until(lambda: run.rescales()[-1]["reason"] == "lost", str)
        run.wait_for_members(2)
        run.finish(least=2)


def test_strangers_are_refused_with_a_sentence(run):
    run.start_worker()
    run.wait_for_members(1)
    for data in (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", bytes(range(256)) * 64, b"tfm"):
        with socket.create_connection((run.address.host, run.address.port)) as stranger:
            stranger.sendall(data)
            stranger.settimeout(DEADLINE)
            with suppress(ConnectionError):
                while stranger.recv(4096):  # It greets, and hangs up.
                    pass
    said = run.said()
    assert "it does not speak as a process of an elastic training" in said
    assert "Traceback" not in said
    run.finish()


@pytest.mark.serial("it measures time")
def test_a_silent_stranger_holds_nobody_up(run):
    with socket.create_connection((run.address.host, run.address.port)) as stranger:
        begin = time.monotonic()
        run.start_worker()
        run.wait_for_members(1)
        stranger.settimeout(DEADLINE)
        while stranger.recv(4096):
            pass
        assert time.monotonic() - begin < 20
        run.finish()


def test_another_training_s_secret_is_refused_on_both_sides(run):
    run.start_worker()
    run.wait_for_members(1)
    with pytest.raises(WrongSecretError, match="another training's secret"):
        messages.connect(run.address, secrets.token_bytes(32), time.monotonic() + DEADLINE)
    wait_until(lambda: "it has another training's secret" in run.said(), run.said)
    late = run.start_worker(secret=secrets.token_bytes(32))
    assert late.wait(DEADLINE) != 0
    assert "has another training's secret" in run.said()
    run.finish()


def test_half_a_message_and_nonsense(run):
    run.start_worker()
    run.wait_for_members(1)
    for data in (
        b"\0\0\1\0{",
        b"\xff\xff\xff\xff",
        messages.encode({"kind": "hello"}),
        b"\0\0\0\2[]",
    ):
        with messages.connect(run.address, run.secret, time.monotonic() + DEADLINE) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(DEADLINE)
            while connection.recv(4096):
                pass
    run.start_worker()
    run.wait_for_members(2)
    assert "Traceback" not in run.said()
    run.finish(least=2)


def test_what_is_no_coordinator_is_said_to_be_none(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = Address("127.0.0.1", other.getsockname()[1])
        with pytest.raises(OSError, match="timed out"):
            messages.connect(address, run.secret, time.monotonic() + 0.2)
    with pytest.raises((OSError, MeshError)):
        messages.connect(address, run.secret, time.monotonic() + DEADLINE)


def test_a_connection_to_itself_is_none_and_keeps_no_port(monkeypatch):
    """The kernel may choose the very port that it connects to, if nobody listens there."""

    def to_itself(address, timeout):
        found = socket.socket()
        found.bind(address)
        found.settimeout(timeout)
        found.connect(address)
        return found

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setattr(socket, "create_connection", to_itself)
    with pytest.raises(ConnectionRefusedError):
        messages.connect(Address("127.0.0.1", port), b"secret", time.monotonic() + DEADLINE)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


def test_a_slow_worker_gets_fewer_shards(run):
    run.start_worker()
    run.wait_for_members(1)
    run.start_worker(slower=30.0)  # Than a machine that is busy now and then.
    run.wait_for_members(2)
    wait_until(lambda: run.rescales()[-1]["reason"] == "speed", lambda: str(run.status()))
    run.wait_for_members(2)
    shards = [each["shards"] for each in run.in_training()]
    assert sorted(shards) == [0, 4]
    run.finish(least=2)
