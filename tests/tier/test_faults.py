# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Peers and homes that are killed, hang, lie or rot; disks that are full. The bytes are right."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tier_reader import ReadFile, TierReader
from tests.support.tiers import SECRET, TierNode, certificate, make_source, nodes, one_node
from tf_malleable.tier.node_messages import RecordsMessage, key_of
from tf_malleable.tier.peers.node_client import NoCopyError, NodeClient, PeerGoneError, RottenError
from tf_malleable.tier.request_signature import Signer

pytestmark = pytest.mark.slow
BIG = os.urandom((3 << 20) + 12345)
SMALL = b"a small file"


@pytest.fixture
def source(tmp_path):
    return make_source(
        tmp_path / "source",
        {"big": BIG, **{f"small/{n}": b"%d " % n + SMALL for n in range(20)}},
    )


@contextmanager
def in_between(to: TierNode, spoil, port: int = 0):
    """Stand in front of a node: what it sends goes through spoil(bytes) -> bytes or None."""
    host, number = to.address.rsplit(":", 1)
    server = socket.create_server(("127.0.0.1", port))

    def pump(source: socket.socket, target: socket.socket, change) -> None:
        try:
            while data := source.recv(65536):
                changed = change(data)
                if changed is None:
                    break
                target.sendall(changed)
        except OSError:
            pass
        for each in (source, target):
            each.close()

    def serve() -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            there = socket.create_connection((host, int(number)))
            for ends in ((accepted, there, lambda data: data), (there, accepted, spoil)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.close()


def fetch(address: str, key: str, secret: str = SECRET) -> bytes:
    """Fetch a copy from a node as another node does, all of it."""

    async def run() -> bytes:
        client = NodeClient(Signer(secret.encode()), None)
        found: dict[int, bytes] = {}

        async def begin(header) -> None:
            pass

        async def take(number: int, data: bytearray, code: int) -> None:
            found[number] = bytes(data)

        try:
            await client.fetch(address, key, "", 0, begin, take)
        finally:
            await client.close()
        return b"".join(found[number] for number in sorted(found))

    return asyncio.run(run())


def key(path) -> str:
    return key_of(f"private/{os.geteuid()}", str(path))


def test_bytes_that_rot_on_the_wire_are_not_taken(tmp_path, source):
    with nodes(tmp_path, source, 1) as (a,):
        a.warm(source / "big")
        assert fetch(a.address, key(source / "big")) == BIG

        left = 2_000_000

        def flip(data: bytes) -> bytes:
            nonlocal left
            where, left = left, left - len(data)
            if not 0 <= where < len(data):
                return data
            return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]

        with in_between(a, flip) as address, pytest.raises(RottenError):
            fetch(address, key(source / "big"))


def test_a_transfer_that_is_cut_off(tmp_path, source):
    with nodes(tmp_path, source, 1) as (a,):
        a.warm(source / "big")
        count = 0

        def cut(data: bytes) -> bytes | None:
            nonlocal count
            count += len(data)
            return data if count < 1_500_000 else None

        with in_between(a, cut) as address, pytest.raises(PeerGoneError):
            fetch(address, key(source / "big"))


@pytest.mark.serial("it measures time")
def test_a_peer_that_is_too_slow(tmp_path, source):
    with nodes(tmp_path, source, 1) as (a,):
        a.warm(source / "big")

        def slowly(data: bytes) -> bytes:
            time.sleep(0.4)  # Each piece comes in time, and a block does not.
            return data

        with in_between(a, slowly) as address:
            began = time.monotonic()
            with pytest.raises(PeerGoneError):
                fetch(address, key(source / "big"))
            assert time.monotonic() - began < 10


def test_a_node_without_the_secret_gets_nothing_and_is_not_believed(tmp_path, source):
    with nodes(tmp_path, source, 1) as (a,):
        a.warm(source / "big")
        with pytest.raises(PeerGoneError, match="401"):
            fetch(a.address, key(source / "big"), "the secret of somebody else")
        message = RecordsMessage("127.0.0.9:1", hold=((key(source / "big"), "1.2.3"),))

        async def lie() -> None:
            client = NodeClient(Signer(b"the secret of somebody else"), None)
            try:
                await client.tell(a.address, message)
            finally:
                await client.close()

        with pytest.raises(PeerGoneError, match="401"):
            asyncio.run(lie())
        with pytest.raises(NoCopyError):
            fetch(a.address, key_of("public", str(source / "big")))
        assert a.status()["records"] == 1


def forged_answer(data: bytes) -> bytes:
    """Change what a node says of its blocks, but not the code that it has signed it with."""
    return data.replace(b"X-Tier-Blocks: [0,", b"X-Tier-Blocks: [1,")


def test_a_forged_answer(tmp_path, source):
    with nodes(tmp_path, source, 1) as (a,):
        a.warm(source / "big")
        with in_between(a, forged_answer) as address, pytest.raises(RottenError):
            fetch(address, key(source / "big"))


