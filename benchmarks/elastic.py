# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure containers whose CPUs change: against stock TensorFlow, by hand and controlled."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

import machine
from container import arrivals, enlarge, figure, quota, resize
from container.place import EngineError, ImageError, Place, place
from container.verdicts import Verdict, as_text
from controller import host
from controller.results import Table
from controller.results import as_text as table_text
from processes import WorkerError

_INTERRUPTED = 130
_MEASURES = (quota.NAME, resize.NAME, enlarge.NAME, arrivals.NAME)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer from 1, not {text!r}")
    return number


def _parse() -> argparse.Namespace:
    parser = _Parser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/elastic"), help="folder for results")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=_MEASURES)
    parser.add_argument("--rounds", type=_positive, default=2, help=f"of {arrivals.NAME}")
    arguments = parser.parse_args()
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error.strerror}: {arguments.out}")
    return arguments


def _measures(
    there: Place, arguments: argparse.Namespace, say: Callable[[str], None]
) -> Iterator[tuple[str, Any, list[Verdict]]]:
    """Yield each measure's name, all that was measured, and how that is against its bars."""
    if quota.NAME in arguments.only:
        turns = quota.measure(there, say)
        yield quota.NAME, quota.as_json(turns), quota.verdicts(turns)
    if resize.NAME in arguments.only:
        resized = resize.measure(there, say)
        yield resize.NAME, resized.as_json(), resized.verdicts()
    if enlarge.NAME in arguments.only:
        enlarged = enlarge.measure(there, say)
        yield enlarge.NAME, enlarge.as_json(enlarged), enlarge.verdicts(enlarged)
    if arrivals.NAME in arguments.only:
        runs = arrivals.measure(there, arguments.rounds, say)
        print(f"\n{table_text(Table(tuple(runs)))}")
        yield arrivals.NAME, [run.as_json() for run in runs], arrivals.verdicts(runs)


def _run(arguments: argparse.Namespace) -> None:
    results: dict[str, Any] = machine.describe()
    results["date"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", flush=True)

    found: list[Verdict] = []
    path = arguments.out / "results.json"
    with place() as there:
        # Written after each, so that whoever has no more time has those before.
        for name, measured, verdicts in _measures(there, arguments, say):
            found += verdicts
            results |= {name: measured, "bars": [verdict.as_json() for verdict in found]}
            path.write_text(json.dumps(results, indent=1) + "\n")
            figure.draw(found, arguments.out / "results.png")
            print(f"\n{as_text(verdicts)}\n", flush=True)
    print(f"Results: {path}, results.png")


def _stop(signal_number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    """Run the benchmark."""
    signal.signal(signal.SIGTERM, _stop)
    arguments = _parse()
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("elastic: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (EngineError, ImageError, WorkerError, host.HostError, OSError) as error:
        print(f"elastic: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
