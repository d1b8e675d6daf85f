# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Automatic start of a user's own controller, so that nobody has to keep one.

It is started only where this user's own is looked for by default, and nobody else keeps it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tf_malleable.api.schema import requirement
from tf_malleable.api.schema.join import JOIN
from tf_malleable.api.transport.address import SOCKET, NoAnswerError, standard_socket
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.messages import say
from tf_malleable.cli.settings_sources import user_file
from tf_malleable.model import OperationError

UNIT: Final = "tf_malleable.service"
# Its folder is the first one that Python searches, rather than the present one.
_TFM: Final = (sys.executable, str(Path(__file__).parents[3] / "tf_malleable_cli"))


def start_controller(socket: str) -> None:
    """Start a controller in the background if nobody listens at a socket.

    Does nothing where that is not for tfm to decide: at another path than the standard one, inside
    a job, in a folder that is mounted from elsewhere, as into a container, and where the site
    requires a controller, which then is its own.

    Args:
        socket: Path of the socket.

    Raises:
        OperationError: The controller cannot be started, or is a service.
    """
    try:
        Client(Path(socket)).info()
        return
    except NoAnswerError as error:
        if not error.is_nobody or not _is_ours_to_start(socket):
            return
        problem = error.problem
    except OperationError:
        return  # There is one.
    for is_system, command in ((True, "systemctl start"), (False, "systemctl --user start")):
        if (unit := unit_file(is_system)).exists():
            raise OperationError(f"{problem}, and {unit} keeps one: {command} {UNIT}")
    done = subprocess.run(
        [*_TFM, "controller", "--detach", "--socket", socket],
        cwd="/",  # No file system is kept in use.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [
        line.removeprefix("tfm controller: ").removeprefix("tfm: ")
        for line in done.stderr.splitlines()
    ]
    if done.returncode:
        why = lines[-1] if lines else f"it ended with exit code {done.returncode}"
        raise OperationError(f"{problem}, and none can be started: {why}")
    for line in lines:
        say(line)


def unit_file(system: bool) -> Path:
    """Return where the systemd unit of a controller is.

    Args:
        system: True for the machine's, False for the user's own.
    """
    if system:
        return Path("/etc/systemd/system", UNIT)
    return Path(user_file()).parents[1] / "systemd" / "user" / UNIT


def _is_ours_to_start(socket: str) -> bool:
    return (
        not os.environ.get(SOCKET)
        and not os.environ.get(JOIN)
        and socket == str(standard_socket())
        and not os.path.ismount(os.path.dirname(socket))
        and not os.path.lexists(requirement.SITE_FILE)
    )
