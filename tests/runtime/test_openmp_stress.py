# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A C program with four threads and forked children, while its limit changes at random."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tests.support.openmp import CLANG, COMPILER, NEEDED, SOURCE, compiled, needs_libomp, variables

pytestmark = [*NEEDED, pytest.mark.slow]
CHANGES = 1000


@pytest.mark.parametrize("compiler", [COMPILER, CLANG], ids=["libgomp", "libomp"])
def test_results_are_right_while_limits_change(tmp_path, monkeypatch, compiler):
    if compiler != COMPILER:
        needs_libomp()
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    source = SOURCE.with_name("openmp_stress.c")
    program = compiled(tmp_path, "-O2", "-pthread", compiler=compiler, source=source)
    seed = str(int.from_bytes(os.urandom(2), "big"))
    done = subprocess.run(
        [TFM, "run", "--", str(program), str(CHANGES), seed],
        env=variables(
            TF_MALLEABLE_MAX_THREADS="8",
            OMP_NUM_THREADS="8",
            OMP_WAIT_POLICY="passive",  # Else 40 threads spin while one computes.
        ),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found.pop("regions") > 0, seed
    assert found.pop("sizes") > 1, seed
    assert found == {"changes": CHANGES, "forks": CHANGES // 200, "wrong": 0, "hung": 0}, seed
