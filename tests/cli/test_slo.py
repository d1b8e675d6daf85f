# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run, submit, set and show of services with objectives."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support import controllers
from tests.support.commands import submitted, tfm
from tests.support.controllers import wait_for

pytestmark = pytest.mark.usefixtures("outputs")

SLEEP = ("--", "sleep", "600")
REFUSED = (
    "slo must be a percentile below 100 and a latency from 1 ms to 1 hour, such as p99=50ms or"
    " p99.9=1.5s, not "
)
# Each request takes 30 ms, whatever cores there are.
SERVICE = """
import time
import tf_malleable as tfm
while True:
    with tfm.request():
        time.sleep(0.03)
"""


@pytest.fixture
def controller(tmp_path):
    """A controller."""
    with controllers.controller(tmp_path) as running:
        yield running


def shown(job: str) -> dict[str, str]:
    lines = tfm("show", job).stdout.splitlines()
    width = max(line.index("  ") for line in lines)
    return {line[:width].strip(): line[width:].strip() for line in lines}


@pytest.mark.slow
def test_a_service_and_what_is_said_of_it(controller):
    job = submitted("--slo", "p99=20ms", "--max", "1", "--", sys.executable, "-c", SERVICE)

    def reason() -> str:
        found = controller.get(f"/v1/jobs/{job}")["reason"] or ""
        return found if "p99 is" in found else ""

    said = wait_for(reason)
    assert said.startswith("its objective p99=20ms is not kept: p99 is ")
    assert said.endswith(" with all 1 core that it may have")
    lines = shown(job)
    assert lines["objective"] == "p99=20ms"
    assert lines["latency"].endswith("(p99)")
    assert lines["reason"].startswith("its objective p99=20ms is not kept")
    status = json.loads(tfm("jobs", "--json").stdout)["jobs"][0]
    assert status["latency"]["requests"] > 0
    assert status["latency"]["p50"] >= 0.03
    changed = tfm("set", job, "--slo", "p99=60s")
    assert changed.stdout.startswith(f"job {job} (python")
    assert "slo set to p99=60s; " in changed.stdout
    wait_for(lambda: controller.get(f"/v1/jobs/{job}")["reason"] is None)
    assert "slo set to none; " in tfm("set", job, "--slo", "none").stdout
    assert controller.get(f"/v1/jobs/{job}")["slo"] is None
    assert tfm("cancel", job).returncode == 0
    assert tfm("wait", job).returncode == 128 + 15
    assert "requests" in shown(job)


@pytest.mark.parametrize("slo", ["p99=0ms", "nan", "p99=nanms", "p100=5ms", "50ms"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_what_is_no_objective_is_refused(controller, command, slo):
    result = tfm(command, "--slo", slo, *SLEEP)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.strip().endswith(f"{REFUSED}{slo!r}")
    assert "Traceback" not in result.stderr
    assert controller.get("/v1/jobs")["jobs"] == []


def test_what_cannot_be_set_is_refused(controller):
    job = submitted("--slo", "p99=50ms", *SLEEP)
    result = tfm("set", job, "--slo", "p99=0ms")
    assert result.returncode != 0
    assert f"{REFUSED}'p99=0ms'; none takes it away" in result.stderr
    result = tfm("set", job, "--slo", "p99=9ms", "--between", "22:00-07:00")
    assert result.returncode == 2
    assert "an objective holds at all times: give --slo without --between" in result.stderr
    assert controller.get(f"/v1/jobs/{job}")["slo"] == "p99=50ms"
    assert tfm("cancel", job).returncode == 0


def test_an_objective_beyond_the_machine_is_refused(controller):
    cpus = len(controller.get("/v1")["cpus"])
    first = submitted("--slo", "p99=50ms", "--min", str(cpus), *SLEEP)
    result = tfm("run", "--slo", "p99=50ms", *SLEEP)
    assert result.returncode != 0
    assert "the objective p99=50ms cannot be kept here: with at least 1 core" in result.stderr
    assert f"of job {first}" in result.stderr
    assert tfm("cancel", first).returncode == 0
