# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ray: a task and an actor import TensorFlow, in workers of the daemons that ray.init() starts."""

from __future__ import annotations

import os

import ray
from limits import limit, report


@ray.remote
def task():
    return limit()


@ray.remote
class Actor:
    def limit(self):
        return limit()


def start():
    """Ray gives its own processes 30 seconds, which is not enough on a machine that is busy."""
    os.environ.update(RAY_gcs_server_port_wait_time_s="300")
    while True:
        try:
            ray.init(
                address="local", include_dashboard=False, object_store_memory=80 * 2**20, num_cpus=2
            )
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
        else:
            return


start()
print("started", flush=True)
actor = Actor.remote()
report(lambda: ray.get([task.remote(), actor.limit.remote()]))
