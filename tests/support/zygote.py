# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Python processes that need not import anything: forked from one that has.

TensorFlow takes seconds of a core to import, and a whole elastic training is done in one. It is
imported before it has threads or devices, so that forks are as good as new processes; their
results have the same bits. So what is read at import must be in the environment of the zygote,
and tests of import, start and end need new processes. A controller takes a third of a second to
import, and tests start hundreds: `tfm` forks them, too. `python -m tests.support.zygote
DESCRIPTOR MODULE…` listens at a Unix socket for programs to run, and ends with whoever started it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tests.tensorflow.quick_import import quick_imports

_LENGTH = struct.Struct("!I")
_CLI = "tf_malleable_cli"
# The command's modules come after tf_malleable, as it looks for them.
_ELASTIC = (
    "tf_malleable.elastic.member.training_member",
    "tf_malleable.elastic.worker",
    "tf_malleable_cli",
    "tf_malleable.cli.main",
    "tf_malleable.cli.elastic.group",
    "tf_malleable.cli.elastic.processes",
    "tf_malleable.cli.elastic.supervisor",
)
# tf_malleable comes before tensorflow.
_MODULES = {
    "tfm": (
        "tf_malleable_cli",
        "tf_malleable.cli.main",
        "tf_malleable.cli.container.run",
        "tf_malleable.cli.services.controller",
        "tf_malleable.cli.jobs.history",
        "tf_malleable.cli.jobs.job_list",
        "tf_malleable.cli.launch.run",
        "tf_malleable.cli.jobs.show",
        "tf_malleable.cli.background.submit",
        "tf_malleable.cli.tier.group",
        "tf_malleable.cli.jobs.top",
        "tf_malleable.containers.engine_containers",
        "tf_malleable.controller.daemon",
        "tf_malleable.tier.daemon",
    ),
    "conformance": ("tests.conformance.in_front", "tensorflow"),
    "numpy": ("tf_malleable", "numpy", *_ELASTIC),
    "keras": ("tf_malleable", "tensorflow", "keras", "keras.src.models.model", *_ELASTIC),
    "tensorflow": ("tf_malleable", "tensorflow", "keras"),
    "stock tensorflow": ("tensorflow", "keras"),
}


class Forked:
    """A process that was forked for a program, with what tests use of subprocess.Popen."""

    def __init__(
        self,
        address: str,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
    ) -> None:
        """Start a program; arguments as those of Popen.

        Args:
            address: Address of the zygote.
            words: A command line that begins with this Python.
            env: Its environment; None for this process's.
            cwd: Where it runs; None for the repository's root.
            stdin: Nothing but DEVNULL and None, which is the same.
            stdout: PIPE, a file, or None for this process's.
            stderr: As stdout, or STDOUT.
            text: Pipes are of str.
        """
        assert words[0] == sys.executable, words
        assert stdin in (None, subprocess.DEVNULL)
        self.returncode: int | None = None
        self._said = b""
        self._heard: dict[Any, list[bytes]] = {}
        self._over: set[Any] = set()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)
        self.stdout, out = _end(stdout, 1, text)
        self.stderr, err = (None, out) if stderr == subprocess.STDOUT else _end(stderr, 2, text)
        said = json.dumps(
            {"words": list(words[1:]), "env": dict(env or os.environ), "cwd": str(cwd or ROOT)}
        ).encode()
        socket.send_fds(self._connection, [_LENGTH.pack(len(said))], [out, err])
        self._connection.sendall(said)
        for wanted, written in ((stdout, out), (stderr, err)):
            if wanted in (subprocess.PIPE, subprocess.DEVNULL):
                os.close(written)
        pid = self._line(None)
        assert pid is not None, "the zygote is gone"
        self.pid = pid

    def _line(self, timeout: float | None) -> int | None:
        """Return the next number that the zygote says; None if it says none in time."""
        end = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._said:
            left = None if end is None else max(0.0, end - time.monotonic())
            self._connection.settimeout(left)
            try:
                more = self._connection.recv(64)
            except (TimeoutError, BlockingIOError):
                return None
            if not more:
                return -signal.SIGKILL  # With the zygote all that it has forked ends.
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return int(line)

    def poll(self) -> int | None:
        """See Popen."""
        if self.returncode is None:
            self.returncode = self._line(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See Popen."""
        if self.returncode is None:
            self.returncode = self._line(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Return what it has written to its pipes, once it has ended."""
        end = None if timeout is None else time.monotonic() + timeout
        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None]
        with selectors.DefaultSelector() as selector:
            for pipe in pipes:
                if pipe not in self._over:
                    selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                left = None if end is None else max(0.0, end - time.monotonic())
                ready = selector.select(left)
                if not ready:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    self._heard.setdefault(key.fileobj, []).append(data)
                    if not data:
                        selector.unregister(key.fileobj)
                        self._over.add(key.fileobj)
        self.wait(None if end is None else max(1.0, end - time.monotonic()))
        return self._text(self.stdout), self._text(self.stderr)

    def _text(self, pipe: Any) -> Any:
        """Return what was read from a pipe, what its buffer had read before left out."""
        if pipe is None:
            return None
        heard = b"".join(self._heard.get(pipe, ()))
        return heard.decode() if hasattr(pipe, "encoding") else heard

    def send_signal(self, number: int) -> None:
        """See Popen."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """See Popen."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """See Popen."""
        self.send_signal(signal.SIGKILL)


def _end(wanted: Any, usual: int, text: bool) -> tuple[Any, int]:
    """Return a pipe to read from, if one is wanted, and the descriptor to write to."""
    if wanted == subprocess.PIPE:
        read, written = os.pipe()
        return os.fdopen(read, "r" if text else "rb"), written
    if wanted == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_WRONLY)
    return None, usual if wanted is None else wanted if isinstance(wanted, int) else wanted.fileno()


@functools.cache
def popen(kind: str, **environment: str) -> Any:
    """Return what stands in for subprocess.Popen; its processes have imported all of a kind.

    Args:
        kind: A key of _MODULES.
        environment: Variables that are read at import, beside those of this process.
    """
    address = f"\0tf_malleable-tests-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        words = [sys.executable, "-W", "ignore", "-m", "tests.support.zygote"]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*words, str(listener.fileno()), *_MODULES[kind]],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**os.environ, **threads, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
            cwd=ROOT,
        )
    assert process.stdin is not None
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return functools.partial(Forked, address)


# What follows runs in the zygote.


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork for whoever asks; returns what was asked for, in the forked process."""
    children: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    said, files = _request(connection)
                    pid = os.fork()
                    if not pid:
                        for number, file in enumerate(files, 1):
                            os.dup2(file, number)
                        for each in (*files, *(file for file, _ in children.values())):
                            os.close(each)
                        for each in (listener, connection, *(c for _, c in children.values())):
                            each.close()
                        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                        return said
                    for file in files:
                        os.close(file)
                    _tell(connection, pid)
                    children[pid] = os.pidfd_open(pid), connection
                    selector.register(children[pid][0], selectors.EVENT_READ, pid)
                    selector.register(connection, selectors.EVENT_READ, pid)
                elif key.data is None:
                    for pid in children:
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                elif key.data in children:
                    descriptor, connection = children[key.data]
                    if key.fileobj is connection:  # Whoever wanted it is gone.
                        os.kill(key.data, signal.SIGKILL)
                    del children[key.data]
                    selector.unregister(descriptor)
                    selector.unregister(connection)
                    os.close(descriptor)
                    _, status = os.waitpid(key.data, 0)
                    _tell(connection, os.waitstatus_to_exitcode(status))
                    connection.close()


