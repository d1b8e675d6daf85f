# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""SECURITY.md names every socket that daemons open and every path that they write.

The daemons run under strace. What they do that no row of the table names fails the test: either it
is a mistake, or it needs a row that says who may write there and what is believed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.brokers import MOSQUITTO, Mosquitto
from tests.support.controllers import TFM, ask, wait_for
from tests.support.fixtures import directory as directory
from tests.support.tiers import make_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]
SECONDS = 300.0
_CALLS = (
    "bind,listen,open,openat,creat,mkdir,mkdirat,mknod,mknodat,link,linkat,symlink,symlinkat,rename,"
    "renameat,renameat2"
)
_ROW = re.compile(r"\| (?P<what>[^|]+) \| (?P<where>[^|]+) \|(?:[^|]+\|){2} (?P<tests>[^|]*) \|")
# Of a call that another thread interrupts, this is the first part.
_CALL = re.compile(r"\d+ +(\w+)\((.*)")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<folder>[^>]*)>(?:\(deleted\))?, )?"(?P<name>[^"]*)"')
_UNIX = re.compile(r'sa_family=AF_UNIX, sun_path=(?P<abstract>@?)"(?P<name>[^"]*)"')
_TCP = re.compile(r"\d+<TCP(?:v6)?:\[(?P<address>.*):\d+\]>")
# A loopback address that only options name.
LISTEN = "127.0.0.2"


@dataclass(frozen=True)
class Row:
    """A row of the threat model.

    Attributes:
        what: What crosses the border.
        patterns: Where it is: paths, `unix PATH` or `tcp ADDRESS`.
        tests: Files of the tests that prove what is believed.
    """

    what: str
    patterns: tuple[str, ...]
    tests: tuple[str, ...]


def threat_model() -> list[Row]:
    """Return the table of SECURITY.md."""
    text = (ROOT / "SECURITY.md").read_text().partition("## Threat model")[2].partition("\n## ")[0]
    return [
        Row(
            found["what"],
            tuple(re.findall(r"`([^`]+)`", found["where"])),
            tuple(re.findall(r"`(tests/[^`]+)`", found["tests"])),
        )
        for found in _ROW.finditer(text)
        if found["what"] not in ("---", "what")
    ]


@dataclass
class Places:
    """Folders that programs are told to use, by the names that the table has for them."""

    root: Path
    folders: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("RUNTIME", "STATE", "STORE", "HOME", "TMP", "WORK"):
            self.folders[name] = self.root / name.lower()
            self.folders[name].mkdir(0o700)

    def __getitem__(self, name: str) -> Path:
        return self.folders[name]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self["HOME"]),
            "TMPDIR": str(self["TMP"]),
            "XDG_RUNTIME_DIR": str(self["RUNTIME"]),
            "XDG_STATE_HOME": str(self["STATE"]),
            "TF_MALLEABLE_SOCKET": str(self["RUNTIME"] / "tf_malleable" / "controller.sock"),
            "TF_MALLEABLE_TIER_SECRET": "a secret of the nodes in a test",
            "TF_MALLEABLE_ELASTIC_SECRET": "00" * 16,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def named(self, path: str) -> str:
        """Return a path as the table has it."""
        for name, folder in self.folders.items():
            if path == str(folder) or path.startswith(f"{folder}/"):
                return name + path[len(str(folder)) :]
        return path


@dataclass
class Traced:
    """A program under strace."""

    places: Places
    process: subprocess.Popen[str]
    log: Path
    output: Path

    def said(self, text: str) -> bool:
        assert self.process.poll() is None, self.output.read_text()
        return text in self.output.read_text()

    def end(self) -> None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for child in children.split():
            os.kill(int(child), signal.SIGTERM)
        self.process.wait(SECONDS)

    def done(self) -> Iterator[str]:
        """Yield each socket that was opened and each path that was written, as in the table."""
        for line in self.log.read_text(errors="replace").splitlines():
            found = _CALL.fullmatch(line)
            if found is None or " = -1 " in line:
                continue
            call, rest = found.groups()
            if call == "bind":
                if found := _UNIX.search(rest):
                    path = self.places.named(found["name"])
                    yield f"unix @{found['name']}" if found["abstract"] else f"unix {path}"
            elif call == "listen":
                if found := _TCP.match(rest):
                    yield f"tcp {found['address']}".replace(LISTEN, "LISTEN")
            elif "open" not in call or re.search(r"O_(WRONLY|RDWR|CREAT)", rest):
                folder, name = [*_PATH.finditer(rest)][-1].group("folder", "name")
                path = os.path.normpath(os.path.join(folder or self.places["WORK"], name))
                if not path.startswith("/dev/"):
                    yield self.places.named(path)


