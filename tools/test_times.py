#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Show where the tests' time goes: by folder and by test, computing and waiting.

As a plugin of pytest, it writes a line for each test to the file of --times:

    PYTHONPATH=tools .venv/bin/python -m pytest -p test_times --times build/times.jsonl -n 3

As a program, it prints what such a file says.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class TestTime:
    """What a test took: seconds, and CPU seconds of its process and those that it waited for."""

    __test__ = False

    test: str
    seconds: float
    cpu: float


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file to write to."""
    parser.addoption("--times", type=Path, help="the file to which each test's times are added")


def _cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test with its fixtures."""
    path = item.config.getoption("--times")
    began, used = time.monotonic(), _cpu()
    done = yield
    if path is not None:
        took = TestTime(item.nodeid, time.monotonic() - began, _cpu() - used)
        with open(path, "a") as file:
            file.write(json.dumps(asdict(took)) + "\n")
    return done


def table(times: Iterable[TestTime], depth: int) -> list[str]:
    """Return a line for each folder, or for each test if there is no depth: the longest first."""
    rows: dict[str, list[TestTime]] = defaultdict(list)
    for each in times:
        path = each.test.partition("::")[0].split("/")[:-1]
        rows["/".join(path[:depth]) if depth else each.test].append(each)
    sums = {
        name: (sum(t.seconds for t in row), sum(t.cpu for t in row), len(row))
        for name, row in rows.items()
    }
    return [
        f"{seconds:8.1f} {cpu:8.1f} {max(seconds - cpu, 0):8.1f} {count:6} {name}"
        for name, (seconds, cpu, count) in sorted(sums.items(), key=lambda row: -row[1][0])
    ]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="what --times has written")
    parser.add_argument("--depth", type=int, default=2, help="of the folders [default: 2]")
    parser.add_argument("--slowest", type=int, default=20, help="tests to show [default: 20]")
    arguments = parser.parse_args()
    try:
        lines = arguments.file.read_text().splitlines()
        times = [TestTime(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        print(f"test_times: cannot read {arguments.file}: {error}", file=sys.stderr)
        return 1
    heading = " seconds      CPU  waiting  tests"
    print(heading, *table(times, arguments.depth), sep="\n")
    print("", heading, *table(times, 0)[: arguments.slowest], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
