# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The variables of the environment that make a worker."""

from __future__ import annotations

import pytest

from tf_malleable.elastic import variables
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.settings import SECRET

ASKED = {variables.COORDINATOR: "digits-coordinator:7070", SECRET: "ab" * 16}


def test_without_a_coordinator_nobody_asks_for_a_worker():
    assert variables.worker({SECRET: "ab" * 16}) is None


def test_the_least_that_a_pod_says():
    found = variables.worker(ASKED)
    assert found.coordinator == Address("digits-coordinator", 7070)
    assert found.secret == bytes.fromhex("ab" * 16)
    assert found.cpus is None  # Those of its cgroup.
    assert found.patience_seconds == 600
    assert (found.checkpoint, found.seed, found.left_code) == ("", None, 83)


def test_all_that_a_pod_can_say():
    more = {
        variables.HOST: "10.1.2.3",
        variables.PORT: "7071",
        variables.PLACE: "digits-worker-3",
        variables.SEED: "7",
        variables.SHARD_THREADS: "2",
        variables.CHECKPOINT: "/state",
        variables.CHECKPOINT_EVERY: "30.5",
        variables.PATIENCE: "20",
    }
    found = variables.worker({**ASKED, **more})
    assert (found.host, found.port, found.place) == ("10.1.2.3", 7071, "digits-worker-3")
    assert (found.seed, found.threads, found.patience_seconds) == (7, 2, 20)
    assert (found.checkpoint, found.checkpoint_seconds) == ("/state", 30.5)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (variables.COORDINATOR, "here", "COORDINATOR: an address is HOST:PORT"),
        (SECRET, "abc", "must have the training's secret"),
        (variables.PORT, "70000", "PORT must be an integer from 0 to 65535, not '70000'"),
        (variables.SEED, "-1", "SEED must be an integer from 0 to 4294967295, not '-1'"),
        (variables.CHECKPOINT_EVERY, "0", "EVERY must be a positive number of seconds, not '0'"),
        (variables.PATIENCE, "long", "PATIENCE must be a positive number of seconds, not 'long'"),
    ],
)
def test_what_cannot_be_is_refused(name, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        variables.worker({**ASKED, name: value})
