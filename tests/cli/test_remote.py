# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller of another host, through an ssh that stays here."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.commands import CPU, running, tfm
from tests.support.controllers import TFM
from tf_malleable.cli.remote import remote_host

# Does what ssh does: runs the rest of its arguments, after the address, elsewhere.
SSH = f"""#!/bin/sh
echo "$*" >> "$0.log"
while [ "$1" != -- ]; do shift; done
shift 3
unset TF_MALLEABLE_HOST
exec {TFM} "$@"
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """The log of ssh, one line a connection."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "bin" / "ssh.log"


def remotely(*arguments):
    """Run tfm with the controller of another host."""
    return tfm(*arguments, env={**os.environ, "TF_MALLEABLE_HOST": "ssh://ada@far:2222"})


@pytest.mark.slow
def test_jobs_of_another_host_are_shown_and_changed(controller, ssh):
    with running("--name", "one"):
        result = remotely("jobs", "--json")
        assert (result.returncode, result.stderr) == (0, "")
        assert [job["name"] for job in json.loads(result.stdout)["jobs"]] == ["one"]
        assert ssh.read_text() == "-T -- ssh://ada@far:2222 tfm dial-stdio\n"
        result = remotely("pause", "one")
        assert result.stdout == "job 1 (one): paused; resume it with: tfm resume 1\n"
        result = remotely("resume", "one")
        assert result.stdout == f"job 1 (one): resumed; it runs on CPUs {CPU}\n"
        # One connection a command, however many requests.
        assert len(ssh.read_text().splitlines()) == 3
        assert remotely("pause", "o*").stdout.startswith("job 1 (one): paused; ")
        assert remotely("resume", "--all").stdout.startswith("job 1 (one): resumed; ")
        for words in (["cancel", "--mine"], ["wait"]):
            result = remotely(*words)
            assert (result.returncode, result.stdout) == (1, "")
            assert "are yours is not known here: give a JOB or --all" in result.stderr


def test_an_option_goes_before_the_host(controller, ssh):
    assert remotely("jobs", "--socket", str(controller.socket)).stdout == "there are no jobs\n"
    assert not ssh.exists()


def test_without_a_controller_there_it_is_said(ssh, socket):
    result = remotely("jobs")
    assert (result.returncode, result.stdout) == (1, "")
    there, here = result.stderr.splitlines()
    assert (
        there == f"tfm: no controller answers at {socket}; start one with: tfm controller --detach"
    )
    assert here.startswith("tfm: cannot reach the controller at ssh://ada@far:2222 (")


@pytest.mark.parametrize("command", ["run", "submit"])
def test_nothing_is_started_here_that_was_meant_for_there(controller, ssh, command):
    result = remotely(command, "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"tfm: tfm {command} starts programs on this host, and TF_MALLEABLE_HOST names another:"
        " unset it, or use ssh\n"
    )


@pytest.mark.parametrize(
    "address",
    ["far", "http://far", "ssh://", "ssh://far/path", "ssh://far:x", "ssh://-oProxyCommand=x"],
)
def test_an_address_that_cannot_be_is_refused(monkeypatch, address):
    monkeypatch.setenv("TF_MALLEABLE_HOST", address)
    with pytest.raises(ValueError, match=r"^TF_MALLEABLE_HOST must be ssh://\[user@\]host"):
        remote_host()


@pytest.mark.parametrize("address", ["ssh://far", "ssh://ada@far:2222/", "ssh://[::1]"])
def test_an_address_that_can_be_is_taken(monkeypatch, address):
    monkeypatch.setenv("TF_MALLEABLE_HOST", address)
    assert remote_host() == address
