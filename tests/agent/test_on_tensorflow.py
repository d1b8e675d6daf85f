# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Grants in programs that train with TensorFlow, unchanged."""

from __future__ import annotations

import json

import pytest

from tests.support.jobs import ALL, FIRST, LAST, Job

pytestmark = pytest.mark.serial("grants must settle in time while trainings keep the CPUs busy")

# Trains without end in one thread and answers in another.
TRAINING = """
import json, sys, threading
import keras, numpy, tensorflow

def train():
    layers = [keras.layers.Input((64, 64, 1)), keras.layers.Conv2D(16, 3), keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x = numpy.zeros((64, 64, 64, 1), "f4")
    model.fit(x, x[:, 0, 0], batch_size=16, epochs=10**6, verbose=0)

threading.Thread(target=train, daemon=True).start()
import tf_malleable as tfm
for line in sys.stdin:
    pools = [pool for pool in tfm.pools() if pool.kind != "other"]
    limits = {str(pool.limit) for pool in pools}
    over = [pool.name for pool in pools if pool.active > pool.limit]
    print(json.dumps([sorted(limits), over]), flush=True)
"""

# Its ops take a second or so, in two threads at a time. Not matrix products: oneDNN frees its
# generated code at exit while threads still run it, with stock TensorFlow as well.
LONG_OPS = """
import sys, threading
import tensorflow as tf

a = tf.random.normal((2, 800, 800))

def work():
    while True:
        tf.linalg.eigh(a)

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
"""

# As if tensorflow had been imported first, but quicker.
TENSORFLOW_FIRST = """
import ctypes, importlib.util, sys
(tensorflow,) = importlib.util.find_spec("tensorflow").submodule_search_locations
ctypes.CDLL(tensorflow + "/libtensorflow_framework.so.2")
import tf_malleable as tfm
print(tfm.backend(), flush=True)
sys.stdin.readline()
"""


def test_a_training_keeps_to_its_grants(fake):
    fake.grant(ALL)
    with Job(TRAINING, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        fake.wait_for_progress(lambda body: body.get("steps_done", 0) > 4)
        for cpus in (FIRST, ALL, LAST) * 5:
            fake.wait_for_acknowledgement(fake.grant(cpus))
            assert job.is_on(cpus)
            assert json.loads(job.ask()) == [[str(len(cpus))], []]
        before = fake.wait_for_progress(lambda body: body["threads"] == len(LAST))
        later = fake.wait_for_progress(lambda body: body["steps_done"] > before["steps_done"])
        assert later["cpu_seconds"] > before["cpu_seconds"]
        assert {"active", "queued"} <= later.keys()
    assert len(fake.heard("jobs")) == 1


def test_long_ops_are_not_waited_for_and_the_end_neither(fake):
    fake.grant(ALL)
    with Job(LONG_OPS, fake.path) as job:
        job.hear()
        for _ in range(20):
            # Ops that began at limit 1 keep no worker busy, however long they take.
            fake.wait_for_progress(lambda body: body["active"] > 1)
            serial = fake.grant(FIRST)
            in_force = fake.wait(
                lambda serial=serial: [
                    h for h in fake.heard("acknowledgements") if h.body["serial"] == serial
                ]
            )
            if in_force[0].body["settled"] is False:
                break
            # The grant came just between two ops.
            fake.wait_for_acknowledgement(fake.grant(ALL))
        assert in_force[0].body["settled"] is False
        # The agent is waiting in C++, where Python must not catch it at the end.
        assert job.end("\n")[:2] == (0, "")


def test_where_tensorflow_came_first_the_affinity_alone_is_changed(fake):
    with Job(TENSORFLOW_FIRST, None, TF_MALLEABLE_JOIN=join(fake)) as job:
        assert job.hear() == "None"
        for cpus in (FIRST, LAST, ALL):
            fake.wait_for_acknowledgement(fake.grant(cpus))
            assert job.is_on(cpus)
        body = fake.wait_for_progress(lambda body: True)
        assert body.keys() == {"cpu_seconds"}
        assert job.end("\n")[:2] == (0, "")


def join(fake):
    return json.dumps({"socket": str(fake.path), "name": "late"})
