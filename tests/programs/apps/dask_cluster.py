# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Dask: a local cluster of two workers, as processes or as threads of this one."""

from __future__ import annotations

import sys

from dask.distributed import Client, LocalCluster
from limits import limit, report

if __name__ == "__main__":
    processes = sys.argv[1] == "processes"
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=None
        ) as local,
        Client(local) as client,
    ):
        print("started", flush=True)
        report(lambda: list(client.run(limit).values()))
