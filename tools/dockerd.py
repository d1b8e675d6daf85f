# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A dockerd of one's own, started, crashed, restarted and removed without a trace."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

PATIENCE = 60.0  # Seconds.

PACKAGE = "docker.io"
BY_HAND = f"sudo apt-get install --no-install-recommends {PACKAGE}"

# The longest path of a socket below the engine's folder. Linux allows 107 bytes in all.
LONGEST_SOCKET = "exec/containerd/containerd-debug.sock"
# What dockerd creates outside its configured folders, deepest first.
OUTSIDE = tuple(
    Path(name)
    for name in (
        "/etc/docker/key.json",
        "/etc/docker",
        "/run/docker/plugins",
        "/run/docker",
        "/run/containerd/s",
        "/run/containerd",
    )
)
CGROUPS = Path("/sys/fs/cgroup")
SYS_ADMIN = 1 << 21  # The capability, as a bit of a mask.

T = TypeVar("T")


class EngineError(Exception):
    """Why there is no engine, in one sentence."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def answers(host: str) -> bool:
    """Return whether an engine answers at ``"unix:///…"``.

    False for other kinds of hosts: an engine on another machine cannot mount this
    machine's files into its containers.
    """
    kind, _, path = host.partition("://")
    if kind != "unix":
        return False
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class DockerEngine:
    """A private dockerd, with all its files in one folder and without a network.

    As a context manager, it runs until the with statement ends.
    """

    def __init__(self, folder: Path, *, live_restore: bool = False) -> None:
        """Prepare an engine.

        Args:
            folder: An empty folder, or one that start() creates. stop() deletes it.
            live_restore: Containers survive the end of dockerd.

        Raises:
            EngineError: The folder's path is too long.
        """
        self.folder = folder.resolve()
        most = 107 - len(os.fsencode(LONGEST_SOCKET)) - 1
        if len(os.fsencode(self.folder)) > most:
            raise EngineError(
                f"the path {self.folder} is too long for dockerd's sockets:"
                f" {most} bytes are allowed"
            )
        self.host = f"unix://{self.folder}/docker.sock"
        self.log = self.folder / "log"
        self._live_restore = live_restore
        self._dockerd: subprocess.Popen[bytes] | None = None
        self._outside = tuple(path for path in OUTSIDE if not os.path.exists(path))

    def __enter__(self) -> DockerEngine:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start dockerd and wait until it answers.

        Raises:
            EngineError: It does not start or does not answer. Everything has been removed.
        """
        try:
            _check_rights()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        # Instead of the machine's own settings, which may contradict these.
        settings = self.folder / "daemon.json"
        settings.write_text(json.dumps({"live-restore": self._live_restore}))
        # containerd ends soon after dockerd. After a crash, the pid files of both are left,
        # and dockerd would mistake a zombie with that pid for the process.
        _until_none(lambda: self._daemons("containerd"), _kill)
        pid_file = self.folder / "pid"
        for file in (pid_file, self.folder / "exec/containerd/containerd.pid"):
            file.unlink(missing_ok=True)
        command = ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        command += ["--ip-forward=false", f"--config-file={settings}", f"--host={self.host}"]
        command += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        with self.log.open("ab") as log:
            self._dockerd = subprocess.Popen(
                [*command, f"--pidfile={pid_file}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at the terminal must reach only the tests; the engine ends later.
                start_new_session=True,
                preexec_fn=block_no_signals,
            )
        deadline = time.monotonic() + PATIENCE
        while not answers(self.host):
            if self._dockerd.poll() is not None:
                raise EngineError(f"dockerd does not start here: {self._last_log_line()}")
            if time.monotonic() > deadline:
                raise EngineError(f"dockerd does not answer within {PATIENCE:.0f} seconds")
            time.sleep(0.02)

    def _last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")

    def kill(self) -> None:
        """Kill only dockerd, as if it had crashed. restart() starts it again."""
        if self._dockerd is not None:
            self._dockerd.kill()
            self._dockerd.wait()
            self._dockerd = None

    def restart(self) -> None:
        """End dockerd, unless it has been killed, and start it again with the same files.

        Raises:
            EngineError: It does not start. Everything has been removed.
        """
        self._terminate()
        self.start()

    def stop(self) -> None:
        """End dockerd and all its containers, and remove everything that it created.

        Raises:
            EngineError: Something could not be removed.
        """
        # dockerd would wait ten seconds for a container that ignores SIGTERM.
        self._kill_containers()
        self._terminate()
        self._kill_containers()
        _until_none(lambda: self._daemons("(dockerd|containerd|runc).*"), _kill)
        self._remove_mounts()
        for address in self.folder.glob("exec/containerd/daemon/*/*/*/address"):
            Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
        _until_none(self._cgroups, Path.rmdir)
        shutil.rmtree(self.folder, ignore_errors=True)
        for path in self._outside:
            # Another engine may have been started meanwhile, and be using them.
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if self.folder.exists():
            raise EngineError(f"{self.folder} could not be removed")

    def _terminate(self) -> None:
        if self._dockerd is not None:
            self._dockerd.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._dockerd.wait(timeout=PATIENCE)
            self.kill()

    def _kill_containers(self) -> None:
        for cgroup in self._cgroups():
            # In cgroup v1, a frozen process cannot even be killed.
            with suppress(OSError):
                (cgroup / "freezer.state").write_text("THAWED")
        _until_none(self._in_containers, _kill)

    def _cgroups(self) -> Iterator[Path]:
        """Yield the cgroups of its containers, inner ones before outer ones."""
        containers = [path.name for path in self.folder.glob("data/containers/*")]
        if containers:
            for folder, _, _ in os.walk(CGROUPS, topdown=False):
                if any(container in folder for container in containers):
                    yield Path(folder)

    def _in_containers(self) -> Iterator[int]:
        for cgroup in self._cgroups():
            with suppress(OSError):
                yield from map(int, (cgroup / "cgroup.procs").read_text().split())

    def _daemons(self, names: str) -> Iterator[int]:
        """Yield the pids of its own processes whose names match a regular expression."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                program, *arguments = file.read_bytes().decode(errors="replace").split("\0")
                named = re.fullmatch(names, Path(program).name)
                if named and any(f"{self.folder}/" in argument for argument in arguments):
                    yield int(file.parent.name)

    def _remove_mounts(self) -> None:
        for mount in reversed(self._mounts()):
            subprocess.run(["umount", "--lazy", "--", mount], check=False)
        left = self._mounts()
        if left:
            raise EngineError(f"{left[0]} is still mounted, so {self.folder} was not removed")

    def _mounts(self) -> list[Path]:
        """Return the mount points below its folder, in the order of mounting."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        paths = (
            Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split()[4]))
            for line in lines
        )
        return [path for path in paths if self.folder in path.parents]


