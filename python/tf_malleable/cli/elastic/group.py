# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group `tfm elastic`: runs, shows and resizes elastic trainings."""

from __future__ import annotations

import os
from typing import Any

import click

from tf_malleable.cli.elastic import shard_options, supervised, training_registry
from tf_malleable.cli.elastic.coordinator import coordinator, patience_option, server
from tf_malleable.cli.elastic.local import local
from tf_malleable.cli.launch import checkpoint_options
from tf_malleable.cli.launch.program import become, preload
from tf_malleable.cli.options import command_argument, json_option, print_json
from tf_malleable.elastic.settings import (
    CHECKPOINT_SECONDS,
    LEFT,
    SETTINGS,
    MeshSettings,
    address,
    secret,
)
from tf_malleable.elastic.variables import PLACE
from tf_malleable.model import OperationError
from tf_malleable.model.units import short

_name_option = click.option(
    "--name", metavar="NAME", help="Name of the training.  [default: the only one]"
)


@click.group()
def elastic() -> None:
    """Run trainings whose workers and servers join and leave.

    The result depends neither on their number nor on when they join. Start a training
    with tfm elastic local on this machine, or a coordinator and workers on several.
    """


elastic.add_command(local)
elastic.add_command(coordinator)
elastic.add_command(server)


@elastic.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--coordinator", "where", metavar="HOST:PORT", help="Of the training.  [default: train alone]"
)
@click.option(
    "--host",
    metavar="HOST",
    default="127.0.0.1",
    help="Name or address at which other processes reach this host.",
)
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    default=0,
    help="Port for connections of other processes; 0 for any free one.",
)
@click.option(
    "--reached-at",
    metavar="HOST:PORT",
    help="Address at which other processes reach this one, if it differs.",
)
@click.option(
    "--cpus", type=float, metavar="X", help="Number of CPUs to compute with.  [default: all]"
)
@patience_option
@click.option(
    "--shards",
    type=int,
    metavar="N",
    default=4,
    help="Number of shards of each batch, without a coordinator.",
)
@shard_options.options
@checkpoint_options.options
@supervised.option
@command_argument
def run(
    where: str | None,
    host: str,
    port: int,
    reached_at: str | None,
    cpus: float | None,
    patience: float,
    shards: int,
    seed: int | None,
    shard_threads: int | None,
    checkpoint: str | None,
    checkpoint_every: float | None,
    supervisor: int | None,
    command: tuple[str, ...],
) -> None:
    """Run an unchanged Keras script as one worker of an elastic training.

    For example: tfm elastic run --coordinator 10.0.0.1:7070 -- python train.py

    TF_MALLEABLE_ELASTIC_SECRET has the training's secret. On SIGTERM the worker hands over and
    exits. Without a coordinator it trains alone, with the same result.
    """
    shard_options.check_shards(shards)
    shard_options.check(seed, shard_threads)
    checkpoint_options.check(checkpoint, checkpoint_every)
    if checkpoint is not None and where is None:
        raise ValueError("--checkpoint is for a training with a coordinator: give --coordinator")
    if not 0 <= port < 65536:
        raise ValueError(f"--port must be from 0 to 65535, not {port}")
    if cpus is not None and not 0 < cpus <= 65536:
        raise ValueError(f"--cpus must be a positive number, not {cpus:g}")
    settings = MeshSettings(
        None if where is None else address(where),
        b"" if where is None else secret(),
        host=host,
        port=port,
        reached_at=None if reached_at is None else address(reached_at),
        cpus=cpus,
        place=os.environ.get(PLACE, ""),
        patience_seconds=patience,
        shards=shards,
        seed=seed,
        threads=shard_threads,
        checkpoint=checkpoint or "",
        checkpoint_seconds=checkpoint_every or CHECKPOINT_SECONDS,
        left_code=LEFT if supervisor is not None else 0,
    )
    if supervisor is not None:
        supervised.begin(supervisor)
    os.environ[SETTINGS] = checkpoint_options.with_checkpoint(settings).encode()
    preload()
    become(command)


@elastic.command("set")
@click.argument("workers", required=False)
@click.option("--servers", type=int, metavar="N", help="Number of servers.")
@_name_option
def set_numbers(workers: str | None, servers: int | None, name: str | None) -> None:
    """Change how many WORKERS a training of tfm elastic local has.

    WORKERS is a number, or auto to let the cores decide again that a controller grants.
    """
    if workers is None and servers is None:
        raise ValueError("give WORKERS, --servers, or both")
    message: dict[str, Any] = {"kind": "set", "servers": servers}
    if workers == "auto":
        message["auto"] = True
    elif workers is not None:
        if not workers.isascii() or not workers.isdigit():
            raise ValueError(f"WORKERS must be a number or auto, not {workers!r}")
        message["workers"] = int(workers)
    problem = training_registry.ask(training_registry.read(name), message).get("problem")
    if problem:
        raise OperationError(str(problem))


@elastic.command("status")
@_name_option
@click.option(
    "--coordinator", "where", metavar="HOST:PORT", help="Of a training that is not on this host."
)
@json_option
def show_status(name: str | None, where: str | None, as_json: bool) -> None:
    """Show the processes of a training, and how long its rescales took.

    With --coordinator, TF_MALLEABLE_ELASTIC_SECRET has the training's secret.
    """
    if where is None:
        whom = training_registry.read(name)
    elif name is not None:
        raise ValueError("--name is for a training of this host: give it or --coordinator")
    else:
        whom = training_registry.Whereabouts(address(where), secret())
    found = training_registry.ask(whom, {"kind": "status"})
    del found["kind"]
    if as_json:
        print_json(found)
    else:
        _print(found)


def _summary(found: dict[str, Any]) -> str:
    total, rate = found["steps_total"], found["steps_per_second"]
    of = f" of {total}" if total else ""
    words = [f"generation {found['generation']}", f"step {found['steps_done']}{of}"]
    words += [f"{rate:.1f} steps/s"] if rate is not None else []
    return ", ".join([*words, f"{found['shards']} shards"])


def _print(found: dict[str, Any]) -> None:
    from tf_malleable.cli.tables import console, table

    output = console()
    output.print(_summary(found))
    rows = [
        (
            each["place"],
            each["role"],
            "leaving" if each["leaving"] else each["state"],
            f"{each['cpus']:g}",
            str(each["shards"]),
            "-" if each["shards_per_second"] is None else f"{each['shards_per_second']:.1f}",
        )
        for each in found["processes"]
    ]
    columns = ("process", "role", "state", ">CPUs", ">shards", ">shards/s")
    output.print(table(columns, rows))
    if found["rescales"]:
        output.print()
        output.print(
            table(
                ("generation", "reason", "workers", "servers", ">pause"),
                [
                    (
                        str(each["number"]),
                        each["reason"],
                        f"{each['workers_from']} → {each['workers_to']}",
                        f"{each['servers_from']} → {each['servers_to']}",
                        short(each["pause_seconds"]),
                    )
                    for each in found["rescales"]
                ],
            )
        )
