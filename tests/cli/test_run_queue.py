# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run with a controller: it waits its turn, and gives up its place cleanly."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

from tests.support import controllers
from tests.support.commands import CPU, running, started, tfm
from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE
from tests.support.fake_controller import FakeController

SHOW = """
import json, os
print(json.dumps({
    "pid": os.getpid(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "threads": os.environ.get("TF_MALLEABLE_THREADS"),
    "join": json.loads(os.environ["TF_MALLEABLE_JOIN"]),
}))
"""


def jobs(controller):
    return controller.get("/v1/jobs")["jobs"]


def ended(controller, count):
    """Return the history once so many jobs have ended."""
    return wait_for(lambda: (found := controller.get("/v1/history")["jobs"])[count - 1 :] and found)


def test_a_program_starts_confined_to_its_cores_and_acknowledged(controller):
    with running("--name", "sleeper", "--priority", "3", "--weight", "2.5") as process:
        (job,) = jobs(controller)
        assert os.sched_getaffinity(process.pid) == {CPU}
        assert (job["pid"], job["state"]) == (process.pid, "running")
        assert job["granted"] == job["actual"] == [CPU]
        assert (job["name"], job["priority"], job["weight"]) == ("sleeper", 3, 2.5)
        assert job["command"] == ["sh", "-c", "echo started; exec sleep 600"]


def test_a_program_is_told_its_threads_and_how_to_join(controller, tmp_path):
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    id_file = tmp_path / "id"
    result = tfm("run", "--max", "1", "--id-file", str(id_file), "--", sys.executable, str(script))
    assert (result.returncode, result.stderr) == (0, "")
    shown = json.loads(result.stdout)
    assert (shown["cpus"], shown["threads"]) == ([CPU], "1")
    assert shown["join"]["socket"] == str(controller.socket)
    assert (shown["join"]["name"], shown["join"]["max"]) == ("show.py", 1)
    (record,) = ended(controller, 1)
    assert (record["name"], record["id"]) == ("show.py", id_file.read_text().strip())


