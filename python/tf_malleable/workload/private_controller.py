# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A private controller, on a socket unknown to others: for demos and benchmarks."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.api.transport.client import Client
from tf_malleable.model import OperationError
from tf_malleable.workload.runner import TFM

_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True)
class PrivateController:
    """A running controller.

    Attributes:
        client: Client that sends it requests.
        pid: Process id of the controller.
    """

    client: Client
    pid: int


@contextmanager
def private_controller(
    *options: str, log: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[PrivateController]:
    """Run a controller for the length of the with statement.

    Args:
        options: Arguments of `tfm controller`. Without --state its state file is a new
            one, removed with it.
        log: File for its output; by default the output is kept only until it ends.
        environment: Environment of the controller; None for that of this process.

    Raises:
        OperationError: The controller does not start.
    """
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        log = log or Path(folder, "log")
        socket = Path(folder, "controller.sock")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*TFM, "controller", f"--socket={socket}", f"--state={folder}/state", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                # Ctrl-C is for this process: the controller must first record the ends of its jobs.
                start_new_session=True,
            )
        started = PrivateController(Client(socket), process.pid)
        try:
            _wait_until_up(started.client, process, log)
            yield started
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_up(client: Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            client.info()
        except OperationError:
            time.sleep(_POLL_SECONDS)
        else:
            return
    lines = log.read_text(errors="replace").strip().splitlines()
    raise OperationError(
        f"the controller did not start: {lines[-1] if lines else 'it printed nothing'}"
    )
