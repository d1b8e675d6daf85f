# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm service: the controller as a systemd service, of one user or of the machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import click

from tf_malleable.api.transport.address import ROOT_SOCKET, standard_socket
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.launch.controller_start import UNIT, unit_file
from tf_malleable.cli.options import json_option, print_json
from tf_malleable.cli.services.controller import controller
from tf_malleable.cli.services.unit_text import is_ours, unit_text
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.linux.trusted_folder import TrustedFolder, open_trusted
from tf_malleable.model import OperationError

_Command = TypeVar("_Command", bound=Callable[..., object])

_END_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


def _whose_option(command: _Command) -> _Command:
    return click.option(
        "--system/--user",
        default=lambda: os.geteuid() == 0,
        help="The machine's service, or your own.  [default: for root --system]",
    )(command)


@click.group()
def service() -> None:
    """Keep a controller running as a systemd service."""


@service.command(context_settings={"ignore_unknown_options": True})
@_whose_option
@click.option("--print", "is_print", is_flag=True, help="Only print the unit.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def install(system: bool, is_print: bool, options: tuple[str, ...]) -> None:
    """Write the unit, enable it and start it; again with other OPTIONS, change it.

    For example: tfm service install -- --group tfm --cpus 2-15

    OPTIONS are those of tfm controller. A controller that runs in the background at the same
    socket is ended; its jobs go on, and the service takes them over.
    """
    _check(options)
    text = unit_text(system, _program(), options)
    if is_print:
        click.echo(text, nl=False)
        return
    _check_systemd(system)
    path = unit_file(system)
    if system:
        _check_trusted()
    if path.exists() and not is_ours(path.read_text(errors="replace")):
        raise OperationError(
            f"{path} was not written by tfm service install: remove it first, or keep it and change"
            f" it with systemctl edit {UNIT}"
        )
    _write(path, text)
    _systemctl(system, "daemon-reload")
    _end_detached(system)
    _systemctl(system, "enable", UNIT)
    _systemctl(system, "restart", UNIT)
    click.echo(f"{path} is enabled and runs; tfm status shows it")
    if not system:
        click.echo("to keep it running while you are not logged in: loginctl enable-linger")


@service.command()
@_whose_option
def uninstall(system: bool) -> None:
    """Stop the service and remove its unit; jobs go on without it."""
    path = unit_file(system)
    if not path.exists():
        raise OperationError(f"there is no service: {path} does not exist")
    _check_systemd(system)
    _systemctl(system, "disable", "--now", UNIT)
    try:
        path.unlink()
    except OSError as error:
        raise OperationError(f"cannot remove {path}: {error.strerror}") from None
    _systemctl(system, "daemon-reload")
    click.echo(f"{path} is removed")


@service.command("status")
@_whose_option
@json_option
def service_status(system: bool, as_json: bool) -> None:
    """Show whether the service is installed, enabled and running."""
    path = unit_file(system)
    is_installed = path.exists()
    said = {"unit": str(path), "installed": is_installed, "enabled": None, "active": None}
    if is_installed:
        _check_systemd(system)
        said["enabled"] = _state(system, "is-enabled")
        said["active"] = _state(system, "is-active")
    if as_json:
        print_json(said)
    elif is_installed:
        click.echo(f"{path}: {said['enabled']}, {said['active']}; tfm status shows what answers")
    else:
        click.echo(f"{path} does not exist: tfm service install writes it")


def _check(options: tuple[str, ...]) -> None:
    """Refuse options that the controller would refuse only when systemd starts it.

    Raises:
        click.UsageError, ValueError: There is no such option, or it is not for a service.
    """
    context = controller.make_context("tfm controller", list(options))
    if context.params["detach"] or context.params["idle_end"] is not None:
        raise ValueError("a service runs until it is stopped: leave --detach and --idle-end out")


def _program() -> tuple[str, ...]:
    """Return the command that runs tfm as it runs now, in the same virtual environment."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "tfm" and os.access(program, os.X_OK):
        return (program,)
    return (sys.executable, str(Path(__file__).parents[3] / "tf_malleable_cli"))


def _check_trusted() -> None:
    """Refuse a program of root's service that another user can change.

    Raises:
        OperationError: Another user can change it.
    """
    for path in (*_program(), sys.executable, __file__):
        try:
            if os.path.isdir(path):
                TrustedFolder(path).close()
            else:
                os.close(open_trusted(path, os.O_RDONLY))
        except OSError as error:
            raise OperationError(
                f"the machine's service runs as root, and others could change what it runs:"
                f" {error.strerror}; install tf_malleable where only root may write, such as /opt"
            ) from None


def _check_systemd(system: bool) -> None:
    """Raise OperationError unless systemd answers."""
    done = _call(system, "show", "--property=Version")
    if done is None or done.returncode:
        whose = "systemd" if system else "systemd of this user"
        reason = "systemctl is missing" if done is None else " ".join(done.stderr.split())
        raise OperationError(
            f"no {whose} answers here ({reason}): tfm service install --print prints the unit, and"
            " tfm controller --detach runs a controller without it"
        )


def _systemctl(system: bool, *arguments: str) -> None:
    done = _call(system, *arguments)
    if done is None or done.returncode:
        reason = "it is missing" if done is None else " ".join(done.stderr.split())
        raise OperationError(f"systemctl {' '.join(arguments)} failed: {reason}")


def _state(system: bool, question: str) -> str:
    done = _call(system, question, UNIT)
    return "unknown" if done is None else done.stdout.strip() or "unknown"


def _call(system: bool, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Return what systemctl says; None if there is none."""
    manager = "--system" if system else "--user"
    try:
        return subprocess.run(
            ["systemctl", manager, *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Write a unit in one step: systemd may read it at any time."""
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text)
        beside.replace(path)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def _end_detached(system: bool) -> None:
    """End a controller in the background whose socket or CPUs the service needs."""
    for path in {standard_socket(), *([Path(ROOT_SOCKET)] if system else [])}:
        client = Client(path)
        with suppress(OSError, OperationError):
            pid = _own_listener(path)
            if pid is None or client.info().log is None:
                continue
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + _END_SECONDS
            while time.monotonic() < end:
                client.info()
                time.sleep(_POLL_SECONDS)


def _own_listener(path: Path) -> int | None:
    """Return the pid of who listens at a socket, by the kernel's word; None if it is not ours.

    Raises:
        OSError: Nobody listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        peer = peer_of(connection)
    return peer.pid if peer.uid == os.geteuid() and peer.pid > 0 else None
