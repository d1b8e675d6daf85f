# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command as a process, and jobs that wait in a controller's queue."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.controllers import start_tfm
from tests.support.deadline import DEADLINE

# The only one that a test's controller shares out.
CPU = min(os.sched_getaffinity(0))


def tfm(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run tfm to its end."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start_tfm(*arguments, **{**pipes, "text": True, **options})
    try:
        output, errors = process.communicate(timeout=120)
    except BaseException:
        process.kill()
        process.communicate(timeout=DEADLINE)
        raise
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def submitted(*arguments: str, **options) -> str:
    """Return the id of a job that runs in the background."""
    result = tfm("submit", *arguments, **options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


@contextmanager
def started(*arguments: str, **options) -> Iterator[subprocess.Popen[str]]:
    """Have tfm running for the length of a with statement."""
    process = start_tfm(
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Have a job that computes nothing, started by tfm run, for the length of a with."""
    with started("run", *options, "--", "sh", "-c", "echo started; exec sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Have something listen at a path that is no controller, for the length of a with."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(DEADLINE)
        yield server


def answer(server: socket.socket, data: bytes) -> None:
    """Answer one HTTP request with these bytes, and hang up."""
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as request:
        length = 0
        while line := request.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        request.read(length)
        connection.sendall(data)
