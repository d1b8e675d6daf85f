# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings under an operator: they begin, grow, shrink and end."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_a_training_runs_to_its_end(site):
    site.cluster.add_node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    status = site.finish()
    assert status["endedAt"]


def test_a_training_grows_with_the_cluster_and_shrinks_before_a_drain(site):
    site.cluster.add_node("a", 1.5)
    site.start()
    site.submit()
    site.wait_for_workers(1)
    site.cluster.add_node("b", 1.5)
    status = site.wait_for_workers(2)
    assert {each["node"] for each in status["workers"]} == {"a", "b"}
    site.cluster.cordon("a")
    status = site.wait_for_workers(1)
    assert [each["node"] for each in status["workers"]] == ["b"]
    site.finish()
