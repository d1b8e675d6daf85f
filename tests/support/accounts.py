# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A fresh account: a home, state and runtime folder of its own, whose processes can be ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE

_MARK = "TFM_TEST_ACCOUNT"
# A process that executes a program has no environment for a moment, so it is looked for again.
_CALM = 3
_PAUSE_SECONDS = 0.02
_EARLIER_BOOT = "00000000-0000-0000-0000-000000000000"


def age(state: Path) -> None:
    """Have the live jobs of a state file be those of an earlier boot."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with closing(sqlite3.connect(state)) as connection, connection:
        change = "UPDATE live SET record = replace(record, ?, ?)"
        connection.execute(change, (boot, _EARLIER_BOOT))


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; its parent may not know yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def stored_jobs(outputs: Path) -> list[dict[str, Any]]:
    """Return the jobs that are stored beside outputs; one that ends meanwhile may be missing."""
    found = []
    for path in outputs.glob("*.job"):
        with suppress(FileNotFoundError):
            found.append(json.loads(path.read_text()))
    return found


class Account:
    """The account of a user who has set up nothing.

    Attributes:
        environment: Variables of all processes of the account.
        outputs: Folder with the outputs of jobs in the background.
    """

    def __init__(self, folder: Path) -> None:
        self._runtime = folder / "run"
        self._state = folder / "home" / ".local" / "state"
        for each in (folder / "home", self._runtime):
            each.mkdir(0o700)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TF_MALLEABLE_", "XDG_", "PYTEST_"))
        }
        self.environment = {
            **kept,
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(self._runtime),
            "XDG_STATE_HOME": str(self._state),  # Root's would be that of the machine.
            "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
            "TF_MALLEABLE_CLAIMS": "",
            _MARK: str(folder),
        }
        self._cpus = sorted(os.sched_getaffinity(0))[:2]
        self.outputs = self._state / "tf_malleable" / "output"

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start tfm, which sees two CPUs at most."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            cwd="/",
            text=True,
            **{**pipes, **options},
        )

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of tfm."""
        return ["taskset", "-c", ",".join(map(str, self._cpus)), TFM, *arguments]

    def tfm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run tfm to its end."""
        with self.start(*arguments) as process:
            output, errors = process.communicate(timeout=DEADLINE)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def processes(self) -> list[int]:
        """Return the pids of all processes of the account."""
        mark = f"{_MARK}={self.environment[_MARK]}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def stored(self) -> list[dict[str, Any]]:
        """Return the stored jobs."""
        return stored_jobs(self.outputs)

    def history(self) -> list[dict[str, Any]]:
        """Return the ended jobs."""
        return json.loads(self.tfm("history", "--json").stdout)["jobs"]

    def kill_controller(self) -> None:
        """Kill the controller, if there is one."""
        with suppress(OSError, ValueError):
            lock = self._runtime / "tf_malleable" / "controller.sock.lock"
            pid = int(lock.read_text())
            if pid in self.processes():
                os.kill(pid, signal.SIGKILL)

    def freeze(self) -> list[int]:
        """Stop all processes at once, as a power failure does; return their pids."""
        stopped: set[int] = set()
        calm = 0
        while calm < _CALM:
            new = set(self.processes()) - stopped
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= new
            calm = 0 if new else calm + 1
            time.sleep(_PAUSE_SECONDS)
        return sorted(stopped)

    def kill(self) -> None:
        """Kill all processes, none of which sees another's end."""
        frozen = self.freeze()
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # One that ends has no environment any more, but its sockets may still be open.
        wait_for(lambda: all(map(has_ended, frozen)))

    def terminate(self, patience: float) -> None:
        """Send SIGTERM to all processes, as before a reboot; kill those that are left then."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + patience
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        self.kill()

    def boot(self) -> None:
        """Empty the runtime folder, and have the processes be those of an earlier boot."""
        for each in self._runtime.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        state = self._state / "tf_malleable" / "controller.db"
        if not state.exists():
            return
        with suppress(sqlite3.OperationalError):  # The controller had not made the table.
            age(state)
