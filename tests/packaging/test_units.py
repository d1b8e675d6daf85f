# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The unit files are understood by systemd, and confine the service."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tf_malleable.cli.services.unit_text import unit_text

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)
UNIT = ROOT / "deploy" / "tf_malleable.service"
TIER = ROOT / "deploy" / "tier" / "tf_malleable-tier.service"


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


@pytest.mark.parametrize(
    "unit", [UNIT, UNIT.parent / "user" / UNIT.name, TIER], ids=["system", "user", "tier"]
)
def test_systemd_understands_it(unit):
    done = analyze("verify", unit)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("system", [True, False], ids=["system", "user"])
def test_systemd_understands_what_tfm_service_writes(tmp_path, system):
    options = ["--area", "a b", "--meter", 'rapl:/x%h/$HOME/"q"\\', "--cpus", "2-15"]
    unit = tmp_path / UNIT.name
    unit.write_text(unit_text(system, ["/bin/sh"], options))
    done = analyze("verify", unit)
    assert (done.returncode, done.stderr) == (0, "")


# Tenths of the exposure that systemd 252 computes, of 10.0. What is left is said in the units.
@pytest.mark.parametrize(("unit", "most"), [(UNIT, 32), (TIER, 26)], ids=["controller", "tier"])
def test_it_is_not_more_exposed_than_before(unit, most):
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={most}", unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze cannot do this offline before systemd 250")
    assert done.returncode == 0, done.stdout
