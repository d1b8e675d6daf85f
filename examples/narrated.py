# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Run a Keras program and print its threads and its speed while it trains.

For example: tfm run -- python examples/narrated.py train.py --epochs 10

The program is an ordinary one, and does not know of this.
"""

from __future__ import annotations

import runpy
import signal
import sys
import threading
import time
from pathlib import Path

import tf_malleable as tfm
from tf_malleable.agent import steps

SECONDS = 0.5


def narrate(over: threading.Event) -> None:
    """Print a line twice a second, from the first training step on."""
    start = last = time.monotonic()
    before = 0.0
    while not over.wait(SECONDS):
        steps.look_for_training()
        done, now = steps.now().done or 0.0, time.monotonic()
        if not before and done:
            print(f"{'seconds':>8} {'threads':>8} {'steps':>8} {'steps/s':>8}", flush=True)
        elif before:
            threads, speed = tfm.get_threads().intra, (done - before) / (now - last)
            print(f"{now - start:8.1f} {threads:8} {done:8.0f} {speed:8.1f}", flush=True)
        before, last = done, now


def main() -> None:
    """Run the program that the command line names, with the arguments after it."""
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit("narrated: name a Python program that there is, and its arguments after it")
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    # The first process of a container is not ended by SIGTERM unless it says how.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    over = threading.Event()
    narrator = threading.Thread(target=narrate, args=(over,), daemon=True)
    narrator.start()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        over.set()
        narrator.join()


if __name__ == "__main__":
    main()
