# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a container's labels say of its job; there is no engine."""

from __future__ import annotations

import os

import pytest

from tests.support.fake_engine import FakeEngine
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.containers.engine import found
from tf_malleable.containers.labels import Labels, read


def test_without_a_user_the_job_is_the_controller_s_user_s(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    engine = FakeEngine()
    assert found(engine.inspect("c" * 64)).uid == 1000
    engine.labels["tf_malleable.user"] = "1234"
    assert found(engine.inspect("c" * 64)).uid == 1234


def test_a_user_that_cannot_be_is_refused():
    engine = FakeEngine()
    engine.labels["tf_malleable.user"] = "root"
    with pytest.raises(Refusal) as caught:
        found(engine.inspect("c" * 64))
    assert 'user must be an integer from 0 to 4294967296, not "root"' in caught.value.sentence


def test_a_label_says_the_objective_of_a_service():
    engine = FakeEngine()
    assert found(engine.inspect("c" * 64)).request.slo is None
    engine.labels["tf_malleable.slo"] = "p99=50ms"
    assert found(engine.inspect("c" * 64)).request.slo == "p99=50ms"
    engine.labels["tf_malleable.slo"] = "fast"
    with pytest.raises(Refusal, match="slo must be a percentile below 100 and a latency"):
        found(engine.inspect("c" * 64))


def test_what_labels_say_is_read_again():
    request = JobRequest(name="web", max=4, mem=4 << 30, slo="p99=50ms")
    labels = Labels(request, "/run/controller.sock", 1000, "quota")
    assert read(labels.write(), "other") == labels


def test_a_label_says_how_much_memory_a_job_needs():
    engine = FakeEngine()
    engine.labels["tf_malleable.mem"] = "4G"
    assert found(engine.inspect("c" * 64)).request.mem == 4 << 30
    engine.labels["tf_malleable.mem"] = str(4 << 30)
    assert found(engine.inspect("c" * 64)).request.mem == 4 << 30
    for label, value in (("mem", "much"), ("mem", "1K"), ("gpus", "1")):
        engine.labels = {**FakeEngine().labels, f"tf_malleable.{label}": value}
        with pytest.raises(Refusal, match=label):
            found(engine.inspect("c" * 64))
