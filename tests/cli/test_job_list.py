# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm jobs, set, pause, resume, cancel and policy: what people see and decide."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import controllers
from tests.support.commands import CPU, running, started, tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_arguments import of_caller
from tf_malleable.policies.registry import DEFAULT


def out(*arguments: str) -> str:
    """Return what a command prints, which is all it says."""
    result = tfm(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def failure(*arguments: str) -> str:
    """Return the one line of a command that fails."""
    result = tfm(*arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.removesuffix("\n")


@contextmanager
def running_second(controller) -> Iterator[subprocess.Popen[str]]:
    """Have a second job wait for cores for the length of a with statement."""
    with started("run", "--name", "two", "--", "true") as process:
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        yield process


def state_of(pid: int) -> str:
    """Return the state of a process as /proc has it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_jobs_are_listed_with_desired_granted_and_actual_cores(controller):
    assert out("jobs") == "there are no jobs\n"
    with running("--name", "first"), started("run", "--name", "second [b]", "--", "true"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        header, first, second = out("jobs").splitlines()
        assert header.split()[:7] == ["id", "name", "user", "state", "desired", "granted", "actual"]
        columns = first.split()
        assert (columns[0], columns[1]) == ("1", "first")
        assert columns[3:7] == ["running", "1", "1", "1"]
        # Not taken for a colour.
        assert "second [b]" in second
        assert second.split()[4:8] == ["waiting", "1", "0", "0"]
        listed = json.loads(out("jobs", "--json"))["jobs"]
        assert [job["name"] for job in listed] == ["first", "second [b]"]
        assert listed[0].keys() == controller.get("/v1/jobs/1").keys()


def test_cores_are_set_by_hand_until_auto(tmp_path, patiently):
    with controllers.controller(tmp_path, "--policy", "equal") as controller:
        most = len(controller.get("/v1")["cpus"])
        with running("--name", "one") as process:
            if most > 1:
                assert len(os.sched_getaffinity(process.pid)) == most
            said = patiently("set", "one", "1")
            cpus = os.sched_getaffinity(process.pid)
            assert len(cpus) == 1
            assert said == f"job 1 (one): set to 1 core by hand; it runs on CPUs {min(cpus)}\n"
            assert "1*" in out("jobs")
            assert out("set", "1", "1").startswith(
                "job 1 (one): no change, its cores are already set"
            )
            said = out("set", "1", "auto")
            assert said.startswith(
                "job 1 (one): its cores are decided by the policy again; it runs on"
            )
            assert len(os.sched_getaffinity(process.pid)) == most
            assert out("set", "1", "auto").startswith(
                "job 1 (one): no change, its cores are already decided"
            )
            answer = json.loads(out("set", "1", "1", "--json"))
            assert (answer["by_hand"], len(answer["actual"])) == (1, 1)


def test_cores_that_are_not_there_are_refused(controller):
    with running("--name", "first"), started("run", "--name", "second", "--", "true"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        assert failure("set", "second", "5").startswith("tfm: cannot set 5 cores: only ")
        assert out("set", "first", "1").startswith("job 1 (first): set to 1 core by hand; it runs")
        assert "set by hand for other jobs" in failure("set", "second", "1")


@pytest.mark.parametrize("cores", ["0", "two", "1.5", "65537", "²", "+", "+x", "+0"])
def test_cores_that_cannot_be_are_bad_input(cores):
    result = tfm("set", "1", cores)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "tfm: CORES must be auto, max, an integer from 1 to 65536, or a change such as +1 or -1,"
        f" not {cores!r}\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_cores_are_set_by_a_difference_and_to_the_most(tmp_path):
    with controllers.controller(tmp_path, "--policy", "equal") as controller:
        most = len(controller.get("/v1")["cpus"])
        with running("--name", "one"):
            said = out("set", "1", "-1")
            assert said.startswith(f"job 1 (one): set to {most - 1} core")
            assert out("set", "1", "+1").startswith(f"job 1 (one): set to {most} cores by hand; ")
            assert "only" in failure("set", "1", "+1")
            assert out("set", "1", "--priority", "-3", "-1").startswith(
                f"job 1 (one): priority set to -3, set to {most - 1} core"
            )
            assert out("set", "1", "max").startswith(f"job 1 (one): set to {most} cores by hand; ")
            assert out("set", "1", "--max", "1").startswith("job 1 (one): max set to 1; ")
            assert out("set", "1", "max").startswith("job 1 (one): set to 1 core by hand; ")
            assert failure("set", "1", "-1") == (
                "tfm: job 1 (one) has 1 core, and cannot have less: tfm pause takes all away"
            )
            with running("--name", "two"):
                assert out("set", "one", "auto")
                assert out("set", "two", "1")
                assert out("set", "one", "--max", str(most))
                said = out("set", "one", "max").splitlines()[-1]
                assert said.startswith(f"job 1 (one): set to {most - 1} core")


def test_a_job_is_paused_and_resumed(controller, patiently):
    with running("--name", "one") as process:
        assert out("pause", "one") == "job 1 (one): paused; resume it with: tfm resume 1\n"
        wait_for(lambda: state_of(process.pid) == "T")  # As soon as it runs.
        assert " paused " in out("jobs")
        assert out("pause", "1") == "job 1 (one): no change, it is already paused\n"
        assert patiently("resume", "1") == f"job 1 (one): resumed; it runs on CPUs {CPU}\n"
        assert state_of(process.pid) in "RS"
        said = patiently("resume", "1")
        assert said == f"job 1 (one): no change, it is not paused; it runs on CPUs {CPU}\n"
        said = json.loads(out("pause", "1", "--json"))
        assert (said["paused_by_user"], said["held"]) == (True, True)
        assert json.loads(out("resume", "1", "--json"))["state"] == "running"


def test_what_cannot_be_done_yet_is_pending(controller):
    with running("--name", "one"):
        out("pause", "one")
        with running("--name", "other"):
            said = out("resume", "one")
            assert said == (
                "job 1 (one): resumed; pending, it is held until enough cores are free\n"
            )


def test_what_only_a_person_can_end_is_pending_for_that_reason(controller):
    with running("--name", "one") as process:
        out("pause", "one")
        said = out("set", "one", "1")
        assert said == (
            "job 1 (one): set to 1 core by hand;"
            " pending, it is paused; resume it with: tfm resume 1\n"
        )
        out("resume", "one")
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: controller.get("/v1/jobs/1")["stopped"])
        said = out("resume", "one")
        assert said == (
            "job 1 (one): no change, it is not paused;"
            " pending, its processes were stopped by a signal\n"
        )


def test_a_job_in_the_queue_is_paused(controller):
    with running("--name", "one") as one, started("run", "--name", "two", "--", "echo") as two:
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        said = out("pause", "two")
        assert said == "job 2 (two): paused in the queue; resume it with: tfm resume 2\n"
        one.kill()
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 1)
        assert two.poll() is None
        # It may be over before anybody can look.
        assert out("resume", "two").startswith("job 2 (two): resumed; ")
        assert two.wait(DEADLINE) == 0


def test_cancel_ends_a_job_even_a_paused_one(controller, patiently):
    with running("--name", "one") as process:
        out("pause", "one")
        assert patiently("cancel", "one") == "job 1 (one): cancelled; it has ended\n"
        assert process.wait(DEADLINE) == -signal.SIGTERM
    (record,) = controller.get("/v1/history")["jobs"]
    assert record["outcome"] == "cancelled"


def test_a_job_that_does_not_obey_is_pending(controller):
    program = "trap '' TERM; echo started; while :; do sleep 0.1; done"
    with started("run", "--name", "deaf", "--", "sh", "-c", program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        assert out("cancel", "deaf") == ("job 1 (deaf): cancelled; pending, it is still running\n")


def test_several_jobs_are_changed_at_once(controller, patiently):
    with running("--name", "one"), started("run", "--name", "two", "--", "true"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        # Named twice, changed once; in this order, or the second would start meanwhile.
        assert out("pause", "2", "one", "1") == (
            "job 2 (two): paused in the queue; resume it with: tfm resume 2\n"
            "job 1 (one): paused; resume it with: tfm resume 1\n"
        )
        assert [job["held"] for job in controller.get("/v1/jobs")["jobs"]] == [True, True]
        listed = json.loads(out("pause", "1", "2", "--json"))["jobs"]
        assert [job["id"] for job in listed] == ["1", "2"]
        # If one cannot be found, none is changed.
        assert failure("cancel", "1", "3") == (
            "tfm: there is no job '3'; 'tfm jobs' lists the live jobs"
        )
        assert len(controller.get("/v1/jobs")["jobs"]) == 2
        assert patiently("cancel", "1", "2").splitlines() == [
            "job 1 (one): cancelled; it has ended",
            "job 2 (two): cancelled; it has ended",
        ]


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_jobs_that_wait_do_not_start_when_all_are_changed(controller, tmp_path, verb):
    mark = tmp_path / "started"
    with (
        running("--name", "one"),
        started("run", "--name", "two", "--", "touch", str(mark)) as two,
    ):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        said = [line.split(";")[0] for line in out(verb, "1", "2").splitlines()]
        done, where = ("cancelled", "") if verb == "cancel" else ("paused", " in the queue")
        assert said == [f"job 1 (one): {done}", f"job 2 (two): {done}{where}"]
        if verb == "cancel":
            assert two.wait(DEADLINE) == -signal.SIGTERM
            outcomes = [job["started"] for job in controller.get("/v1/history")["jobs"]]
            assert None in outcomes
        else:
            assert [job["granted"] for job in controller.get("/v1/jobs")["jobs"]] == [[], []]
        assert not mark.exists()


def test_jobs_are_named_by_patterns_and_all_together(controller):
    assert out("cancel", "--mine") == "there are no such jobs\n"
    assert json.loads(out("pause", "--all", "--json")) == {"jobs": []}
    with (
        running("--name", "fold-1"),
        started("run", "--name", "fold-2", "--", "sleep", "600"),
        started("run", "--name", "other", "--", "sleep", "600"),
    ):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 3)

        def changed(*arguments: str) -> list[str]:
            return re.findall(r"^job [0-9]+ \((.*?)\): ", out(*arguments), re.MULTILINE)

        assert sorted(changed("pause", "fold-*")) == ["fold-1", "fold-2"]
        assert sorted(changed("pause", "fol?-1", "other")) == ["fold-1", "other"]
        assert len(changed("resume", "--mine")) == 3
        assert failure("pause", "f*x") == "tfm: no live job of yours has a name like 'f*x'"
        for words in (["pause"], ["cancel", "--mine", "--all"], ["resume", "--all", "other"]):
            result = tfm(*words)
            assert (result.returncode, result.stdout) == (2, "")
            assert re.search(r"--mine (or|and) --all", result.stderr)
        # What tfm wait alone waits for.
        client = Client(controller.socket)
        assert len(of_caller(client, client.jobs())) == 3
        assert len(changed("cancel", "--all")) == 3
        wait_for(lambda: not client.jobs())
    assert out("wait") == ""


def test_priority_and_most_cores_are_set(controller, patiently):
    with running("--name", "one"):
        said = patiently("set", "one", "--priority", "5", "--max", "1")
        assert said == f"job 1 (one): priority set to 5, max set to 1; it runs on CPUs {CPU}\n"
        job = controller.get("/v1/jobs/1")
        assert (job["priority"], job["max"]) == (5, 1)
        said = patiently("set", "one", "--max", "2")
        assert said.startswith("job 1 (one): max set to 1, not 2: there are no more here; it runs")
        result = tfm("set", "one", "--max", "0")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("tfm: max must be ")
        result = tfm("set", "one")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == "tfm: nothing to set: give CORES, --priority, --max or --slo\n"


def test_it_says_whom_it_takes_cores_from_before_it_does(controller):
    with running("--name", "one"), running_second(controller) as second:
        user = controller.get("/v1/jobs/1")["user"]
        would = out("set", "two", "1", "--dry-run")
        assert would == f"job 1 (one, {user}): 1 core now, would have 0\n"
        assert controller.get("/v1/jobs/1")["granted"] == [CPU]
        preview = json.loads(out("set", "two", "1", "--dry-run", "--json"))
        assert [(each["id"], each["after"]) for each in preview["changes"]] == [("1", 0), ("2", 1)]
        first, then = out("set", "two", "1").splitlines()
        assert first == f"job 2 (two): takes 1 core from job 1 (one, {user})"
        assert then.startswith("job 2 (two): set to 1 core by hand; ")
        assert second.wait(DEADLINE) == 0


def test_a_job_is_shown_with_what_it_waits_for(controller):
    with running("--name", "one"), running_second(controller):
        shown = dict(line.split("  ", 1) for line in out("show", "two").splitlines())
        shown = {name.strip(): value.strip() for name, value in shown.items()}
        assert shown["state"] == "waiting"
        assert shown["reason"] == "it needs 1 core, 0 of 1 are free"
        assert "a guess" in shown["expected start"]
        assert shown["command"] == "true"
        assert "reason" not in out("show", "one")
        document = json.loads(out("show", "two", "--json"))
        assert document["job"]["name"] == "two"
        assert document["outlook"]["reason"] == shown["reason"]
        out("cancel", "one")
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    ended = out("show", "one")
    assert re.search(r"^outcome +cancelled$", ended, re.MULTILINE)
    assert failure("show", "three") == (
        "tfm: there is no job 'three'; 'tfm jobs' and 'tfm history' list them"
    )


def test_how_long_a_program_will_take_to_its_first_step_is_shown(controller):
    program = "import time, tf_malleable as tfm; tfm.progress(1, 2); time.sleep(600)"
    line = re.compile(r"^time to first step +\d+(\.\d+)? s$", re.MULTILINE)
    with started("run", "--name", "x", "--", sys.executable, "-c", program) as first:
        wait_for(lambda: [job["steps_done"] for job in controller.get("/v1/jobs")["jobs"]] == [1])
        assert not line.search(out("show", "x"))
        out("cancel", "x")
        first.wait(DEADLINE)
    with running("--name", "x"):
        assert line.search(out("show", "x"))


def test_a_name_must_be_one_job_s(controller):
    with running("--name", "twin"), started("run", "--name", "twin", "--", "true"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        assert failure("pause", "twin") == (
            "tfm: there are 2 jobs named 'twin'; give the id of one: 1, 2"
        )
        for command in (["pause"], ["resume"], ["cancel"]):
            assert failure(*command, "nobody") == (
                "tfm: there is no job 'nobody'; 'tfm jobs' lists the live jobs"
            )


def test_an_id_goes_before_a_name(controller):
    with running("--name", "2"), started("run", "--name", "other", "--", "true"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        assert out("pause", "2").startswith("job 2 (other): ")


@pytest.mark.parametrize(
    "command",
    [
        *(
            ["jobs"],
            ["jobs", "--json"],
            ["show", "1"],
            ["top"],
            ["top", "--json"],
            ["policy"],
            ["policy", "equal"],
        ),
        *(["set", "1", "1"], ["pause", "1"], ["resume", "1"], ["cancel", "1"]),
    ],
)
def test_without_a_controller_it_says_how_to_start_one(command, socket):
    assert failure(*command) == (
        f"tfm: no controller answers at {socket}; start one with: tfm controller --detach"
    )


def test_another_socket_can_be_named(controller, monkeypatch, tmp_path):
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "nothing"))
    assert out("jobs", "--socket", str(controller.socket)) == "there are no jobs\n"


def test_policies_are_listed_and_switched_live(controller):
    listed = out("policy").splitlines()
    assert listed[0] == "in force: fcfs-strict"
    assert [line.split()[1] for line in listed if line.startswith("*")] == ["fcfs-strict"]
    assert any(line.split()[:1] == ["srpt"] for line in listed)
    assert out("policy", "equal") == "the policy is now equal; it was fcfs-strict\n"
    assert out("policy", "equal") == "no change, the policy is already equal\n"
    answer = json.loads(out("policy", "--json"))
    assert answer["policy"] == controller.get("/v1/policy")["policy"] == "equal"
    assert json.loads(out("policy", "srpt", "--json"))["policy"] == "srpt"


def test_a_policy_with_options_is_marked_too(controller):
    out("policy", "lend+priority-strict:ageing=60")
    marked = [line.split()[1] for line in out("policy").splitlines() if line.startswith("*")]
    assert marked == ["priority-strict"]
    out("policy", DEFAULT)
    marked = [line.split()[1] for line in out("policy").splitlines() if line.startswith("*")]
    assert marked == [DEFAULT]


def test_a_policy_that_is_not_there_is_bad_input(controller):
    result = tfm("policy", "fairest")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert "'fairest'" in result.stderr
    assert controller.get("/v1/policy")["policy"] == "fcfs-strict"