def _request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    length, files, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
    left, data = _LENGTH.unpack(length)[0], b""
    while len(data) < left:
        data += connection.recv(left - len(data))
    return json.loads(data), files


def _tell(connection: socket.socket, number: int) -> None:
    with suppress(OSError):
        connection.sendall(b"%d\n" % number)


class _BecomeError(BaseException):
    """A command replaces itself by another one."""


def _become(words: Sequence[str]) -> None:
    assert words[0] == sys.executable, words
    raise _BecomeError(*words[1:])


def _run(words: Sequence[str], address: str) -> None:
    """Run a program as a fresh Python would."""
    words = words[2:] if words[0] == "-W" else words
    is_module = words[0] == "-m"
    program, *arguments = words[1:] if is_module else words
    sys.argv = [program, *arguments]
    if program == _CLI:
        from tf_malleable.cli.elastic import group, processes
        from tf_malleable.cli.launch import start

        vars(group)["become"] = vars(start)["become"] = _become
        if "--supervised" in arguments:  # Forked from here, it is no child of its supervisor.
            sys.argv[sys.argv.index("--supervised") + 1] = str(os.getppid())
        if "local" in arguments:
            vars(processes.subprocess)["Popen"] = functools.partial(Forked, address)
    elif "tf_malleable" in sys.modules and Path(program).name != "tfm":
        _as_imported()
    if is_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")


def _as_imported() -> None:
    """Do what tf_malleable does for these variables when it is imported."""
    from tf_malleable.runtime import _native, environment

    threads = environment.first_threads()
    if threads is not None:
        _native.set_threads(threads, threads)
    if "TF_MALLEABLE_ELASTIC" in os.environ:
        from tf_malleable.elastic import worker

        worker.start()


def _wait_until_alone() -> None:
    """Wait for threads of the imports, which the kernel may still have once they were joined."""
    end = time.monotonic() + DEADLINE
    while len(threads := os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > end:
            names = [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in threads]
            raise AssertionError(f"threads {names}: a fork would have one")
        time.sleep(0.01)


def main() -> None:
    """Import modules, fork, and run what is asked for."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    address = listener.getsockname().decode()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with quick_imports():
        for name in sys.argv[2:]:
            importlib.import_module(name)
    _wait_until_alone()
    gc.freeze()
    said = _serve(listener)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(said["cwd"])
    os.environ.clear()
    os.environ.update(said["env"])
    words = said["words"]
    while words:
        try:
            _run(words, address)
            words = ()
        except _BecomeError as following:
            words = following.args


if __name__ == "__main__":
    main()