def _check_rights() -> None:
    """Check that dockerd is installed and would be able to start containers.

    Raises:
        EngineError: It is not.
    """
    if shutil.which("dockerd") is None:
        raise EngineError(f"dockerd is missing: {BY_HAND}")
    if os.geteuid() != 0:
        raise EngineError("dockerd must be run as root")
    rights = re.search(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if rights is None or not int(rights[1], 16) & SYS_ADMIN:
        raise EngineError("dockerd needs the capability SYS_ADMIN, which root does not have here")
    # Version 1 has a hierarchy for each resource; version 2 has one for all.
    cpu = CGROUPS / "cpu"
    if not os.access(cpu if cpu.exists() else CGROUPS, os.W_OK):
        raise EngineError("dockerd needs writable cgroups, and there are none here")


def _until_none(find: Callable[[], Iterator[T]], act: Callable[[T], object]) -> None:
    """Act on everything that is found, until nothing is found.

    Raises:
        EngineError: Something is still found after a minute.
    """
    deadline = time.monotonic() + PATIENCE
    while found := list(find()):
        if time.monotonic() > deadline:
            raise EngineError(f"cannot end or remove {found[0]} of the engine")
        for one in found:
            with suppress(OSError):
                act(one)
        time.sleep(0.02)


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def block_no_signals() -> None:
    """Undo docker_engine's blocking in a child; a container's programs would inherit it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
