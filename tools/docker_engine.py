#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Run COMMAND with a Docker engine: the running one, or else a private one.

A private engine is started for COMMAND and removed afterwards without a trace. COMMAND gets
the engine's address in DOCKER_HOST. If there is no engine and none can be started, it runs
anyway, with the reason in TF_MALLEABLE_NO_ENGINE.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from dockerd import BY_HAND, PACKAGE, DockerEngine, EngineError, answers, block_no_signals

NO_ENGINE = "TF_MALLEABLE_NO_ENGINE"
DEFAULT_HOST = "unix:///var/run/docker.sock"
APT_GET = Path(__file__).with_name("apt_get.sh")
INSTALL = ("install", "-q", "-y", "--no-install-recommends", PACKAGE)
FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@contextmanager
def running_engine(*, install: bool = False) -> Iterator[str]:
    """Give the host of an engine: one that answers, else a private one for the while.

    It is DOCKER_HOST that is asked, or the default socket if this is unset.

    Raises:
        EngineError: There is none, and none can be started.
    """
    host = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    if not answers(host) and install and shutil.which("dockerd") is None:
        _install()
    # The package may have started one.
    if answers(host):
        yield host
        return
    folder = Path(tempfile.mkdtemp(prefix="tf_malleable-engine-"))
    try:
        engine = DockerEngine(folder)
    except EngineError:
        folder.rmdir()
        raise
    with engine:
        yield engine.host


def _install() -> None:
    """Install Debian's package.

    Raises:
        EngineError: It cannot be installed.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineError(f"dockerd is missing: {BY_HAND}")
    for arguments in (("update", "-q"), INSTALL):
        done = subprocess.run(
            [APT_GET, *arguments],
            stdin=subprocess.DEVNULL,
            # stdout is for the output of COMMAND.
            stdout=sys.stderr,
            check=False,
            preexec_fn=block_no_signals,
        )
        if done.returncode != 0:
            raise EngineError(f"dockerd is missing, and `apt-get {' '.join(arguments)}` failed")


def _run(command: Sequence[str], **environment: str) -> int:
    """Run a command, forward signals to it, and return its exit code as a shell does."""
    if early := signal.sigpending() & FORWARDED:
        return 128 + min(early)
    kept = {name: value for name, value in os.environ.items() if name != NO_ENGINE}
    try:
        process = subprocess.Popen(
            command, env={**kept, **environment}, preexec_fn=block_no_signals
        )
    except OSError as error:
        print(f"docker_engine: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    while (code := process.poll()) is None:
        received = signal.sigwaitinfo({*FORWARDED, signal.SIGCHLD})
        # Signals from the terminal reach the command anyway, as it is in our process group.
        if received.si_signo != signal.SIGCHLD and received.si_code <= 0:
            process.send_signal(received.si_signo)
    return code if code >= 0 else 128 - code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Run the command line."""
    parser = _Parser(description=__doc__, usage="%(prog)s [-h] [--install] -- COMMAND …")
    parser.add_argument(
        "--install",
        action="store_true",
        help=f"install Debian's package {PACKAGE} if dockerd is missing, as root",
    )
    own, command = sys.argv[1:], []
    if "--" in own:
        split = own.index("--")
        own, command = own[:split], own[split + 1 :]
    arguments = parser.parse_args(own)
    if not command:
        parser.error("give a command after --")
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    code = None
    try:
        with running_engine(install=arguments.install) as host:
            code = _run(command, DOCKER_HOST=host)
    except EngineError as error:
        print(f"docker_engine: {error}", file=sys.stderr)
        if code is None:
            return _run(command, **{NO_ENGINE: str(error)})
        return code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
