# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm status: says which controller answers, since when, and what it shares out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import click
import msgspec

from tf_malleable.api.schema.messages import ControllerInfo
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model import format_cpuset
from tf_malleable.model.units import duration, printable


@click.command()
@json_option
@socket_option
def status(client: Client, as_json: bool) -> None:
    """Show which controller answers, since when, its policy and its CPUs.

    Fails if none answers. The first tfm submit starts one; tfm service keeps one.
    """
    info, jobs = client.info(), len(client.jobs())
    if as_json:
        said = msgspec.to_builtins(info)
        print_json({"socket": str(client.socket), **said, "jobs": jobs})
        return
    for name, value in _lines(client, info, jobs):
        click.echo(f"{name:<12}{printable(value)}")


def _lines(client: Client, info: ControllerInfo, jobs: int) -> Iterator[tuple[str, str]]:
    who = f" of {info.user}" if info.user else ""
    yield "controller", f"pid {info.pid}{who}, version {info.version}"
    yield "socket", str(client.socket)
    began = datetime.fromtimestamp(info.started).strftime("%b %d %H:%M:%S")
    yield "since", f"{began} ({duration(max(0.0, time.time() - info.started))})"
    yield "policy", info.policy
    cpus = frozenset(cpu.id for cpu in info.cpus)
    yield "CPUs", f"{format_cpuset(cpus)} ({len(cpus)})"
    if info.gpus:
        yield "GPUs", ",".join(map(str, info.gpus))
    if info.cpu_weights:
        yield "CPU weights", info.cpu_weights
    yield "jobs", str(jobs)
    if info.log is not None:
        yield "log", info.log
    if info.idle_end is not None:
        yield "ends", f"after {duration(info.idle_end)} without jobs and requests"
    if info.problem is not None:
        yield "problem", info.problem
