# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Stands in for a meter that this machine lacks, and audits budgets by it.

It reads the real CPU time of this host, looks up what a real server draws at that load, adds
noise, and writes a RAPL counter that wraps. What it integrates itself has neither.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.power.servers import Server
from tf_malleable.linux.host_cpu import HostCpu

PERIOD_SECONDS: Final = 0.05
# Small enough for a wrap every few seconds; a real counter wraps every half hour.
SPAN: Final = 4_000_000_000
NOISE: Final = 0.02


@dataclass
class Auditor:
    """A thread that writes a powercap folder; used as a context manager.

    Attributes:
        server: The server that this machine plays.
        root: The powercap folder.
        samples: Times, joules drawn until then, and CPU time of the host until then.
    """

    server: Server
    root: Path
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Auditor:
        self._zone = self.root / "intel-rapl:0"
        self._zone.mkdir(parents=True)
        (self._zone / "name").write_text("package-0\n")
        (self._zone / "max_energy_range_uj").write_text(f"{SPAN}\n")
        self._count(0.0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _count(self, joules: float) -> None:
        # A reader must never find half a number.
        beside = self._zone / "energy_uj.new"
        beside.write_text(f"{int(joules * 1e6) % SPAN}\n")
        beside.replace(self._zone / "energy_uj")

    def _run(self) -> None:
        # /proc/stat counts in hundredths, so a load is only known over a tenth of a second or so.
        cpu, curve, noise = HostCpu(), self.server.curve, random.Random(1)
        last, drawn, shown, busy_so_far = time.monotonic(), 0.0, 0.0, 0.0
        while not self._stop.wait(PERIOD_SECONDS):
            now, busy = time.monotonic(), cpu.busy_since()
            seconds, last = now - last, now
            busy_so_far += busy
            joules = curve.watts(busy / seconds / cpu.cpus) * seconds
            drawn += joules
            shown += joules * noise.gauss(1.0, NOISE)
            self.samples.append((now, drawn, busy_so_far))
            self._count(shown)


def windows(samples: list[tuple[float, float, float]], length: float) -> list[float]:
    """Return the mean watts of each window of this length, one beginning each second."""
    means = []
    begin, right, next_at = 0, 0, samples[0][0]
    for begin, (at, joules, _) in enumerate(samples):
        if at < next_at:
            continue
        next_at = at + 1.0
        right = max(right, begin)
        while right < len(samples) and samples[right][0] < at + length:
            right += 1
        if right == len(samples):
            break
        end, until, _ = samples[right]
        means.append((until - joules) / (end - at))
    return means
