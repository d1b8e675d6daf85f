# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier, as people call it."""

from __future__ import annotations

import json
import os
import socket
import urllib.request

import pytest

from tests.support.commands import tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tiers import make_source, one_node

DATA = {"a/1": b"one" * 1000, "a/2": b"two" * 1000, "b/3": b"three" * 1000}


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", DATA)


@pytest.fixture
def node(tmp_path, source):
    with one_node(tmp_path, source) as found:
        yield found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--source", "none"], "--source none is not a folder"),
        (["--source", "/"], "--source / is everything: give the folder of the data"),
        (
            ["--source", ":"],
            "--source must be given at least once: a folder whose files are copied",
        ),
        (
            ["--source", "source:source/a"],
            "--source source/a and --source {} are inside each other",
        ),
        (["--source", "source", "--store", "source/x"], "--source source and the store are inside"),
        (["--source", "source", "--capacity", "1K"], "--capacity must be 1M or more"),
        (["--source", "source", "--capacity", "x"], "must be a size such as 512M or 4G, not 'x'"),
        (["--source", "source", "--peers", "a:1"], "--peers needs --listen: the others ask"),
        (["--source", "source", "--listen", "0.0.0.0:1"], "--listen must be one address of this"),
        (["--source", "source", "--listen", "x:1"], "--listen must be an IP address of this node"),
        (
            ["--source", "source", "--listen", "127.0.0.1:1"],
            "--listen needs a secret that the nodes",
        ),
        (
            ["--source", "source", "--secret-file", "none"],
            "cannot read --secret-file none: No such",
        ),
        (["--source", "source", "--certificate", "c"], "TLS needs both --certificate and"),
        (["--source", "source", "--metrics", "70000"], "70000 is not in the range 0<=x<=65535"),
        (["--store", "s"], "Missing option '--source'"),
    ],
)
def test_a_wrong_configuration(tmp_path, source, words, sentence, monkeypatch):
    monkeypatch.delenv("TF_MALLEABLE_TIER_SECRET", raising=False)
    given = words if "--store" in words else [*words, "--store", "store"]
    done = tfm("tier", "serve", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence.format(source.resolve()) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["certificate", "authority"])
def test_tls_without_a_certificate_in_it(tmp_path, source, name):
    file = tmp_path / "file"
    file.write_text("no certificate")
    done = tfm(
        "tier", "serve", "--source", "source", "--store", "store", "--listen", "127.0.0.1:0",
        "--certificate", str(file), "--authority", str(file), cwd=tmp_path,
        env={**os.environ, "TF_MALLEABLE_TIER_SECRET": "0123456789abcdef"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, f"tfm: --certificate {file} has not what TLS needs, in PEM format\n"
    )  # fmt: skip


@pytest.mark.parametrize("words", [["status"], ["drop"], ["check"], ["warm", "/x"], ["why", "/x"]])
def test_without_a_tier(tmp_path, words):
    done = tfm("tier", words[0], "--socket", str(tmp_path / "s"), *words[1:])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"tfm: no tier answers at {tmp_path}/s (No such file or directory); start one with:"
        " tfm tier serve\n"
    )


