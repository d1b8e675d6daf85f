# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm power calibrate: measures the power of this host at a few loads."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tf_malleable.cli.power.curve import default_curve
from tf_malleable.cli.tables import console, table
from tf_malleable.model import OperationError, PowerCurve
from tf_malleable.workload.options import Duration

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--points",
    metavar="LIST",
    help="Measure nothing, but take these pairs of load and watts, such as 0:58,0.5:140,1:222: from"
    " a meter at the socket, or from a published measurement of such a host.",
)
@click.option(
    "--steps",
    type=click.IntRange(2, 21),
    metavar="N",
    default=5,
    help="Number of loads.  [default: 5]",
)
@click.option(
    "--each",
    type=Duration(),
    metavar="TIME",
    default="10s",
    help="Time for each load.  [default: 10s]",
)
@click.option("--meter", metavar="KIND", default="auto", help="Meter, as of tfm controller.")
@click.option("--power-curve", type=_PATH, metavar="FILE", help="File to write the curve to.")
def calibrate(
    points: str | None, steps: int, each: float, meter: str, power_curve: Path | None
) -> None:
    """Fit this host's power curve, from idle to full load, and save it for tfm controller.

    Loads all CPUs in steps, for a minute in all, so nothing else should run. Without a meter
    give --points.
    """
    from tf_malleable.power.curve_file import write_curve
    from tf_malleable.power.meter_selection import find_meters
    from tf_malleable.power.power_calibration import loads, measure
    from tf_malleable.scheduling.energy.calibration import fit

    path = power_curve or default_curve()
    if points is not None:
        write_curve(path, curve := fit(_pairs(points)), "")
        _show(curve, path)
        return
    meters, problem = find_meters(meter)
    if not meters:
        raise OperationError(f"{problem or 'there is no meter'}: give --points")
    click.echo(f"loading {os.cpu_count()} CPUs in {steps} steps of {each:g} s", err=True)
    measured = measure(meters[0], loads(steps), each)
    write_curve(path, curve := fit(measured), meters[0].name)
    _show(curve, path)


def _pairs(text: str) -> list[tuple[float, float]]:
    try:
        pairs = [pair.split(":") for pair in text.split(",")]
        return [(float(load), float(watts)) for load, watts in pairs]
    except ValueError:
        raise ValueError(
            f"--points must be LOAD:WATTS,LOAD:WATTS with loads from 0 to 1, not {text!r}"
        ) from None


def _show(curve: PowerCurve, path: Path) -> None:
    rows = [(f"{load:.0%}", f"{watts:.1f}") for load, watts in curve.points]
    console().print(table((">load", ">watts"), rows))
    click.echo(f"kept in {path}; a controller that starts from now on uses it")