def test_a_copy_that_rots_on_a_peers_disk_is_dropped_at_both_ends(tmp_path, source):
    path = source / "big"
    with nodes(tmp_path, source, 2) as (a, b):
        a.warm(path)
        with a.copy(path).open("r+b") as copy:
            copy.seek(2_000_000)
            copy.write(b"rot")
        b.warm(path)
        wait_for(lambda: b.has(path))
        assert b.copy(path).read_bytes() == BIG
        assert b.counted("rotten") == 1
        wait_for(lambda: not a.has(path))


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_a_peer_that_goes_in_mid_transfer(tmp_path, source, how):
    path = source / "big"
    with nodes(tmp_path, source, 2) as (a, b):
        one, two = TierReader(a), TierReader(b)
        assert one.ask(path) == "S"
        file = ReadFile(one, path)
        file.read(0, 1 << 20)
        # For a reader that has only asked, another one waits for no more than a moment.
        wait_for(lambda: a.status()["growing"])
        assert two.ask(path).lstrip("W") == "F"
        if how == "killed":
            a.kill()
        else:
            a.stop()
        wait_for(lambda: not b.status()["growing"])
        assert not b.has(path)
        assert two.ask(path).lstrip("W") == "S"
        other = ReadFile(two, path)
        other.read(0, len(BIG))
        wait_for(lambda: b.has(path))


@pytest.mark.serial("it measures how long readers wait")
def test_readers_wait_less_than_half_a_second_for_a_home_that_hangs(tmp_path, source):
    with nodes(tmp_path, source, 2) as (a, b):
        a.warm(source)
        a.stop()
        reader, worst = TierReader(b), 0.0
        for number in range(20):
            began = time.monotonic()
            assert reader.ask(source / f"small/{number}").lstrip("W") == "S"
            worst = max(worst, time.monotonic() - began)
        assert worst < 1.5
        began = time.monotonic()
        for number in range(20):
            reader.ask(source / f"small/{number}")
        assert time.monotonic() - began < 0.5
        assert b.status()["nodes"][0]["is_live"] is False


def test_a_disk_that_is_full(tmp_path, source):
    store = tmp_path / "node" / "store"
    store.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(store)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with one_node(tmp_path, source, "--capacity", "1G") as node:
            node.warm(source / "small")
            assert node.status()["copies"] == 20
            done = node.tfm("warm", source / "big")
            assert (done.returncode, "No space left on device" in done.stderr) == (1, True)
            assert "No space left on device" in node.status()["problem"]
            assert node.status()["copies"] == 20
            assert "No space left" in node.tfm("why", source / "big").stdout
    finally:
        subprocess.run(["umount", "-l", str(store)], check=True)


def test_a_full_store_keeps_its_data_set_and_evicts_others(tmp_path):
    files = {f"{name}/{n}": os.urandom(1 << 20) for name in "ab" for n in range(4)}
    source = make_source(tmp_path / "source", files)
    with one_node(tmp_path, source, "--capacity", "3M") as node:
        node.warm(source / "a")
        first = {n for n in range(4) if node.has(source / f"a/{n}")}
        assert len(first) == 3
        node.warm(source / "a")
        assert {n for n in range(4) if node.has(source / f"a/{n}")} == first
        node.warm(source / "b")
        assert sum(node.has(source / f"b/{n}") for n in range(4)) == 3
        assert node.counted("evictions") == 3
        assert node.status()["used"] == 3 << 20


def test_after_a_restart_of_the_machine_copies_are_compared_first(tmp_path, source):
    with one_node(tmp_path, source) as node:
        node.warm(source)
        node.process.terminate()
        node.process.wait(DEADLINE)
        (node.store / "boot-id").write_text("another boot")
        with node.copy(source / "big").open("r+b") as copy:
            copy.write(b"lost in the crash")
        node.start()
        wait_for(lambda: not node.status()["unverified"])
        assert node.status()["copies"] == 20
        assert not node.has(source / "big")
        assert node.copy(source / "small/7").read_bytes() == b"7 " + SMALL


def test_after_a_restart_of_the_daemon_copies_are_used_at_once(tmp_path, source):
    with one_node(tmp_path, source) as node:
        node.warm(source)
        reader = TierReader(node)
        ReadFile(reader, source / "small/1").read(0, 5)
        node.kill()
        (source / "small/3").unlink()
        node.start()
        wait_for(lambda: node.status()["copies"] == 20)
        assert not list((node.store / "growing").rglob("*.part"))


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_only_who_has_a_certificate_talks_to_nodes_with_tls(tmp_path, source, secret):
    both, authority = certificate(tmp_path)
    tls = ("--certificate", str(both), "--authority", str(authority))
    with nodes(tmp_path, source, 2, *tls, secret=secret) as (a, b):
        a.warm(source / "big")
        b.warm(source / "big")
        assert b.counted("peer_bytes") == len(BIG)
        assert b.copy(source / "big").read_bytes() == BIG
        with pytest.raises(PeerGoneError):
            fetch(a.address, key(source / "big"))