def test_a_store_that_another_tier_has(node, source):
    done = tfm(
        "tier", "serve", "--source", str(source), "--store", str(node.store), "--socket",
        str(node.folder / "t"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1, f"tfm tier: another tier keeps its copies in {node.store}\n"
    )  # fmt: skip


def test_a_port_that_is_taken(tmp_path, source):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--source", "source", "--store", "store", "--socket", "s"]
        secret = {**os.environ, "TF_MALLEABLE_TIER_SECRET": "0123456789abcdef"}
        done = tfm(
            "tier", "serve", *words, "--listen", f"127.0.0.1:{port}", cwd=tmp_path, env=secret
        )
        assert done.returncode == 1
        assert f"tfm tier: cannot listen at 127.0.0.1:{port}: " in done.stderr
        done = tfm("tier", "serve", *words, "--metrics", str(port), cwd=tmp_path)
        assert done.returncode == 1
        assert f"cannot listen on port {port} of 127.0.0.1" in done.stderr


@pytest.mark.slow
def test_the_life_of_a_tier(node, source):
    done = node.tfm("warm", source)
    assert (done.returncode, done.stdout) == (0, "3 files to copy, 10.7 KiB\n")
    done = node.tfm("why", source / "a/1")
    assert (done.returncode, done.stdout) == (
        0, f"the copy {node.copy(source / 'a/1')}, which is complete\n"
    )  # fmt: skip
    shown = node.tfm("status").stdout
    assert "10.7 KiB of " in shown
    assert " in 3 copies, 0 growing" in shown
    assert node.tfm("check").stdout == "checked 3 copies, 10.7 KiB, 0 bad\n"
    with node.copy(source / "a/2").open("r+b") as copy:
        copy.write(b"x")
    done = node.tfm("check", source / "a")
    assert (done.returncode, done.stdout) == (
        1, f"dropped: {source}/a/2\nchecked 2 copies, 5.9 KiB, 1 bad\n"
    )  # fmt: skip
    assert not node.has(source / "a/2")
    assert node.tfm("drop", source / "b").stdout == "dropped 1 copies, 4.9 KiB\n"
    assert node.tfm("drop").stdout == "dropped 1 copies, 2.9 KiB\n"
    assert node.status()["used"] == 0


def test_what_cannot_be_warmed(node, tmp_path, source):
    done = node.tfm("warm", tmp_path)
    assert (done.returncode, done.stderr) == (
        2, f"tfm: {tmp_path.resolve()} is not below the source, {source.resolve()}\n"
    )  # fmt: skip
    done = node.tfm("warm", source / "none")
    assert (done.returncode, done.stderr) == (2, f"tfm: there is no {source.resolve()}/none\n")


def test_why_a_file_is_read_from_the_source(node, tmp_path, source):
    for path, reason in [
        (source / "a/1", "nobody has read it whole here yet"),
        (tmp_path / "x", "is not below"),
        (source / "none", "No such file or directory"),
    ]:
        done = node.tfm("why", path)
        assert done.returncode == 1
        assert reason in done.stdout


def test_metrics(tmp_path, source):
    with one_node(tmp_path, source, "--metrics", "0") as node:
        line = wait_for(lambda: "metrics at" in node.log.read_text() and node.log.read_text())
        address = line.split("metrics at ")[1].split()[0]
        node.warm(source)
        with urllib.request.urlopen(address, timeout=DEADLINE) as answer:
            text = answer.read().decode()
    size = float(sum(map(len, DATA.values())))
    assert f"tfm_tier_source_bytes_total {size}" in text
    assert "tfm_tier_copies 3.0" in text


def test_settings_in_a_file(tmp_path, source, monkeypatch):
    config = tmp_path / "config" / "tf_malleable"
    config.mkdir(parents=True)
    (config / "config.ini").write_text("[tier serve]\nsource = nowhere\nstore = s\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    done = tfm("tier", "serve", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "tfm: --source nowhere is not a folder\n")


def test_run_without_a_tier_reads_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_TIER_SOCKET", str(tmp_path / "s"))
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "c"))
    monkeypatch.setenv("TF_MALLEABLE_OPENMP", "0")
    done = tfm("run", "--tier", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert (done.returncode, done.stdout.strip()) == (0, os.environ.get("LD_PRELOAD", ""))
    assert f"tfm: no tier at {tmp_path}/s (No such file or directory), reading from the" in (
        done.stderr
    )


def test_run_tells_programs_of_the_tier(node, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_TIER_SOCKET", str(node.socket))
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(node.folder / "c"))
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    done = tfm("run", "--tier", "--", "python3", "-c", show)
    found = json.loads(done.stdout)
    assert found["TF_MALLEABLE_TIER"].startswith(f"socket={node.socket.resolve()}\ncounts=")
    said = node.socket.with_name("s.state").read_bytes()[4096:].decode()
    assert said == f"store={node.store.resolve()}\nsource={node.source.resolve()}\n"
    assert found["LD_PRELOAD"].split(":")[0].endswith("libtf_malleable_tier.so")
