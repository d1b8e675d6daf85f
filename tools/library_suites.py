#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Run a library's own tests as they are and while its thread limit changes; compare the failures.

    OMP_WAIT_POLICY=passive tools/library_suites.py --scikit-learn -- -n 2 --pyargs sklearn.cluster

What follows -- goes to pytest. The second run is a program of `tfm run`, whose limit changes at
random after 0 to 20 ms each. Exits with 1 if a test fails there that passes as it is. This file is
also the pytest plugin that changes the limit. (Threads that spin while they wait for others make
suites take ten times as long if there are more of them than CPUs.)
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

# Tells the plugin to change limits, and where to write how many changes there were.
CHANGES = "TFM_LIBRARY_SUITES_CHANGES"
# Number of CPUs that scikit-learn is to believe in.
CPUS = "TFM_LIBRARY_SUITES_CPUS"
LONGEST_PAUSE = 0.02


class LimitChanges:
    """A thread that sets the limit of the OpenMP hook at random, in each process of pytest."""

    def __init__(self) -> None:
        self._hook = ctypes.CDLL(None)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.made = 0

    def _run(self) -> None:
        rng, capacity = random.Random(os.getpid()), self._hook.tfm_openmp_capacity()
        while not self._over.wait(rng.random() * LONGEST_PAUSE):
            self._hook.tfm_openmp_set_limit(rng.randint(1, capacity))
            self.made += 1

    def pytest_unconfigure(self) -> None:
        """Note the number of changes."""
        self._over.set()
        self._thread.join()
        Path(os.environ[CHANGES], str(os.getpid())).write_text(str(self.made))


def pytest_configure(config: pytest.Config) -> None:
    """Begin to change limits."""
    if CPUS in os.environ:
        free_scikit_learn(int(os.environ[CPUS]))
    if CHANGES in os.environ:
        config.pluginmanager.register(LimitChanges())


def free_scikit_learn(cpus: int) -> None:
    """Keep its set-up from limiting each process of xdist to its share of the CPUs."""
    import joblib
    import threadpoolctl

    joblib.cpu_count = lambda only_physical_cores=False: cpus
    threadpoolctl.threadpool_limits = lambda *_, **__: None


def outcomes(command: list[str], junit: Path, env: dict[str, str]) -> dict[str, str]:
    """Run pytest; return what became of each test.

    Raises:
        SystemExit: pytest could not run the tests.
    """
    words = [*command, f"--junit-xml={junit}"]
    status = subprocess.run(words, env=env, stdout=sys.stderr).returncode
    if status not in (0, 1) or not junit.exists():
        sys.exit(f"library_suites: pytest ended with {status}")
    found = {}
    for case in ET.parse(junit).iter("testcase"):
        kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        found[f"{case.get('classname')}::{case.get('name')}"] = (*kinds, "passed")[0]
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--capacity", type=int, default=4, help="most threads of the second run [default: 4]"
    )
    parser.add_argument(
        "--scikit-learn", action="store_true", help="let its tests use all these threads"
    )
    parser.add_argument("pytest", nargs="+", help="what pytest is told")
    said = parser.parse_args()
    tools = str(Path(__file__).resolve().parent)
    paths = os.pathsep.join(filter(None, (tools, os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "library_suites", *said.pytest]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        changes = Path(folder, "changes")
        changes.mkdir()
        env = {**os.environ, "PYTHONPATH": paths}
        if said.scikit_learn:
            env[CPUS] = str(said.capacity)
        stock = outcomes(words, Path(folder, "stock.xml"), env)
        tfm = [sys.executable, "-m", "tf_malleable_cli", "run", "--"]
        changing = outcomes(
            [*tfm, *words],
            Path(folder, "changing.xml"),
            {**env, CHANGES: str(changes), "TF_MALLEABLE_MAX_THREADS": str(said.capacity)},
        )
        made = sum(int(each.read_text()) for each in changes.iterdir())
    is_good = {"passed", "skipped"}
    failed = {name for name, how in changing.items() if how not in is_good}
    only_there = {name for name in failed if stock.get(name) in is_good}
    result = {
        "tests": len(changing),
        "passed": sum(how == "passed" for how in changing.values()),
        "failed as in stock": len(failed - only_there),
        "failed here only": sorted(only_there),
        "not run": sorted(stock.keys() - changing.keys()),
        "changes": made,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(result, indent=2))
    return 1 if only_there or result["not run"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
