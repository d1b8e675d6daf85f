# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that start only if others have succeeded."""

from __future__ import annotations

import signal

import pytest

from tests.support.accounts import has_ended
from tests.support.commands import started, submitted, tfm
from tests.support.controllers import wait_for

pytestmark = pytest.mark.usefixtures("outputs")


def shell(go, code: int) -> tuple[str, ...]:
    """Return a program that ends with this exit code, once a file exists."""
    return ("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; exit {code}")


def ended(controller, job: str) -> tuple[str, str | None]:
    """Return a job's outcome and cause, once it has ended."""

    def found() -> list[dict]:
        jobs = controller.get("/v1/history")["jobs"]
        return [each for each in jobs if each["id"] == job]

    (record,) = wait_for(found)
    return record["outcome"], record["cause"]


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_a_job_starts_if_the_other_succeeds_and_never_otherwise(controller, tmp_path, code):
    first = submitted(*shell(tmp_path / "go", code))
    second = submitted("--after-ok", first, "--", "echo", "ran")
    third = submitted("--after-ok", second, "--", "echo", "ran")
    assert controller.get(f"/v1/jobs/{third}")["after_ok"] == [second]
    assert f"it starts after the success of job {first} (sh)\n" in tfm("show", second).stdout
    (tmp_path / "go").touch()
    if code == 0:
        assert tfm("wait", third).returncode == 0
        assert ended(controller, third) == ("finished", None)
        assert tfm("logs", second).stdout == "ran\n"
        return
    assert ended(controller, second) == ("cancelled", f"job {first} did not succeed")
    assert ended(controller, third) == ("cancelled", f"job {second} did not succeed")
    assert tfm("logs", second).stdout == ""
    # So it is with jobs that have ended already.
    fourth = submitted("--after-ok", "echo", "--", "echo", "ran")
    assert ended(controller, fourth) == ("cancelled", f"job {third} did not succeed")
    result = tfm("run", "--after-ok", first, "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (1, "")
    number = int(fourth) + 1
    assert result.stderr == f"tfm: job {number} does not start: job {first} did not succeed\n"


def test_a_success_in_the_past_is_one(controller):
    first = submitted("--", "true")
    assert tfm("wait", first).returncode == 0
    assert tfm("run", "--after-ok", first, "--", "echo", "ran").stdout == "ran\n"
    result = tfm("run", "--after-ok", "nobody", "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tfm: there is no job 'nobody'; ")


@pytest.mark.parametrize("code", [0, 3])
def test_a_controller_that_was_away_knows_it(start, tmp_path, code):
    before = start()
    first = submitted(*shell(tmp_path / "go", code))
    second = submitted("--after-ok", first, "--", "echo", "ran")
    third = submitted("--after-ok", second, "--", "echo", "ran")
    pid = before.get(f"/v1/jobs/{first}")["pid"]
    before.stop(signal.SIGKILL)
    (tmp_path / "go").touch()
    wait_for(lambda: has_ended(pid))
    after = start()
    if code == 0:
        assert tfm("wait", third).returncode == 0
        # It also says that the controller was away.
        assert tfm("logs", second).stdout.endswith("ran\n")
        return
    assert ended(after, second) == ("cancelled", f"job {first} did not succeed")
    assert ended(after, third) == ("cancelled", f"job {second} did not succeed")


def test_a_cancelled_job_has_not_succeeded(controller):
    with started("run", "--name", "first", "--", "sleep", "600"):
        wait_for(lambda: controller.get("/v1/jobs")["jobs"])
        second = submitted("--after-ok", "first", "--", "echo", "ran")
        assert tfm("cancel", "first").returncode == 0
        assert ended(controller, second) == ("cancelled", "job 1 did not succeed")
