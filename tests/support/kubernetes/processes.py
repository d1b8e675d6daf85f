# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers' processes: real ones, each in a cgroup of its own where we may make any."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support import cgroups

# Joins the cgroups whose folders are its first arguments, and becomes the command.
_JOIN = 'n=$1; shift; while [ $n -gt 0 ]; do echo $$ >"$1/cgroup.procs" || exit 126; '
_JOIN += 'shift; n=$((n-1)); done; exec "$@"'


class Process:
    """A container that runs, or has.

    Attributes:
        code: Its exit code as engines say it, so 128 and more for signals; None while it runs.
        group: Its cgroup; None where we may make none, and once it has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        output: Path,
        on_exit: Callable[[], None],
    ) -> None:
        self.code: int | None = None
        self.group = _make_group()
        # Guards its cgroup against being written to while it goes.
        self._group_lock = threading.Lock()
        folders = sorted({str(self.group.cpu), str(self.group.cpuset)}) if self.group else []
        joining = ["sh", "-c", _JOIN, "sh", str(len(folders)), *folders, *command]
        # Tests that are killed leave nothing behind.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [*guard, *joining],
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._on_exit = on_exit
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def limit(self, cpus: float | None) -> None:
        """Set its CPU quota, in CPUs; None for none."""
        with self._group_lock:
            if self.group is not None:
                self.group.set_quota(cpus)

    def terminate(self, *, is_init: bool) -> None:
        """Ask its first process to end.

        Args:
            is_init: It has a PID namespace of its own. A kernel gives the first process of one no
                signal that it neither handles nor blocks: seen on Kubernetes 1.36.2, where workers
                that were deleted while they imported TensorFlow stayed for their whole grace
                period of 30 s.
        """
        if self.code is None and not (is_init and self._leaves_to_kernel(signal.SIGTERM)):
            self._process.terminate()

    def _leaves_to_kernel(self, number: signal.Signals) -> bool:
        """Return whether the first process neither handles nor blocks a signal."""
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            masks = re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)$", status, re.MULTILINE)
            return not any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
        return True

    def stop(self) -> None:
        """Have all of it do nothing more, until it is killed."""
        self._signal_session(signal.SIGSTOP)

    def kill(self) -> None:
        """Kill all of it, and wait for its end."""
        self._signal_session(signal.SIGKILL)
        self._waiter.join()

    def _wait(self) -> None:
        code = self._process.wait()
        # With its first process goes the rest of a container.
        self._signal_session(signal.SIGKILL)
        with self._group_lock:
            group, self.group = self.group, None
        if group is not None:
            group.remove()
        self.code = 128 - code if code < 0 else code
        self._on_exit()

    def _signal_session(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _make_group() -> cgroups.Group | None:
    try:
        return cgroups.make(f"tfm-test-pod-{os.getpid()}-{secrets.token_hex(4)}")
    except OSError:
        return None
