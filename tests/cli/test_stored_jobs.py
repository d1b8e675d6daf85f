# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs of tfm submit are not lost with the processes that keep them, as in a reboot."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.accounts import age, has_ended, stored_jobs
from tests.support.commands import started, submitted, tfm
from tests.support.controllers import Controller, wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.cli.background.outputs import begin_resumption

pytestmark = pytest.mark.usefixtures("outputs")


def stored(outputs: Path) -> list[dict]:
    """Return the stored jobs, oldest first."""
    return sorted(stored_jobs(outputs), key=lambda each: each["submitted"])


def lose_power(controller: Controller) -> None:
    """Kill all jobs, the processes that keep them, and the controller, at once."""
    jobs = controller.get("/v1/jobs")["jobs"]
    controller.process.kill()
    controller.process.communicate(timeout=DEADLINE)
    for job in jobs:
        for pid in (keeper_of(job["pid"]), job["pid"]):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid: has_ended(pid))


def shut_down(controller: Controller) -> None:
    """Send SIGTERM to all of these, as the service manager does before a reboot."""
    jobs = controller.get("/v1/jobs")["jobs"]
    keepers = [keeper_of(job["pid"]) for job in jobs]
    controller.stop()
    for pid in (*(job["pid"] for job in jobs), *keepers):
        os.kill(pid, signal.SIGTERM)
    for pid in keepers:
        wait_for(lambda pid=pid: has_ended(pid))


def keeper_of(pid: int) -> int:
    """Return the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def said(controller: Controller, text: str) -> str:
    """Return the line of the controller's stderr in which this text occurs."""
    assert controller.process.stderr is not None
    while line := controller.process.stderr.readline():
        if text in line:
            return line
    raise AssertionError(f"never said: {text}")


def program(go: Path, then: str = "echo ran") -> list[str]:
    """Return a program that waits until there is a file."""
    return ["--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; {then}"]


@pytest.mark.slow
@pytest.mark.parametrize("end", [lose_power, shut_down])
def test_what_waited_waits_again_and_what_ran_runs_again(start, outputs, tmp_path, end):
    go, folder = tmp_path / "go", tmp_path / "folder"
    folder.mkdir()
    environment = {**os.environ, "COLOUR": "green"}
    first = start()
    ran = submitted("--requeue", "--name", "ran", *program(go))
    then = 'echo "$COLOUR $PWD $(umask)"'
    waited = submitted("--name", "waited", *program(go, then), cwd=folder, env=environment)
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True, False])
    end(first)
    again = start()
    said(again, f"job {ran} (ran) was interrupted and is submitted again as job ")
    said(again, f"job {waited} (waited) waits again as job ")
    jobs = wait_for(lambda: (found := again.get("/v1/jobs")["jobs"])[1:] and found)
    assert [(each["name"], each["state"]) for each in jobs] == [
        ("ran", "running"),
        ("waited", "waiting"),
    ]
    go.touch()
    # The old ids are as good as the new ones.
    assert tfm("wait", ran, waited).returncode == 0
    assert tfm("logs", ran).stdout.endswith("ran\n")
    os.umask(mask := os.umask(0))
    assert tfm("logs", waited).stdout.endswith(f"green {folder} {mask:04o}\n")
    wait_for(lambda: not stored(outputs))


def test_what_ran_runs_again_only_if_it_asked_for_it(start, outputs, tmp_path):
    first = start()
    number = submitted("--name", "once", *program(tmp_path / "go"))
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    age(first.state)
    again = start()
    line = said(again, "was interrupted and does not run again")
    assert line == (
        f"job {number} (once) was interrupted and does not run again: it has neither --requeue"
        " nor --retries left\n"
    )
    assert (stored(outputs), again.get("/v1/jobs")["jobs"]) == ([], [])
    result = tfm("wait", number)
    assert (result.returncode, result.stdout) == (1, f"job {number} (once): interrupted (reboot)\n")
    (job,) = again.get("/v1/history")["jobs"]
    assert (job["outcome"], job["cause"], job["exit_code"]) == ("interrupted", "reboot", None)


def test_retries_that_are_left_count(start, outputs, tmp_path):
    go, tries = tmp_path / "go", tmp_path / "tries"
    first = start()
    then = program(go, "exit 4")
    then[-1] = f"echo x >> {tries}; {then[-1]}"
    number = submitted("--retries", "2", *then)
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    again = start()
    said(again, "is submitted again as job")
    go.touch()
    assert tfm("wait", number).returncode == 4
    assert tries.read_text() == "x\n" * 3
    assert len(again.get("/v1/history")["jobs"]) == 3


def test_it_is_stored_for_its_user_alone_until_it_has_ended(start, outputs, tmp_path):
    go = tmp_path / "go"
    start()
    number = submitted(*program(go), env={**os.environ, "SECRET": "x"})
    (path,) = outputs.glob("*.job")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (job,) = stored(outputs)
    assert (job["job"], job["environment"]["SECRET"]) == (number, "x")
    # Whose keeper lives is nobody else's business.
    assert tfm("submit", "--resume").stdout == ""
    go.touch()
    assert tfm("wait", number).returncode == 0
    wait_for(lambda: not stored(outputs))


