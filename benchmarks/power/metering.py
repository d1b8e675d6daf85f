# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures what metering costs the controller: its CPU time for one second's readings."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.power.servers import SERVERS
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.power.power_watch import PowerWatch
from tf_malleable.model import Shape
from tf_malleable.power.host_power import HostPower, Meters
from tf_malleable.power.rapl import RaplMeter
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons

_ROUNDS = 500


def live(number: int) -> LiveJob:
    """Return a job that runs."""
    record = Record(
        str(number),
        "job",
        (),
        None,
        0,
        Shape(1, 1, 1),
        0,
        1.0,
        0.0,
        0.0,
        0.0,
        area=f"a{number % 8}",
    )
    job = LiveJob(record, JobMeasurements(Lessons()))
    job.measured.usage.add(0.0, 0.0, 0.0)
    return job


def cost(jobs: int, packages: int = 2) -> float:
    """Return the CPU seconds that one second's metering takes."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(packages):
            zone = Path(folder, f"intel-rapl:{number}")
            zone.mkdir()
            (zone / "name").write_text(f"package-{number}")
            (zone / "max_energy_range_uj").write_text("262143328850")
            (zone / "energy_uj").write_text("123456789")
        power = HostPower("lab", Meters([RaplMeter(Path(folder))]), SERVERS[4].curve)
        lives = {str(number): live(number) for number in range(jobs)}
        watch = PowerWatch(
            power, lives, time.time, Instruments(), shared=lambda: 64, react=lambda: None
        )
        watch.tick()
        begin = time.process_time()
        for turn in range(_ROUNDS):
            for job in lives.values():
                job.measured.usage.cpu_seconds = float(turn)
            watch.tick(at_once=True)
        return (time.process_time() - begin) / _ROUNDS
