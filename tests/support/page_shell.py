# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A reader's shell, which types the commands of a page in a home folder of its own."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.deadline import DEADLINE

_END = "end-of-command-7f3a"
# So that no program finds what the person that runs the tests has.
_FORGOTTEN = ("TF_MALLEABLE_", "XDG_", "PYTEST_", "DBUS_", "PIP_")


class Shell:
    """A bash without a terminal, its output and errors in one pipe."""

    def __init__(self, folder: Path) -> None:
        """Start it.

        Args:
            folder: The home folder and the present one; what runs there is killed at the end.
        """
        self.folder = folder
        self._mark = f"HOME={folder}"
        run = folder / "run"
        run.mkdir(mode=0o700)
        site = folder / ".site"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(_FORGOTTEN)
        }
        path = os.pathsep.join((str(Path(sys.executable).parent), kept["PATH"]))
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env={
                **kept,
                "HOME": str(folder),
                "PATH": path,
                "PYTHONPATH": os.pathsep.join(filter(None, (str(site), kept.get("PYTHONPATH")))),
                # Those of root are others than a home folder's.
                "XDG_RUNTIME_DIR": str(run),
                "TF_MALLEABLE_TIER_SOCKET": str(run / "tier.sock"),
                "XDG_STATE_HOME": str(folder / ".local" / "state"),
                # Controllers of tests that run in parallel share out the same CPUs.
                "TF_MALLEABLE_CLAIMS": "",
                # `pip install .` installs for this page only, and without a network.
                "PIP_TARGET": str(site),
                "PIP_NO_BUILD_ISOLATION": "0",
                "PIP_NO_DEPS": "1",
                "PIP_ROOT_USER_ACTION": "ignore",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ)
        # A program in the background has its own process group, and gets Ctrl-C by itself.
        self._type("set -m")

    def run(self, command: str, typed: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run a command to its end; return its exit code, and what was printed meanwhile."""
        if typed:
            command = "\n".join((f"{command} -i -q <<'{_END}'", *typed, "", _END))
        self._type(f"{command}\nprintf '\\n%s %d\\n' {_END} $?")
        return self._until_end()

    def run_interrupted(self, command: str, enough: Callable[[str], bool]) -> tuple[int, str]:
        """Run a command until it has printed enough, then press Ctrl-C."""
        # A comment may end the line.
        self._type(f"{{ {command}\n}} &\nprintf '\\npid %d\\n' $!")
        printed = self._read(lambda text: "\npid " in text and enough(text))
        pid = int(printed.partition("\npid ")[2].split()[0])
        os.killpg(pid, signal.SIGINT)
        self._type(f"wait {pid}; printf '\\n%s %d\\n' {_END} $?")
        code, more = self._until_end()
        return code, printed + more

    def close(self) -> None:
        """Kill the shell, and all that was started in its home folder."""
        self.process.kill()
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._started():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            until = time.monotonic() + 10
            while self._started() and time.monotonic() < until:
                time.sleep(0.05)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(DEADLINE)
        self._selector.close()

    def _started(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def _type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def _until_end(self) -> tuple[int, str]:
        text = self._read(lambda text: f"\n{_END} " in text and text.endswith("\n"))
        printed, _, code = text.rpartition(f"\n{_END} ")
        return int(code.split()[0]), printed

    def _read(self, enough: Callable[[str], bool]) -> str:
        """Read until it is enough.

        Raises:
            AssertionError: It is not, after a time in which a loaded machine does anything here.
        """
        assert self.process.stdout is not None
        data = b""
        until = time.monotonic() + 3 * DEADLINE
        while not enough(text := data.decode(errors="replace")):
            left = until - time.monotonic()
            assert left > 0, f"goes on after {3 * DEADLINE:.0f} s:\n{text}"
            if self._selector.select(left):
                piece = self.process.stdout.read()
                assert piece != b"", f"the shell has ended:\n{text}"
                data += piece or b""
        return text
