# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller whose state is on a real file system that is full: no running job is lost."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.controllers import controller, job, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system"),
]

CHANGES = 300


@pytest.fixture
def disk(tmp_path):
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs"]
    if subprocess.run(["mount", *options, folder], capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk: Path):
    """Have no byte free on a disk for the length of a with statement."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    assert os.statvfs(disk).f_bfree == 0
    yield
    filling.unlink()


def test_jobs_that_come_while_the_disk_is_full_survive_a_kill(disk):
    with (
        controller(disk) as first,
        filled(disk),
        job(first.socket) as one,
        job(first.socket) as two,
    ):
        number = one.submit(name="one")
        # So many changes take more than the reserve, unless its space is used again.
        for change in range(CHANGES):
            status, answer = first.ask("PUT", f"/v1/jobs/{number}/cores", {"cores": change % 2})
            assert status in (200, 400), answer
        assert two.submit(name="two")
        first.ask("POST", f"/v1/jobs/{number}/pause")
        assert "is full: free some space there" in first.get("/v1")["problem"]
        first.process.kill()
        first.process.wait()
        with controller(disk) as second:
            found = {each["name"]: each["held"] for each in second.get("/v1/jobs")["jobs"]}
            assert found == {"one": True, "two": False}


def test_once_there_is_room_the_rest_is_saved_and_nothing_is_said_any_more(disk):
    with controller(disk) as one, job(one.socket) as working:
        with filled(disk):
            number = working.submit()
            for method, target in (("POST", "pause"), ("POST", "resume")):
                assert one.ask(method, f"/v1/jobs/{number}/{target}")[0] == 200
            wait_for(lambda: one.get("/v1")["problem"])
        assert one.ask("POST", f"/v1/jobs/{number}/pause")[0] == 200
        wait_for(lambda: one.get("/v1")["problem"] is None)
        states = [each["state"] for each in one.get("/v1/history?spans=true")["spans"]]
        assert {"running", "paused"} <= {*states}
