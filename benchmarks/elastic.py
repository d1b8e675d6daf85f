# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure containers whose CPUs change: against stock TensorFlow, by hand and controlled."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from command_line import Parser, Say, context, finish, positive, sayer
from container import arrivals, enlarge, figure, quota, resize
from container.place import EngineError, ImageError, Place, place
from container.verdicts import Verdict, as_text
from controller import host
from controller.results import Table
from controller.results import as_text as table_text
from processes import WorkerError

_MEASURES = (quota.NAME, resize.NAME, enlarge.NAME, arrivals.NAME)


def _parse() -> argparse.Namespace:
    parser = Parser(__doc__, out="out/elastic")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=_MEASURES)
    parser.add_argument("--rounds", type=positive, default=2, help=f"of {arrivals.NAME}")
    return parser.parse()


def _measures(
    there: Place, arguments: argparse.Namespace, say: Say
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
    results, say = context(), sayer()
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


def main() -> int:
    """Run the benchmark."""
    arguments = _parse()
    errors = (EngineError, ImageError, WorkerError, host.HostError)
    return finish("elastic", lambda: _run(arguments), errors)


if __name__ == "__main__":
    sys.exit(main())
