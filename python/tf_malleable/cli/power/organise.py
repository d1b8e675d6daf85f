# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Commands tfm power organise and acl: budgets for many hosts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tf_malleable.api.schema.job_names import is_area
from tf_malleable.model import Budget, OperationError
from tf_malleable.workload.options import Duration

if TYPE_CHECKING:
    from tf_malleable.power.units.organiser import Organiser

_PATH = click.Path(dir_okay=False, path_type=Path)
_EVERY_SECONDS = 2.0


@click.command()
@click.argument("area")
@click.argument("watts", type=float)
@click.option(
    "--broker", type=_PATH, metavar="FILE", required=True, help="File that describes the broker."
)
@click.option(
    "--mean", type=Duration(), metavar="WINDOW", help="Limit the mean over any time of this length."
)
@click.option(
    "--until",
    type=Duration(),
    metavar="TIME",
    help="Time for which the budgets are in force.  [default: always]",
)
def organise(
    area: str, watts: float, broker: Path, mean: float | None, until: float | None
) -> None:
    """Share a budget of WATTS among all hosts in AREA until Ctrl-C.

    Every host first gets its idle power; the rest goes to the hosts that do most work with it.
    For a host whose controller is dead, its full power is set aside, as its jobs go on. But
    each other host gets half of an equal share at least, whatever a host says of its power.
    The budgets stay in force after Ctrl-C.
    """
    if not is_area(area):
        raise ValueError(f"AREA must be names with slashes between them, not {area!r}")
    budget = Budget(
        watts,
        "peak" if mean is None else "mean",
        mean,
        None if until is None else time.time() + until,
    )
    try:
        import aiomqtt

        from tf_malleable.power.units.broker import read_broker
        from tf_malleable.power.units.organiser import Organiser
    except ImportError:
        raise OperationError("aiomqtt is not installed: pip install aiomqtt") from None
    described = read_broker(broker)

    async def run() -> None:
        organiser = Organiser(described, area, budget)
        running = asyncio.create_task(organiser.run())
        said = ""
        while not running.done():
            await asyncio.wait([running], timeout=_EVERY_SECONDS)
            if (summary := _summary(organiser)) != said:
                click.echo(said := summary)
        await running

    try:
        asyncio.run(run())
    except (aiomqtt.MqttError, OSError) as error:
        where = f"{described.host}:{described.port}"
        raise OperationError(f"the broker at {where} does not answer: {error}") from None


def _summary(organiser: Organiser) -> str:
    units = organiser.units.values()
    alive = [unit for unit in units if unit.is_alive]
    given = sum(unit.budget.watts for unit in alive if unit.budget is not None)
    acks = [unit.acknowledged for unit in alive if unit.acknowledged is not None]
    refused = sum(not ack.accepted for ack in acks)
    return (
        f"{len(alive)} hosts have {given:.0f} W: {len(acks) - refused} keep to it, {refused} refuse"
        f" it; {len(organiser.units) - len(alive)} are dead"
    )


@click.command()
@click.argument("units", nargs=-1, metavar="AREA/UNIT...")
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="USER:AREA",
    help="User who may give budgets to all hosts in AREA; can be repeated.",
)
def acl(units: tuple[str, ...], operators: tuple[str, ...]) -> None:
    """Print mosquitto's access rules for these units.

    The user name of a unit is AREA/UNIT. A unit may publish its own
    values only; an operator may publish budgets in an area.
    """
    from tf_malleable.power.units.topics import UnitName
    from tf_malleable.power.units.topics import acl as rules

    names = []
    for unit in units:
        area, slash, name = unit.rpartition("/")
        if not slash:
            raise ValueError(f"a unit is AREA/UNIT, not {unit!r}")
        names.append(UnitName(area, name))
    areas: dict[str, list[str]] = {}
    for operator in operators:
        user, colon, area = operator.rpartition(":")
        if not colon or not user or not is_area(area):
            raise ValueError(f"--operator must be USER:AREA, not {operator!r}")
        areas.setdefault(user, []).append(area)
    click.echo(rules(names, areas), nl=False)