@contextmanager
def traced(places: Places, *words: object, **variables: str) -> Iterator[Traced]:
    number = len([*places.root.glob("*.out")])
    log, output = places.root / f"{number}.strace", places.root / f"{number}.out"
    command = ["strace", "-f", "-qq", "-yy", "-s", "4096", "-e", f"trace={_CALLS}", "-o", log]
    with output.open("w") as file:
        process = subprocess.Popen(
            [*command, *map(str, words)],
            cwd=places["WORK"],
            env=places.environment | variables,
            stdout=file,
            stderr=file,
            text=True,
        )
    running = Traced(places, process, log, output)
    try:
        yield running
        if process.poll() is None:
            running.end()
    finally:
        process.kill()
        process.wait()


def unknown(done: set[str]) -> list[str]:
    """Return what no row of the table names."""
    patterns = [pattern for row in threat_model() for pattern in row.patterns]
    return sorted(each for each in done if not any(fnmatch.fnmatch(each, p) for p in patterns))


@pytest.fixture
def places(directory):
    # pytest's folders are too long for a socket's path.
    return Places(directory)


def test_every_test_that_is_named_is_there():
    rows = threat_model()
    assert len(rows) > 10
    assert [name for row in rows for name in row.tests if not (ROOT / name).is_file()] == []
    assert [row.what for row in rows if not row.tests] == []


def test_something_new_is_found():
    new = {"tcp 0.0.0.0", "unix /tmp/tfm.sock", "RUNTIME/other", "/tmp/tfm"}
    assert unknown(new | {"STORE/a/b"}) == sorted(new)


@pytest.mark.skipif(MOSQUITTO is None, reason="apt-get install mosquitto")
def test_a_controller_its_jobs_and_its_page(places):
    socket = places["RUNTIME"] / "tf_malleable" / "controller.sock"
    folder = places.root / "broker"
    folder.mkdir()
    broker = Mosquitto(folder)
    where = folder / "broker.json"
    where.write_text(f'{{"host": "127.0.0.1", "port": {broker.port}, "unit": "a"}}')
    try:
        with traced(
            places, TFM, "controller", "--cpus", "0", "--metrics", "0", "--meter", "estimate",
            "--area", "hall", "--budgets-from", where,
        ) as controller:  # fmt: skip
            wait_for(lambda: controller.said("listening") or socket.exists(), SECONDS)
            program = "import tf_malleable; print('ran')"
            with traced(places, TFM, "run", "--", sys.executable, "-c", program) as run:
                run.process.wait(SECONDS)
            with traced(places, TFM, "submit", "--", sys.executable, "-c", program) as submit:
                submit.process.wait(SECONDS)
            wait_for(lambda: ask(socket, "GET", "/v1/jobs")[1]["jobs"] == [], SECONDS)
            with traced(places, TFM, "web", "--port", "0") as page:
                wait_for(lambda: page.said("http://"), SECONDS)
            unix = places["RUNTIME"] / "page.sock"
            with traced(places, TFM, "web", "--unix", unix) as unix_page:
                wait_for(unix.exists, SECONDS)
    finally:
        broker.kill()
    programs = (controller, run, submit, page, unix_page)
    done = {each for program in programs for each in program.done()}
    assert {"tcp 127.0.0.1", "unix RUNTIME/page.sock", "STATE/tf_malleable/controller.db"} <= done
    assert unknown(done) == []


def test_a_controller_in_the_background(places):
    words = ("controller", "--detach", "--idle-end", "1s")
    with traced(places, TFM, *words, TF_MALLEABLE_CLAIMS="") as controller:
        controller.process.wait(SECONDS)
    done = {*controller.done()}
    names = ("controller.log", "controller.db")
    assert {f"STATE/tf_malleable/{name}" for name in names} <= done
    assert "RUNTIME/tf_malleable/controller.sock.start" in done
    assert unknown(done) == []


def test_a_tier(places):
    source = make_source(places.root / "source", {"a": b"x" * 100_000})
    socket = places["RUNTIME"] / "tf_malleable-tier" / "tier.sock"
    with traced(
        places, TFM, "tier", "serve", "--source", source, "--store", places["STORE"],
        "--socket", socket, "--listen", f"{LISTEN}:0", "--metrics", "0", "--peers", "127.0.0.1:1",
    ) as tier:  # fmt: skip
        wait_for(lambda: tier.said("copies of"), SECONDS)
        with traced(places, TFM, "tier", "warm", "--socket", socket, source) as warm:
            warm.process.wait(SECONDS)
    done = {*tier.done(), *warm.done()}
    assert {"tcp LISTEN", "unix RUNTIME/tf_malleable-tier/tier.sock", "STORE/lock"} <= done
    assert unknown(done) == []


def test_a_coordinator(places):
    words = ("elastic", "coordinator", "--listen", f"{LISTEN}:0", "--shards", "2", "--name", "run")
    with traced(places, TFM, *words) as coordinator:
        wait_for((places["RUNTIME"] / "tf_malleable" / "elastic" / "run.json").exists, SECONDS)
    done = {*coordinator.done()}
    assert {"tcp LISTEN", "RUNTIME/tf_malleable/elastic/run.json"} <= done
    assert unknown(done) == []
