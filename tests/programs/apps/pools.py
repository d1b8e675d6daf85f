# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Two workers of a pool, or two processes of a launcher: it reports the limit of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from threading import Barrier, Thread

from joblib import Parallel, delayed
from limits import limit, report


def loky():
    report(lambda: Parallel(n_jobs=2)(delayed(limit)() for _ in range(2)))


def threads():
    both = Barrier(2)

    def each():
        both.wait()
        return limit()

    report(lambda: Parallel(n_jobs=2, prefer="threads")(delayed(each)() for _ in range(2)))


def futures():
    with ProcessPoolExecutor(2) as pool:
        report(lambda: list(pool.map(limit, range(2))))


def launcher():
    """Do what torchrun does: start a process for each rank, and end them all."""
    found: list[int | None] = [None, None]
    ranks = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "PYTHONPATH": os.getcwd()}
        command = [sys.executable, "-u", __file__, "rank"]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))

    def hear(rank: int) -> None:
        for line in ranks[rank].stdout:
            (found[rank],) = json.loads(line)

    for rank in range(2):
        Thread(target=hear, args=[rank], daemon=True).start()
    try:
        report(lambda: list(found))
    finally:
        for process in ranks:
            process.terminate()
            process.wait()


def rank():
    report(lambda: [limit()])


if __name__ == "__main__":
    if sys.argv[1] != "rank":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    {each.__name__: each for each in (loky, threads, futures, launcher, rank)}[sys.argv[1]]()
