# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs, agents and the controller are killed at random, and no core is lost or given twice.

TFM_TEST_KILLS_SECONDS says for how long, TFM_TEST_SEED what is killed.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.support.controllers import wait_for
from tests.support.kills import KINDS, Kills

SECONDS = float(os.environ.get("TFM_TEST_KILLS_SECONDS", "20"))
SEED = int(os.environ.get("TFM_TEST_SEED", "14"))
# A job that ignores SIGTERM is killed after 10 seconds.
CANCEL_SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.serial("measures for how long a core is free")
@pytest.mark.timeout(SECONDS + 300)
def test_no_core_is_lost_or_granted_twice_whatever_is_killed(tmp_path):
    # Shown if it fails.
    print(f"TFM_TEST_SEED={SEED} TFM_TEST_KILLS_SECONDS={SECONDS}")
    with Kills(tmp_path, SEED) as here:
        end = time.monotonic() + SECONDS
        # Each kind at least once, however slow the machine is.
        while time.monotonic() < end or set(here.kills) < set(KINDS):
            here.step()
        print(here.kills)
        wait_for(lambda: any(job["state"] == "running" for job in here.jobs()))
        here.cancel_all(CANCEL_SECONDS)
        assert here.jobs() == []
        assert here.left() == []