def test_threads_are_no_more_than_a_pool_can_have(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        cpus *= 2
    options = ["--cpus", ",".join(map(str, cpus))]
    with controllers.controller(tmp_path, *options):
        env = {**os.environ, "TF_MALLEABLE_MAX_THREADS": "1"}
        result = tfm("run", "--", sys.executable, "-c", SHOW, env=env)
    shown = json.loads(result.stdout)
    assert (shown["cpus"], shown["threads"]) == (sorted(set(cpus)), "1")


@pytest.mark.slow
def test_tensorflow_starts_with_the_granted_cores(controller):
    program = "import tensorflow as tf, tf_malleable; tf.constant(1.0) + 1"
    program += "; print(tf_malleable.get_threads())"
    result = tfm("run", "--", sys.executable, "-c", program)
    assert result.stdout == "Threads(intra=1, inter=1)\n"


def test_exit_code_and_signals_are_the_program_s(controller):
    assert tfm("run", "--", "sh", "-c", "exit 7").returncode == 7
    assert tfm("run", "--", "sh", "-c", "kill -USR1 $$").returncode == -signal.SIGUSR1
    records = ended(controller, 2)
    assert {record["outcome"] for record in records} <= {"failed", "unknown"}


def test_the_second_waits_for_the_first_and_says_so_once(controller):
    with (
        running("--name", "first") as first,
        started("run", "--name", "second", "--", "echo", "ran") as second,
    ):
        assert second.stderr is not None
        assert second.stderr.readline() == (
            "tfm: job 2 is waiting for 1 core; tfm jobs shows the queue\n"
        )
        assert [job["state"] for job in jobs(controller)] == ["running", "waiting"]
        first.kill()
        assert second.communicate(timeout=DEADLINE) == ("ran\n", "")
    assert [record["waiting_seconds"] > 1 for record in ended(controller, 2)] == [False, True]


def beside_waiting(errors: str) -> list[str]:
    """Return what is said beside that a job waits, which is said after a second of it."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return [line for line in lines if " is waiting for 1 core; " not in line]


def test_ctrl_c_while_waiting_gives_up_the_place(controller):
    with running(), started("run", "--", "echo", "ran") as second:
        wait_for(lambda: len(jobs(controller)) == 2)
        second.send_signal(signal.SIGINT)
        output, errors = second.communicate(timeout=DEADLINE)
        assert (second.returncode, output, beside_waiting(errors)) == (130, "", [])
        wait_for(lambda: len(jobs(controller)) == 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_waiting_gives_up_the_place(controller, number):
    with running(), started("run", "--", "echo", "ran") as second:
        wait_for(lambda: len(jobs(controller)) == 2)
        second.send_signal(number)
        output, errors = second.communicate(timeout=DEADLINE)
        assert (second.returncode, output, beside_waiting(errors)) == (-number, "", [])
        wait_for(lambda: len(jobs(controller)) == 1)


def test_cancelled_while_waiting_it_never_runs(controller, patiently):
    with running(), started("run", "--name", "second", "--", "echo", "ran") as second:
        wait_for(lambda: len(jobs(controller)) == 2)
        said = patiently("cancel", "second")
        assert said == "job 2 (second): cancelled; it has ended\n"
        assert second.communicate(timeout=DEADLINE)[0] == ""
        assert second.returncode == -signal.SIGTERM


def test_without_queue_it_is_refused_in_a_sentence(controller):
    with running():
        result = tfm("run", "--no-queue", "--", "echo", "ran")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("tfm: too few cores are free")
        assert len(result.stderr.splitlines()) == 1
        assert len(jobs(controller)) == 1
    wait_for(lambda: not jobs(controller))
    result = tfm("run", "--no-queue", "--", "echo", "ran")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ran\n", "")


def test_more_than_the_machine_is_bad_input(controller):
    result = tfm("run", "--min", "2", "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("tfm: min must be at most 1")
    assert len(result.stderr.splitlines()) == 1


def test_an_id_that_cannot_be_written_is_a_sentence(controller, tmp_path):
    result = tfm("run", "--id-file", str(tmp_path / "no" / "id"), "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"tfm: cannot write {tmp_path}/no/id: No such file or directory\n"


def test_what_cannot_run_does_not_queue(controller):
    with running():
        assert tfm("run", "--", "no-such-program-here").returncode == 127
        assert tfm("run", "--", "/").returncode == 126
        assert len(jobs(controller)) == 1


def test_by_hand_it_does_not_queue(controller):
    with running():
        result = tfm("run", "--threads", "1", "--", "echo", "ran")
        assert (result.stdout, result.stderr) == ("ran\n", "")


def test_inside_a_job_it_shares_that_job_s_cores(controller):
    nested = f"{TFM} run --name inner -- echo inner; echo outer"
    result = tfm("run", "--name", "outer", "--", "sh", "-c", nested)
    assert (result.stdout, result.stderr) == ("inner\nouter\n", "")
    assert [record["name"] for record in ended(controller, 1)] == ["outer"]


def test_tfm_run_may_start_itself(controller):
    result = tfm("run", "--", TFM, "run", "--", "echo", "ran")
    assert (result.stdout, result.stderr) == ("ran\n", "")
    assert len(ended(controller, 1)) == 1


def test_killed_and_restarted_the_controller_keeps_the_place(controller, tmp_path):
    with (
        running("--name", "first") as first,
        started("run", "--name", "second", "--", "echo", "ran") as second,
    ):
        wait_for(lambda: len(jobs(controller)) == 2)
        controller.stop(signal.SIGKILL)
        assert second.stderr is not None
        line = second.stderr.readline()
        if "is waiting" in line:
            line = second.stderr.readline()
        socket = controller.socket
        assert line == f"tfm: the controller at {socket} is gone; waiting until it is back\n"
        # Long enough for it to try in vain, more than once.
        time.sleep(0.5)
        with controllers.controller(tmp_path, "--cpus", str(CPU)) as fresh:
            assert [job["id"] for job in jobs(fresh)] == ["1", "2"]
            first.kill()
            output, errors = second.communicate(timeout=DEADLINE)
            assert output == "ran\n"
            assert "gone" not in errors


def test_a_controller_that_forgot_it_gets_it_anew(controller, tmp_path):
    with running("--name", "first"), started("run", "--name", "second", "--", "echo", "ran") as it:
        wait_for(lambda: len(jobs(controller)) == 2)
        controller.stop(signal.SIGKILL)
        controller.state.unlink()
        with controllers.controller(tmp_path, "--cpus", str(CPU)):
            assert it.communicate(timeout=DEADLINE)[0] == "ran\n"


def test_in_another_pid_namespace_it_waits_its_turn_too(tmp_path):
    with FakeController(tmp_path / "fake.sock") as fake:
        # The controller's pid for a program is not the program's own.
        job = {"id": "7", "pid": 1, "min": 1, "is_caller": True}
        fake.answer_with("jobs", lambda handler: handler.answer(201, job))
        fake.grant([], state="waiting")
        arguments = ["run", "--socket", str(fake.path), "--", "echo", "ran"]
        with started(*arguments) as process:
            fake.wait(lambda: fake.state.streams)
            assert process.poll() is None
            fake.wait_for_acknowledgement(fake.grant({CPU}))
            assert process.communicate(timeout=DEADLINE)[0] == "ran\n"


def test_more_cores_than_there_are_is_all_of_them(controller):
    result = tfm("run", "--max", "4", "--", "true")
    said = "tfm: job 1 can get at most 1 core, not 4: there are no more here"
    assert (result.returncode, result.stderr.splitlines()[0]) == (0, said)
    result = tfm("run", "--", "true", env={**os.environ, "TF_MALLEABLE_RUN_MAX": "4"})
    assert result.returncode == 0
    result = tfm("submit", "--max", "4", "--preferred", "3", "--", "sleep", "600")
    assert (result.returncode, result.stdout) == (0, "3\n")
    assert "job 3 can get at most 1 core, not 4" in result.stderr
    said = tfm("set", "3", "--max", "4").stdout
    assert said.startswith("job 3 (sleep): max set to 1, not 4: there are no more here; ")
    assert tfm("cancel", "3").returncode == 0
    result = tfm("run", "--min", "2", "--", "true")
    assert result.returncode == 2
    assert "min must be at most 1, the number of CPUs shared out here" in result.stderr
