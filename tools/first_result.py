#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure the time from `pip install` to the first result of a submitted job, without downloads.

The wheel, what it needs and TensorFlow are downloaded to a folder first, once. Then a new virtual
environment installs them from there, a job is submitted, which starts a controller, and its output
is waited for. Each part's seconds are printed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PROGRAM = "import tensorflow as tf; print(int(tf.reduce_sum(tf.ones((2, 3)))))"
RESULT = "6"


def download(wheel: Path, packages: Path, tensorflow: str) -> None:
    """Download what the wheel and TensorFlow need, unless it is there."""
    if not list(packages.glob("tensorflow*.whl")):
        pip = (sys.executable, "-m", "pip", "download", "-q", "-d", packages)
        subprocess.run([*pip, wheel, tensorflow], check=True)


def measure(wheel: Path, packages: Path, tensorflow: str, folder: Path) -> dict[str, float]:
    """Return the seconds of each part, by its name."""
    python, tfm = folder / "venv/bin/python", folder / "venv/bin/tfm"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (folder / "run").mkdir(mode=0o700)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TF_MALLEABLE_CLAIMS": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    install = (python, "-m", "pip", "install", "-q", "--no-index", "--find-links", packages)
    steps = {
        "pip install": (*install, wheel, tensorflow),
        "tfm submit": (tfm, "submit", "--", python, "-c", PROGRAM),
        "tfm wait": (tfm, "wait", "1"),
        "tfm logs": (tfm, "logs", "1"),
    }
    seconds = {}
    try:
        for name, command in steps.items():
            began = time.monotonic()
            done = subprocess.run(
                command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
            )
            seconds[name] = time.monotonic() - began
    finally:
        with suppress(OSError, ValueError):
            lock = folder / "run/tf_malleable/controller.sock.lock"
            os.kill(int(lock.read_text()), signal.SIGTERM)
    if done.stdout.split()[-1:] != [RESULT]:
        raise SystemExit(f"first_result: the job printed {done.stdout!r}, not {RESULT}")
    return seconds


def main() -> None:
    """Measure, and print the parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path, help="the wheel, as make dist builds it")
    parser.add_argument("--packages", type=Path, required=True, help="folder for downloads")
    parser.add_argument("--tensorflow", default="tensorflow-cpu==2.21.0", help="requirement")
    given = parser.parse_args()
    wheel, packages = given.wheel.resolve(), given.packages.resolve()
    download(wheel, packages, given.tensorflow)
    with tempfile.TemporaryDirectory(prefix="tfm-first-") as name:
        seconds = measure(wheel, packages, given.tensorflow, Path(name))
    for part, length in {**seconds, "all": sum(seconds.values())}.items():
        print(f"{part:<12}{length:6.1f} s")


if __name__ == "__main__":
    main()