def test_what_is_cancelled_is_stored_no_longer(start, outputs):
    start()
    number = submitted("--requeue", "--", "sleep", "600")
    assert tfm("cancel", number).returncode == 0
    assert tfm("wait", number).returncode == 128 + signal.SIGTERM
    wait_for(lambda: not stored(outputs))


@pytest.mark.parametrize(("end", "runs"), [("cancel", 0), ("exit", 0), ("fail", 0), ("kill", 1)])
def test_a_job_that_lost_its_keeper_runs_again_only_if_nobody_wanted_its_end(
    start, outputs, tmp_path, end, runs
):
    go = tmp_path / "go"
    controller = start()
    number = submitted("--requeue", *program(go, "exit 4" if end == "fail" else "echo ran"))
    pid = controller.get(f"/v1/jobs/{number}")["pid"]
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    os.kill(keeper_of(pid), signal.SIGKILL)
    # It runs on.
    assert tfm("submit", "--resume").stdout == ""
    if end == "cancel":
        assert tfm("cancel", number).returncode == 0
    elif end in ("exit", "fail"):
        go.touch()
    else:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    result = tfm("submit", "--resume")
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == runs
    assert len(controller.get("/v1/jobs")["jobs"]) == runs
    go.touch()
    wait_for(lambda: not stored(outputs))


def test_a_job_that_lost_its_keeper_has_the_retries_that_are_left(start, outputs, tmp_path):
    go, runs = tmp_path / "go", tmp_path / "runs"
    controller = start()
    then = program(go, "exit 4")
    then[-1] = f"echo x >> {runs}; {then[-1]}"
    number = submitted("--requeue", "--retries", "1", *then)
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    os.kill(keeper_of(controller.get(f"/v1/jobs/{number}")["pid"]), signal.SIGKILL)
    go.touch()
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    said = tfm("submit", "--resume").stdout
    assert said.startswith(f"job {number} (sh) has failed and is submitted again as job ")
    assert tfm("wait", number).returncode == 4
    wait_for(lambda: not stored(outputs))
    assert tfm("submit", "--resume").stdout == ""
    assert runs.read_text() == "x\n" * 2


def test_one_that_handles_the_signal_before_a_reboot_runs_again(start, outputs, tmp_path):
    ready, runs = tmp_path / "ready", tmp_path / "runs"
    first = start()
    saving = f"trap 'exit 4' TERM; echo x >> {runs}; touch {ready}; while :; do sleep 0.1; done"
    submitted("--requeue", "--name", "saving", "--", "sh", "-c", saving)
    wait_for(ready.exists)
    shut_down(first)
    again = start()
    said(again, "(saving) was interrupted and is submitted again as job ")
    wait_for(lambda: runs.read_text() == "x\n" * 2)
    assert tfm("cancel", "saving").returncode == 0
    wait_for(lambda: not stored(outputs))


@pytest.mark.slow
def test_what_is_about_to_be_resumed_is_waited_for(start, outputs, tmp_path):
    """As after a reboot: a controller answers before it has submitted what is stored."""
    go = tmp_path / "go"
    first = start()
    number = submitted("--requeue", *program(go))
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    go.touch()
    start(env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})  # Which leaves it to us.
    resuming = begin_resumption()
    assert resuming is not None
    with started("wait", number) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(3)
        assert tfm("submit", "--resume").returncode == 0
        os.close(resuming)
        assert waiting.wait(DEADLINE) == 0


@pytest.mark.slow
def test_who_submits_meanwhile_starts_after_the_new_one(start, outputs, tmp_path):
    go = tmp_path / "go"
    first = start()
    number = submitted("--requeue", "--name", "ran", *program(go))
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    again = start(env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})
    resuming = begin_resumption()
    assert resuming is not None
    with started("submit", "--after", number, "--name", "then", "--", "true") as submitting:
        with pytest.raises(subprocess.TimeoutExpired):
            submitting.wait(3)
        assert tfm("submit", "--resume").returncode == 0
        os.close(resuming)
        assert submitting.wait(DEADLINE) == 0
    ran, then = again.get("/v1/jobs")["jobs"]
    assert (ran["name"], then["name"], then["after"]) == ("ran", "then", [ran["id"]])
    go.touch()
    assert tfm("wait", then["id"]).returncode == 0


def test_a_retry_that_is_interrupted_has_not_ended_as_the_one_before_it(start, outputs, tmp_path):
    tries = tmp_path / "tries"
    first = start()
    fails_once = f"echo x >> {tries}; [ $(wc -l < {tries}) = 2 ] || exit 4; sleep 600"
    submitted("--retries", "1", "--", "sh", "-c", fails_once)
    wait_for(lambda: tries.exists() and tries.read_text() == "x\n" * 2)
    (job,) = first.get("/v1/jobs")["jobs"]
    lose_power(first)
    age(first.state)
    again = start()
    said(again, "was interrupted and does not run again")
    result = tfm("wait", job["id"])
    interrupted = f"job {job['id']} (sh): interrupted (reboot)\n"
    assert (result.returncode, result.stdout) == (1, interrupted)


