# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Beside gevent, which makes greenlets of Python's threads: of the agent's, too."""

from __future__ import annotations

import pytest

from tests.support import harness
from tests.support.jobs import ALL, FIRST, LAST, Job

# In fit_while_a_greenlet_changes_limits().
STEPS = 32

# The agent, which is started by the import, is a greenlet.
PATCHED_BEFORE = """
from gevent import monkey
monkey.patch_all()
import tf_malleable
"""

# The agent is a thread, and connected to the controller by the time of the patch.
PATCHED_AFTER = """
import sys
import tf_malleable
print("joined", flush=True)
sys.stdin.readline()
from gevent import monkey
monkey.patch_all()
"""

TRAINING = """
import gevent, keras, numpy

model = keras.Sequential(
    [keras.layers.Conv2D(16, 3), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
)
model.compile(optimizer="sgd", loss="mse")
x = numpy.zeros((64, 64, 64, 1), "f4")
# With a callback for batches, Keras starts no threads of its own.
callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)

def train(epochs):
    y = x[:, 0, 0]
    model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=[callback])
"""

IN_ANOTHER_THREAD = "gevent.get_hub().threadpool.apply(train, [10**6])\n"
YIELDING_BETWEEN_EPOCHS = "while True:\n    train(1)\n    gevent.sleep(0.01)\n"
NEVER_YIELDING = "train(10**6)\n"


def let_it_patch(fake, job):
    """Let a program go on that patches after it has imported tf_malleable."""
    assert job.hear() == "joined"
    fake.wait(lambda: fake.heard("progress"))
    job.tell()


@pytest.mark.parametrize("patched", ["before", "after"])
def test_a_greenlet_changes_limits_while_another_trains(call, patched):
    found = call(
        "cases_gevent",
        "fit_while_a_greenlet_changes_limits",
        patched,
        harness.CAPACITY,
        stock=True,
    )
    assert found["patched"]
    assert found["disturbed"] == pytest.approx(found["undisturbed"], rel=1e-3)
    assert found["changes"] >= STEPS
    assert found["settled"]
    assert set(found["limits"]) == {1}


@pytest.mark.parametrize(
    ("patch", "trains"),
    [
        (PATCHED_BEFORE, IN_ANOTHER_THREAD),
        (PATCHED_BEFORE, YIELDING_BETWEEN_EPOCHS),
        (PATCHED_AFTER, NEVER_YIELDING),
    ],
    ids=["greenlet-beside-the-training", "greenlet-between-epochs", "thread"],
)
def test_a_training_keeps_to_its_grants(fake, patch, trains):
    fake.grant(ALL)
    with Job(patch + TRAINING + trains, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        if patch == PATCHED_AFTER:
            let_it_patch(fake, job)
        fake.wait_for_progress(lambda body: body.get("steps_done", 0) > 4)
        for cpus in (FIRST, ALL, LAST):
            fake.wait_for_acknowledgement(fake.grant(cpus))
            assert job.is_on(cpus)
            limit = len(cpus)
            fake.wait_for_progress(lambda body, limit=limit: body["threads"] == limit)
    assert len(fake.heard("jobs")) == 1


@pytest.mark.parametrize("patch", [PATCHED_BEFORE, PATCHED_AFTER], ids=["before", "after"])
def test_the_program_ends_well_and_its_steps_are_reported(fake, patch):
    # The sleep lets the agent connect, and find Keras, if it is a greenlet.
    body = "gevent.sleep(1)\ntrain(1)\nprint('trained', flush=True)\n"
    fake.grant(ALL)
    with Job(patch + TRAINING + body, fake.path) as job:
        if patch == PATCHED_AFTER:
            let_it_patch(fake, job)
        assert job.hear() == "trained"
        code, out, err = job.end()
    assert (code, out) == (0, "")
    if patch == PATCHED_BEFORE:
        assert "Traceback" not in err
    else:
        # Python's threading has a complaint at the end of any thread that is older than the
        # patch, as each has another number afterwards.
        assert "/tf_malleable/" not in err
    assert fake.heard("progress")[-1].body["steps_done"] == 4
