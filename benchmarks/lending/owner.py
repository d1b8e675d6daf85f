# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job that sleeps, then computes for a moment; and again. Prints each time as JSON, in ms."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

_CPU_SECONDS = 0.03


def main(begin: Path, naps: int, seconds: float) -> None:
    """Nap as often, and as long, once there is the file `begin`."""
    while not begin.exists():
        time.sleep(0.1)
    for _ in range(naps):
        due = time.monotonic() + seconds
        time.sleep(seconds)
        woken, used = time.monotonic(), time.process_time()
        while time.process_time() - used < _CPU_SECONDS:
            pass
        ended = time.monotonic()
        print(json.dumps([1000 * (woken - due), 1000 * (ended - woken)]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
