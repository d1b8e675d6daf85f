# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure a Keras service under Poisson load beside two trainings, with and without --slo."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.common.command_line import BenchmarkError, Say, finish, positive, sayer
from benchmarks.service.latencies import Latencies, latencies
from examples.command_line import Parser

_TRAININGS: Final = 2
ARMS: Final = ("alone", "beside trainings", "beside trainings, --slo")
_FOLDER: Final = Path(__file__).parent


class _Job:
    """A program that `tfm run` starts; killed at the end."""

    def __init__(self, socket: Path, options: Sequence[str], program: Sequence[str]) -> None:
        import tf_malleable
        from benchmarks.common.children import clean_environment
        from tf_malleable.workload.runner import TFM

        package = str(Path(tf_malleable.__file__).parents[1])
        self.process = subprocess.Popen(
            [*TFM, "run", f"--socket={socket}", *options, "--", sys.executable, *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment({"PYTHONPATH": package}),
        )

    def __enter__(self) -> _Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def measure(arm: str, rate: float, seconds: float, objective: float) -> Latencies:
    """Run the service once, beside trainings or not."""
    from benchmarks.common.controller import controller
    from tf_malleable.policies import registry

    with controller(registry.DEFAULT) as started, ExitStack() as jobs:
        client = started.client

        def steps() -> float:
            return sum(each.steps_done or 0.0 for each in client.jobs())

        socket = Path(client.socket)
        if arm != ARMS[0]:
            for number in range(_TRAININGS):
                train = _Job(socket, [f"--name=t{number}"], [str(_FOLDER / "train.py")])
                jobs.enter_context(train)
            while sum(bool(each.steps_done) for each in client.jobs()) < _TRAININGS:
                time.sleep(0.1)
        options = [f"--slo=p99={1000 * objective:g}ms"] if arm == ARMS[2] else []
        serve = [str(_FOLDER / "serve.py"), str(rate), str(seconds)]
        service = jobs.enter_context(_Job(socket, ["--name=serve", *options], serve))
        while not any(each.name == "serve" and each.latency for each in client.jobs()):
            if service.process.poll() is not None:
                raise BenchmarkError("the service ended before it had served a request")
            time.sleep(0.1)
        begin, before = time.monotonic(), steps()
        output, _ = service.process.communicate()
        done = (steps() - before) / (time.monotonic() - begin)
    return latencies(json.loads(output), objective, done)


def capacity(seconds: float) -> float:
    """Return the requests a second that the service can serve alone."""
    from benchmarks.common.children import clean_environment

    serve = [sys.executable, str(_FOLDER / "serve.py"), "0", str(seconds)]
    return float(subprocess.check_output(serve, env=clean_environment({}), text=True))


def run(share: float, seconds: float, objective: float, rounds: int, out: Path, say: Say) -> None:
    """Measure all arms in turn, write, and print."""
    from benchmarks.common import machine

    before = machine.CpuTimes.now()
    rate = share * capacity(5.0)
    say(f"{rate:.1f} requests a second, {share:.0%} of the capacity")
    found: dict[str, list[Latencies]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS if number % 2 else reversed(ARMS):
            found[arm].append(measure(arm, rate, seconds, objective))
            say(f"{arm}: {found[arm][-1]}")
    noise = machine.noise(before, machine.CpuTimes.now())
    content = {
        **machine.describe(),
        "noise": noise,
        "rate": rate,
        "objective": objective,
        "arms": {arm: [asdict(each) for each in runs] for arm, runs in found.items()},
    }
    (out / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    print("| service | p50, ms | p99, ms | seconds within the objective | steps/s |")
    print("| --- | --- | --- | --- | --- |")
    for arm, runs in found.items():
        median = [
            statistics.median(getattr(each, name) for each in runs)
            for name in ("p50", "p99", "within", "training")
        ]
        p50, p99, within, training = median
        print(f"| {arm} | {1e3 * p50:.1f} | {1e3 * p99:.1f} | {within:.0%} | {training:.2f} |")
    print(machine.noise_text(noise))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = Parser("service", description=__doc__)
    line.add_argument("--share", type=_share, default=0.3, help="load, of the capacity")
    line.add_argument("--seconds", type=positive, default=30, help="of each run")
    line.add_argument("--objective", type=positive, default=50, help="p99 in milliseconds")
    line.add_argument("--rounds", type=positive, default=3)
    line.add_argument("--out", type=Path, default=Path("out/service"))
    said = line.parse_args(arguments)
    said.out.mkdir(parents=True, exist_ok=True)
    objective = said.objective / 1000
    return finish(
        "service",
        lambda: run(said.share, said.seconds, objective, said.rounds, said.out, sayer()),
    )


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"must be a share between 0 and 1, not {text!r}")
    return share


if __name__ == "__main__":
    sys.exit(main())
