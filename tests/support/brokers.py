# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A real MQTT broker, Debian's mosquitto, that is stopped with the test."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.deadline import DEADLINE

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")


class Mosquitto:
    """A broker on a port of its own, which stays the same if it is started again.

    Args:
        folder: For its files.
        passwords: By user name; None lets everybody in.
        acl: Who may read and write what.
    """

    def __init__(
        self, folder: Path, passwords: Mapping[str, str] | None = None, acl: str | None = None
    ) -> None:
        assert MOSQUITTO is not None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        lines = [
            f"listener {self.port} 127.0.0.1",
            "persistence true",
            f"persistence_location {folder}/",
            f"allow_anonymous {str(passwords is None).lower()}",
            "max_queued_messages 0",
            "autosave_on_changes true",
            "autosave_interval 1",
            "user root",
        ]
        if passwords is not None:
            lines.append(f"password_file {folder}/passwords")
            (folder / "passwords").touch(0o600)
            for user, password in passwords.items():
                subprocess.run(
                    ["mosquitto_passwd", "-b", str(folder / "passwords"), user, password],
                    check=True,
                    capture_output=True,
                )
        if acl is not None:
            (folder / "acl").write_text(acl)
            (folder / "acl").chmod(0o600)
            lines.append(f"acl_file {folder}/acl")
        self._config = folder / "mosquitto.conf"
        self._config.write_text("\n".join(lines) + "\n")
        self._log = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it; returns once it accepts connections."""
        assert MOSQUITTO is not None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [MOSQUITTO, "-c", str(self._config)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + DEADLINE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert time.monotonic() < deadline, self._log.read_text()
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid
