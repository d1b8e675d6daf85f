# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes of a training are killed and frozen at random, and its result stays the same.

TFM_TEST_KILLS says how many in each of four trainings, 100 in all if it says nothing;
TFM_TEST_SEED which and when.
"""

from __future__ import annotations

import os

import pytest

from tests.support.elastic_kills import KINDS, ElasticKills
from tests.support.elastic_runs import ElasticRun

KILLS = int(os.environ.get("TFM_TEST_KILLS", "25"))
SEED = int(os.environ.get("TFM_TEST_SEED", "3"))


@pytest.mark.slow
@pytest.mark.timeout(KILLS * 10 + 120)
@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_the_result_is_the_undisturbed_one_whatever_is_killed(tmp_path, seed):
    # Shown if it fails.
    print(f"TFM_TEST_KILLS={KILLS} TFM_TEST_SEED={seed}")
    with ElasticRun(tmp_path) as run:
        kills = ElasticKills(run, seed)
        # Each kind at least once, however slow the machine is.
        while kills.count < KILLS or set(kills.kinds) < set(KINDS):
            kills.step()
        print(kills.kinds)
        kills.settle()
        pauses = [r["pause_seconds"] for r in run.rescales() if r["pause_seconds"] is not None]
        print(f"{len(pauses)} rescales, pauses: {sorted(pauses)}")
        run.finish()
        assert run.is_one_training(), run.said()
