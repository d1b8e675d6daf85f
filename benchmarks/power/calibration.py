# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How well a calibration with five points tells what real servers draw at other loads."""

from __future__ import annotations

from statistics import mean

from benchmarks.power.servers import CALIBRATED, SERVERS, Server
from tf_malleable.scheduling.energy.calibration import fit


def error(server: Server) -> float:
    """Return the mean relative error of the points that were not measured."""
    curve = fit([(step / 10, server.watts[step]) for step in CALIBRATED])
    return mean(
        abs(curve.watts(step / 10) - watts) / watts
        for step, watts in enumerate(server.watts)
        if step not in CALIBRATED
    )


def errors() -> dict[str, float]:
    """Return that of each server, by its name."""
    return {server.name: error(server) for server in SERVERS}
