#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Test the example in docs/how-to/own-policy.md.

The page's titled code blocks are written to files. They are installed with pip into a
separate folder, their tests are run, and a real controller switches to each policy.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
POLICIES = ("one-by-one", "lend+one-by-one", "reserve", "reserve:cores=2")
REFUSED = ("reserve:cores=none", "cores must be a number from 1, not 'none'")
COMMAND_SECONDS = 600.0
"""Deadline of each command, on a machine that other work keeps busy."""

_BLOCK = re.compile(r'^```\w+ title="([\w.]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


class ExampleError(Exception):
    """The example does not work as its page says. The message is one sentence."""


def extract(page: Path, folder: Path) -> None:
    """Write the titled code blocks of a page as files."""
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    if not blocks:
        raise ExampleError(f"{page} has no code block with a title")
    for name, text in blocks:
        (folder / name).write_text(text, encoding="utf-8")


def run(*command: str | Path, environment: dict[str, str], fails: bool = False) -> str:
    """Run a command and return its output; raise ExampleError unless it fails as expected."""
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    if (done.returncode != 0) != fails:
        words = " ".join(map(str, command))
        raise ExampleError(f"{words} exited with {done.returncode}: {done.stdout}")
    return done.stdout


def try_out(folder: Path) -> None:
    """Install the package, run its tests, and have a controller use its policies."""
    installed = folder / "installed"
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "TF_MALLEABLE_SOCKET": str(folder / "controller" / "controller.sock"),
        "TF_MALLEABLE_CLAIMS": "",
    }
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    run(*pip, "--target", installed, folder, environment=environment)
    tests = folder / "test_office_policies.py"
    # Without this repository's settings.
    pytest = (sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", folder)
    run(*pytest, "-p", "no:cacheprovider", tests, environment=environment)
    use(folder, environment)


def use(folder: Path, environment: dict[str, str]) -> None:
    """Have a controller use each policy, and refuse a bad option."""
    tfm = BIN / "tfm"
    start = (tfm, "controller", "--state", folder / "state.db", "--policy", POLICIES[0])
    log = folder / "controller.log"
    with (
        log.open("w", encoding="utf-8") as said,
        subprocess.Popen(start, env=environment, stderr=said) as controller,
    ):
        try:
            wait_for(Path(environment["TF_MALLEABLE_SOCKET"]), controller, log)
            for policy in POLICIES:
                run(tfm, "policy", policy, environment=environment)
                if f"in force: {policy}\n" not in run(tfm, "policy", environment=environment):
                    raise ExampleError(f"the controller does not use {policy}")
            refused, sentence = REFUSED
            answer = run(tfm, "policy", refused, environment=environment, fails=True)
            if sentence not in answer:
                raise ExampleError(f"{refused} is refused with: {answer}")
        finally:
            controller.terminate()


def wait_for(socket: Path, controller: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the controller listens; its log explains why it does not."""
    deadline = time.monotonic() + COMMAND_SECONDS
    while not socket.exists():
        if controller.poll() is not None or time.monotonic() > deadline:
            raise ExampleError(f"the controller does not start: {log.read_text('utf-8')}")
        time.sleep(0.05)


def main() -> int:
    """Test the example of a page."""
    if len(sys.argv) != 2:
        print("docs_example: give one page, such as docs/how-to/own-policy.md", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="tfm-example-") as name:
            folder = Path(name)
            extract(Path(sys.argv[1]), folder)
            try_out(folder)
    except (ExampleError, OSError) as error:
        print(f"docs_example: {error}", file=sys.stderr)
        return 1
    print(f"{sys.argv[1]}: the example works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
