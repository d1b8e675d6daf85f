# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Beside uvloop, which brings its own event loop and its own handling of signals."""

from __future__ import annotations

import signal

from tests.support import harness
from tests.support.jobs import ALL, FIRST, LAST, Job

CHANGES = 2000

# Computes in a thread until it hears a line; the event loop answers signals meanwhile.
PROGRAM = """
import asyncio, signal, sys, threading
import tensorflow as tf
import uvloop

over = threading.Event()
a = tf.random.normal((256, 256))

def compute():
    while not over.is_set():
        tf.matmul(a, a)

async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: print("usr1", flush=True))
    computing = loop.run_in_executor(None, compute)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    over.set()
    await computing

uvloop.run(main())
"""


def test_the_event_loop_changes_limits_while_its_executor_computes(call):
    found = call(
        "cases_uvloop", "products_while_the_loop_changes_limits", harness.CAPACITY, CHANGES
    )
    assert found["is_uvloop"]
    assert found["wrong"] == [0, 0]
    assert min(found["rounds"]) > 10
    assert found["settled"]
    assert set(found["limits"]) == {1}


def test_a_job_keeps_to_its_grants_and_its_loop_gets_the_signals(fake):
    fake.grant(ALL)
    with Job(PROGRAM, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        assert job.hear() == "ready"
        for cpus in (FIRST, ALL, LAST):
            fake.wait_for_acknowledgement(fake.grant(cpus))
            assert job.is_on(cpus)
            job.send(signal.SIGUSR1)
            assert job.hear() == "usr1"
        code, out, err = job.end("\n")
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    assert len(fake.heard("jobs")) == 1