@pytest.mark.slow
def test_a_service_tells_what_to_do(start, outputs, tmp_path):
    first = start()
    number = submitted("--requeue", "--name", "ran", "--", "sleep", "600")
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    again = start(env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert again.get("/v1/jobs")["jobs"] == []
    result = tfm("jobs")
    assert (result.returncode, result.stdout) == (0, "there are no jobs\n")
    assert result.stderr == "tfm: 1 job was interrupted: tfm submit --resume\n"
    result = tfm("submit", "--resume")
    assert result.returncode == 0
    assert result.stdout.startswith(f"job {number} (ran) was interrupted and is submitted again")
    (job,) = again.get("/v1/jobs")["jobs"]
    assert tfm("cancel", job["id"]).returncode == 0
    tfm("wait", job["id"])
    assert tfm("jobs").stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_root_runs_nothing_that_a_user_has_stored(start, outputs, tmp_path):
    """As with `sudo -E tfm controller`, which looks in the user's folder."""
    first = start()
    submitted("--requeue", *program(tmp_path / "go"))
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    for path in (outputs, *outputs.iterdir()):
        os.chown(path, 65534, 65534)
    again = start()
    result = tfm("submit", "--resume")
    assert (result.returncode, result.stdout) == (0, "")
    assert "belongs to user nobody, who is not root" in result.stderr
    assert again.get("/v1/jobs")["jobs"] == []
    assert len(stored(outputs)) == 1


def test_jobs_start_after_the_new_one(start, outputs, tmp_path):
    go = tmp_path / "go"
    first = start()
    number = submitted("--requeue", "--name", "ran", *program(go))
    submitted("--name", "then", "--after", number, "--", "true")
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True, False])
    lose_power(first)
    again = start()
    said(again, "(then) waits again")
    ran, then = again.get("/v1/jobs")["jobs"]
    assert then["after"] == [ran["id"]]
    go.touch()
    assert tfm("wait", then["id"]).returncode == 0


@pytest.mark.slow
def test_an_array_stays_an_array(start, outputs, tmp_path):
    go = tmp_path / "go"
    first = start()
    then = 'echo "index $TF_MALLEABLE_ARRAY_INDEX"'
    result = tfm("submit", "--requeue", "--array", "4-5%1", "--name", "x", *program(go, then))
    assert (result.returncode, result.stderr) == (0, "")
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True, False])
    lose_power(first)
    again = start()
    said(again, "(x[5]) waits again")
    jobs = again.get("/v1/jobs")["jobs"]
    assert [each["name"] for each in jobs] == ["x[4]", "x[5]"]
    assert "no more than 1 of the jobs of its array run at once" in tfm("show", "x[5]").stdout
    go.touch()
    assert tfm("wait", *result.stdout.split()).returncode == 0
    for index in (4, 5):
        assert tfm("logs", f"x[{index}]").stdout.endswith(f"index {index}\n")


def test_a_folder_that_is_gone_is_said_and_the_job_stays(start, outputs, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    first = start()
    number = submitted("--requeue", *program(tmp_path / "go"), cwd=folder)
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    folder.rmdir()
    again = start()
    said(again, f"cannot use {folder}, the folder of job {number} (sh): No such file or directory")
    said(again, f"job {number} (sh) stays stored; tfm submit --resume tries again")
    assert len(stored(outputs)) == 1


def test_what_an_older_version_has_stored_is_understood(start, outputs, tmp_path):
    first = start()
    number = submitted("--retries", "1", *program(tmp_path / "go", "true"))
    wait_for(lambda: [each["started"] for each in stored(outputs)] == [True])
    lose_power(first)
    (path,) = outputs.glob("*.job")
    job = json.loads(path.read_text())
    del job["options"]["requeue"]
    path.write_text(json.dumps(job))
    said(start(), f"job {number} (sh) was interrupted and is submitted again as job ")
    (tmp_path / "go").touch()
    assert tfm("wait", number).returncode == 0


def test_files_of_others_and_nonsense_are_left_alone(start, outputs):
    start()
    assert submitted("--", "true") == "1"
    (outputs / "x.job").write_text('{"output": "/etc/passwd"}')
    result = tfm("submit", "--resume")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == (f"tfm: cannot understand {outputs / 'x.job'}: delete it, or upgrade\n")
    if os.geteuid() == 0:
        (outputs / "x.job").write_text("{}")
        os.chown(outputs / "x.job", 65534, 65534)
        result = tfm("submit", "--resume")
        assert (result.returncode, result.stdout) == (0, "")
        assert "belongs to user" in result.stderr


def test_it_is_for_the_background():
    result = tfm("run", "--requeue", "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "tfm: --requeue is for jobs in the background: give --detach, too\n"
    result = tfm("submit", "--resume", "--", "true")
    assert result.returncode == 2
    assert "give no program" in result.stderr
    assert "COMMAND" in tfm("submit").stderr
