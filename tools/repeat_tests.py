#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Repeat tests beside a load, and count which ones fail: a test that fails at times is a defect.

    tools/repeat_tests.py --rounds 20 --load 2 -- tests/controller -n 3 -m "not serial"

What follows -- goes to pytest. A round's output, its JUnit file and its times
(tools/test_times.py) are kept. Exits with 1 if any test of any round has failed.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).resolve().parent


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Compute with so many processes meanwhile."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def failed(junit: Path) -> list[str]:
    """Return the tests that a JUnit file says have failed, or could not be set up."""
    cases = ET.parse(junit).iter("testcase")
    return [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="[default: 20]")
    parser.add_argument("--load", type=int, default=1, help="busy processes beside [default: 1]")
    parser.add_argument(
        "--out", type=Path, default=Path("build/repeated"), help="[default: build/repeated]"
    )
    parser.add_argument("pytest", nargs="+", help="what pytest is told")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, (str(TOOLS), os.environ.get("PYTHONPATH"))))
    pytest = (sys.executable, "-m", "pytest", "-p", "test_times")
    failures: collections.Counter[str] = collections.Counter()
    red = 0
    with load(arguments.load):
        for number in range(1, arguments.rounds + 1):
            kept = arguments.out / f"{number}"
            for old in arguments.out.glob(f"{number}.*"):
                old.unlink()
            began = time.monotonic()
            with open(f"{kept}.txt", "w") as output:
                status = subprocess.run(
                    (
                        *pytest,
                        f"--times={kept}.jsonl",
                        f"--junit-xml={kept}.xml",
                        *arguments.pytest,
                    ),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": paths},
                ).returncode
            if not Path(f"{kept}.xml").exists():
                print(f"repeat_tests: pytest ended with {status}: see {kept}.txt", file=sys.stderr)
                return 1
            names = failed(Path(f"{kept}.xml"))
            failures.update(names)
            red += status != 0
            said = ", ".join(names) if names else "passed" if status == 0 else f"exit {status}"
            print(f"{number}: {said}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{arguments.rounds - red} of {arguments.rounds} rounds passed")
    for name, count in failures.most_common():
        print(f"{count:4} × {name}")
    return 1 if red else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
