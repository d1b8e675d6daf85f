# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm container run: a container as a job, with its output and exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from tf_malleable.api.schema.job_names import default_name, printable_name
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.cli.launch.queue import QueueNotices
from tf_malleable.cli.messages import say
from tf_malleable.cli.options import socket_path_option
from tf_malleable.workload.options import job_options


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--image",
    required=True,
    metavar="IMAGE",
    help="Image of the container, which is pulled if it is missing.",
)
@job_options
@click.option(
    "--resize",
    type=click.Choice(["cpuset", "quota"]),
    default="cpuset",
    show_default=True,
    help="Resize the container by the CPUs it may use, or by its CPU time.",
)
@click.option(
    "--slo", metavar="OBJECTIVE", help="Objective of a service, such as p99=50ms; see tfm run."
)
@click.option("--name", metavar="NAME", help="Name of the container.")
@click.option(
    "--job",
    metavar="NAME",
    help="Name of the job, by which speeds are learned.  [default: --name, or the program]",
)
@click.option("-d", "--detach", is_flag=True, help="Print the container's id and exit at once.")
@click.option("--rm", "remove", is_flag=True, help="Remove the container when it has ended.")
@click.option("-v", "--volume", "volumes", multiple=True, metavar="HOST:CONTAINER[:ro]")
@click.option("-e", "--env", "env", multiple=True, metavar="NAME[=VALUE]")
@click.option("--env-file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("-w", "--workdir", metavar="FOLDER", help="Working directory in the container.")
@click.option("-u", "--user", metavar="USER[:GROUP]")
@click.option("--entrypoint", metavar="PROGRAM", help="Entry point instead of the image's.")
@click.option("-l", "--label", "label", multiple=True, metavar="NAME[=VALUE]")
@click.option("-m", "--memory", metavar="SIZE", help="Memory limit, such as 512m or 4g.")
@click.option("--shm-size", metavar="SIZE", help="Size of /dev/shm.")
@click.option("--network", metavar="NAME")
@click.option("--ipc", metavar="MODE")
@click.option("-p", "--publish", "ports", multiple=True, metavar="[HOST:]PORT")
@click.option("--gpus", metavar="N|all")
@click.option("--read-only", is_flag=True, help="Mount the container's root file system read-only.")
@click.option("--tmpfs", multiple=True, metavar="FOLDER")
@click.option(
    "--init/--no-init",
    default=True,
    help="Run an init in the container, so that SIGTERM ends a program without a handler, and"
    " orphans are reaped.  [default: --init]",
)
@socket_path_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    image: str,
    asked: dict[str, Any],
    slo: str | None,
    resize: str,
    name: str | None,
    job: str | None,
    detach: bool,
    remove: bool,
    volumes: tuple[str, ...],
    env: tuple[str, ...],
    env_file: Path | None,
    label: tuple[str, ...],
    gpus: str | None,
    ports: tuple[str, ...],
    tmpfs: tuple[str, ...],
    socket: Path,
    command: tuple[str, ...],
    **others: Any,  # noqa: ANN401 - the engine's own
) -> NoReturn:
    """Run a container as a job.

    For example: tfm container run --image my/training --max 4 -- python train.py

    The controller starts it when it is granted cores. Without a controller it starts at
    once. In both cases its TensorFlow follows the container's CPUs, whatever changes them.

    Signals to tfm are forwarded to its first process. tfm exits with its exit code. If it was
    not run: 125 if the engine could not run it, 1 if the controller refused it, and 2 for bad
    input. Options from --volume to --init are as in docker run, but there is an init by default.
    """
    try:
        from tf_malleable.containers.container_creation import Recipe, host_path
        from tf_malleable.containers.foreground import Cancelled, ContainerJob
        from tf_malleable.containers.labels import Labels
    except ImportError as error:
        raise ValueError(
            f"tfm container needs Docker's SDK: pip install docker ({error.name} is missing)"
        ) from None
    called = job or name or (default_name(command) if command else image)
    options = {_SDK_NAMES[key]: value for key, value in others.items() if value}
    options["tmpfs"] = dict.fromkeys(tmpfs, "")
    if asked["mem"] is not None:
        options.setdefault("mem_limit", asked["mem"])
    if gpus is not None:
        options["device_requests"] = [_gpus(gpus)]
    recipe = Recipe(
        image=image,
        command=command,
        labels=Labels(
            request=JobRequest(name=printable_name(called), slo=slo, **asked),
            socket=os.path.abspath(socket),
            user=os.getuid(),
            resize="quota" if resize == "quota" else "cpuset",
        ),
        user_labels=dict(_pair(each) for each in label),
        environment=[*_from_file(env_file), *_environment(env)],
        volumes=[host_path(each) for each in volumes],
        options={
            **options,
            "name": name,
            "auto_remove": remove,
            "ports": dict(_port(each) for each in ports),
        },
    )
    try:
        _leave(
            ContainerJob(recipe, removed=remove, notices=QueueNotices(), say=say).run(detach=detach)
        )
    except Cancelled:
        raise click.Abort from None


def _leave(code: int) -> NoReturn:
    """Exit without Python's clean-up.

    With the SDK's hundreds of modules, clean-up takes as long as the engine takes to remove
    a container, and would delay the next command of a script.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


_SDK_NAMES = {
    "workdir": "working_dir",
    "user": "user",
    "entrypoint": "entrypoint",
    "memory": "mem_limit",
    "shm_size": "shm_size",
    "network": "network",
    "ipc": "ipc_mode",
    "read_only": "read_only",
    "init": "init",
}
"""Names in Docker's SDK of the options that are passed on unchanged."""


def _environment(variables: Iterable[str], said_by: str = "--env") -> list[str]:
    """Return variables with their values; a bare name gets its value from the environment."""
    said = []
    for variable in variables:
        name, equals, _ = variable.partition("=")
        if not name:
            raise ValueError(f"{said_by} must be NAME=VALUE or NAME, not {variable!r}")
        if equals:
            said.append(variable)
        elif name in os.environ:
            said.append(f"{name}={os.environ[name]}")
    return said


def _from_file(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ValueError(f"--env-file: cannot read {file}: {reason}") from None
    variables = (line for line in map(str.strip, lines) if line and not line.startswith("#"))
    return _environment(variables, f"--env-file: each line of {file}")


def _pair(label: str) -> tuple[str, str]:
    name, _, value = label.partition("=")
    if not name or name.startswith("tf_malleable."):
        raise ValueError(
            "--label must be NAME or NAME=VALUE, and NAME must not start with tf_malleable.,"
            f" not {label!r}"
        )
    return name, value


def _port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    number = port.partition("/")[0]
    if not number.isdigit() or (colon and not host.isdigit()):
        raise ValueError(f"--publish must be PORT or HOST:PORT, not {text!r}")
    return port, int(host) if colon else None


def _gpus(text: str) -> Any:  # noqa: ANN401 - the SDK's own type
    from docker.types import DeviceRequest

    if text != "all" and not (text.isascii() and text.isdigit()):
        raise ValueError(f"--gpus must be all or a number, not {text!r}")
    return DeviceRequest(count=-1 if text == "all" else int(text), capabilities=[["gpu"]])
