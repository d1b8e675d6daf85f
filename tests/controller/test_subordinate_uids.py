# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A user with 65,536 more uids, as by newuidmap(1), at a controller that a group shares."""

from __future__ import annotations

import grp
import json
import os
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import controllers
from tests.support.controllers import TFM, controller
from tests.support.mount_namespaces import needs_mounts
from tests.support.users import User

CPUS = sorted(os.sched_getaffinity(0))[:2]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users"),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs to share out"),
    needs_mounts,
    pytest.mark.skipif(not Path("/etc/subuid").exists(), reason="needs an /etc/subuid"),
]
ADA, BOB = 4001, 4002
HERS = range(100000, 165536)


@pytest.fixture(autouse=True)
def _subordinate(directory, monkeypatch):
    """Run controllers where /etc/subuid gives Ada her uids."""
    file, start = directory / "subuid", directory / "tfm"
    file.write_text(f"{ADA}:{HERS.start}:{len(HERS)}\n")
    inside = f'mount --bind {shlex.quote(str(file))} /etc/subuid && exec {shlex.quote(TFM)} "$@"'
    start.write_text(f'#!/bin/sh\nexec unshare --mount sh -c {shlex.quote(inside)} tfm "$@"\n')
    start.chmod(0o755)
    monkeypatch.setattr(controllers, "TFM", str(start))


def test_they_neither_evade_a_quota_nor_get_more_of_the_machine(directory, group):
    quotas = directory / "quotas.conf"
    quotas.write_text("[*]\nmax-jobs = 3\n")
    options = ("--group", grp.getgrgid(group).gr_name, "--quotas", str(quotas))
    options += ("--policy", "equal", "--cpus", ",".join(map(str, CPUS)))
    with ExitStack() as stack:
        # With an option that the zygote does not know, the program at controllers.TFM is started.
        one = stack.enter_context(controller(directory, *options, start_new_session=False))
        uids = (ADA, HERS[0], HERS[-1], HERS[1], BOB)
        *hers, last, his = (stack.enter_context(User(uid, group, one.socket)) for uid in uids)
        jobs = [each.submit(name="hers") for each in hers]
        status, text = last.ask("POST", "/v1/jobs", {"name": "one-more"})
        assert status == 409
        assert json.loads(text)["error"].startswith(f"user {ADA} may have at most 3 jobs at once")
        job = his.submit(name="his")
        # His is next, before her third one, as she has one running.
        assert one.ask("POST", f"/v1/jobs/{jobs[0]}/cancel")[0] == 200
        controllers.wait_for(lambda: one.get(f"/v1/jobs/{job}")["state"] == "running")
        states = [one.get(f"/v1/jobs/{each}")["state"] for each in jobs[1:]]
        assert states == ["running", "waiting"]
        # They are other users all the same.
        assert hers[1].ask("POST", f"/v1/jobs/{jobs[2]}/pause")[0] == 403
        assert hers[2].ask("POST", f"/v1/jobs/{jobs[1]}/pause")[0] == 403
