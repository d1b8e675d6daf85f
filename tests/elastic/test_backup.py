# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is said when the last worker goes; cases_backup.py has the details."""

from __future__ import annotations

import pytest

from tests.support.elastic_local import LocalTraining


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_last_worker_says_so(tmp_path):
    with LocalTraining(tmp_path, "--workers", "1") as training:
        training.lead_to(1)
        training.process.terminate()
        assert training.let_it_go() == 143
        assert "what this training has learned is lost" in training.said()
        assert "Traceback" not in training.said()
