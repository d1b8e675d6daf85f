# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers as jobs, on a real engine: started, resized, paused, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support import controllers
from tests.support.commands import answer, listening, tfm
from tests.support.containers import BUSY, SLEEP
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE

CPUS = sorted(os.sched_getaffinity(0))
TWO = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs to share out")
ONE = ("--cpus", str(CPUS[0]), "--policy", "fcfs-strict")
BOTH = ("--cpus", ",".join(map(str, CPUS[:2])), "--policy", "equal")


def test_output_and_exit_code_are_the_container_s(containers):
    with containers.controller(*ONE):
        name = containers.name("one")
        script = "echo out; echo err >&2; exit 7"
        done = containers.run("--name", name, "--max", "1", script=script)
        assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
        (record,) = containers.ended(1)
        assert (record["name"], record["outcome"], record["exit_code"]) == (name, "failed", 7)
        assert containers.names() == [name]


def test_one_that_is_to_be_removed_is(containers):
    with containers.controller(*ONE):
        done = containers.run(
            "--rm", "--max", "1", "--name", containers.name("rm"), script="exit 3"
        )
        assert (done.returncode, done.stderr) == (3, "")
        assert containers.names() == []


def test_without_a_controller_it_runs_alone(containers):
    done = containers.run("--rm", script="echo here")
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert done.stderr == f"tfm: no controller answers at {containers.socket}, running alone\n"


def test_beside_a_controller_that_cannot_be_reached_it_runs_alone(containers):
    containers.socket.parent.mkdir()
    with listening(containers.socket) as server:
        running = containers.popen("--rm", script="echo here")
        answer(server, b"220 mail.example.com ESMTP\r\n")
        out, err = running.communicate(timeout=controllers.DEADLINE)
    assert (running.returncode, out) == (0, "here\n")
    assert err.startswith(f"tfm: cannot reach the controller at {containers.socket} (")
    assert err.endswith("), running alone\n")


def test_options_reach_the_container(containers, tmp_path):
    (tmp_path / "env").write_text("# a comment\nFROM_FILE=1\n")
    done = containers.run(
        *("--rm", "-e", "A=b c", "--env-file", str(tmp_path / "env"), "-w", "/var", "-u", "0:34"),
        *("-m", "64m", "--shm-size", "8m", "-l", "mine=yes", "--network", "none"),
        *("-v", f"{tmp_path}:/data:ro", "--tmpfs", "/scratch"),
        script="echo $A $FROM_FILE $PWD $(id -u):$(id -g) $(ls /data) $(stat -fc %T /scratch)",
    )
    assert done.stdout.split() == ["b", "c", "1", "/var", "0:34", "env", "tmpfs"]


def test_jobs_wait_in_the_queue_until_there_are_cores(containers):
    with containers.controller(*ONE):
        first = containers.start("first", "--max", "1")
        waiting = containers.popen(
            "--max", "1", "--name", containers.name("second"), script="echo ran"
        )
        job = containers.until(containers.name("second"), state="waiting")
        assert job["pid"] is None
        assert containers.inspect(containers.name("second"))["State"]["Status"] == "created"
        assert containers.tfm("container", "stop", first).returncode == 0
        out, err = waiting.communicate(timeout=controllers.DEADLINE)
        assert (waiting.returncode, out) == (0, "ran\n")
        assert err in (
            "",
            f"tfm: job {job['id']} is waiting for 1 core; tfm jobs shows the queue\n",
        )
        assert [record["outcome"] for record in containers.ended(2)] == ["cancelled", "finished"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_while_it_waits_is_gone(containers, number):
    with containers.controller(*ONE):
        first = containers.start("first", "--max", "1")
        name = containers.name("second")
        waiting = containers.popen("--max", "1", "--name", name)
        assert waiting.stderr is not None
        assert "is waiting for 1 core" in waiting.stderr.readline()
        waiting.send_signal(number)
        waiting.communicate(timeout=controllers.DEADLINE)
        assert waiting.returncode == 130
        # The engine refuses a second removal while the first one is in progress.
        wait_for(lambda: containers.names() == [first])
        assert containers.ended(1)[0]["outcome"] == "cancelled"


def test_signals_reach_what_runs(containers):
    with containers.controller(*ONE):
        script = "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.01; done"
        running = containers.popen("--rm", "--max", "1", script=script)
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=controllers.DEADLINE)
        assert (running.returncode, out) == (9, "told\n")


@TWO
def test_the_kernel_has_what_is_granted(containers):
    with containers.controller(*BOTH):
        one = containers.start("one", script=BUSY)
        containers.actual(one=2)
        assert containers.kernel(one).cpus == frozenset(CPUS[:2])
        two = containers.start("two", script=BUSY)
        jobs = containers.actual(one=1, two=1)
        for name in (one, two):
            assert containers.kernel(name).cpus == frozenset(jobs[name]["actual"])
        assert not set(jobs[one]["actual"]) & set(jobs[two]["actual"])
        said = containers.tfm("container", "set", one, "2")
        assert "set to 2 cores by hand; it runs on CPUs" in said.stdout, said
        containers.actual(one=2)
        wait_for(lambda: containers.kernel(two).frozen)
        assert containers.kernel(one).cpus == frozenset(CPUS[:2])
        containers.tfm("container", "set", one, "auto")
        containers.actual(one=1, two=1)
        assert not containers.kernel(two).frozen
        assert containers.inspect(two)["HostConfig"]["CpusetCpus"] == str(jobs[two]["actual"][0])


@TWO
def test_a_quota_can_be_changed_instead(containers):
    with containers.controller(*BOTH):
        name = containers.start("quota", "--resize", "quota", script=BUSY)
        containers.actual(quota=2)
        assert containers.kernel(name).quota_cpus == 2
        containers.tfm("container", "set", name, "1")
        containers.actual(quota=1)
        assert containers.kernel(name).quota_cpus == 1
        assert containers.kernel(name).cpus == frozenset(os.sched_getaffinity(0))


@TWO
def test_a_quota_that_was_given_as_cpus_can_be_changed_too(containers):
    labels = {"tf_malleable.job": "x", "tf_malleable.socket": str(containers.socket)}
    with containers.controller(*BOTH):
        containers.client.containers.run(
            containers.image,
            ["-c", BUSY],
            entrypoint="/bin/sh",
            name=containers.name("nano"),
            labels={**labels, "tf_malleable.resize": "quota"},
            volumes=containers.volumes,
            nano_cpus=2 * 10**9,
            detach=True,
        )
        containers.until(containers.name("nano"), state="running")
        containers.tfm("container", "set", containers.name("nano"), "1")
        containers.actual(nano=1)
        assert containers.kernel(containers.name("nano")).quota_cpus == 1


def test_pause_and_resume(containers):
    with containers.controller(*ONE):
        name = containers.start("one", "--max", "1", script=BUSY)
        assert "paused; resume it with" in containers.tfm("container", "pause", name).stdout
        wait_for(lambda: containers.kernel(name).frozen)
        assert containers.jobs()[name]["state"] == "paused"
        assert containers.inspect(name)["State"]["Paused"]
        assert "resumed; it runs on CPUs" in containers.tfm("container", "resume", name).stdout
        assert not containers.kernel(name).frozen


def test_a_labelled_container_of_docker_s_own_is_a_job(containers):
    with containers.controller(*ONE):
        labels = {"tf_malleable.job": "by hand", "tf_malleable.socket": str(containers.socket)}
        made = containers.client.containers.run(
            containers.image,
            ["-c", SLEEP],
            entrypoint="/bin/sh",
            name=containers.name("hand"),
            labels={**labels, "tf_malleable.max": "1", "tf_malleable.weight": "2.5"},
            volumes=containers.volumes,
            detach=True,
        )
        job = containers.until(made.name, state="running")
        assert (job["name"], job["max"], job["weight"]) == ("by hand", 1, 2.5)
        containers.actual(hand=1)


def test_they_share_with_programs_of_the_host(containers):
    with (
        containers.controller(*ONE) as controller,
        controllers.job(controller.socket) as program,
    ):
        job = program.submit(max=1)
        waiting = containers.popen("--max", "1", "--name", containers.name("c"), script="exit 0")
        containers.until(containers.name("c"), state="waiting")
        assert controller.get(f"/v1/jobs/{job}")["state"] == "running"
        program.end()
        waiting.communicate(timeout=controllers.DEADLINE)
        assert waiting.returncode == 0


def test_list_and_jobs_show_them(containers):
    with containers.controller(*ONE):
        assert containers.tfm("container", "list").stdout == "there are no containers\n"
        name = containers.start("shown", "--max", "1", "--job", "a training")
        job = containers.actual(shown=1)[name]
        assert job["name"] == "a training"
        header, row = containers.tfm("container", "list").stdout.splitlines()
        assert header.split()[:3] == ["container", "name", "image"]
        assert row.split()[:2] == [containers.inspect(name)["Id"][:12], name]
        assert "a training" in containers.tfm("jobs").stdout
        assert f'"name": "{name}"' in containers.tfm("container", "list", "--json").stdout


def test_what_is_inside_may_speak_of_its_own_job_only(containers):
    code = """
import sys
from tf_malleable.api.transport.address import default_socket
from tf_malleable.api.transport.connection import Connection
from tf_malleable.model import ControllerError
connection = Connection(default_socket())
for method, path, body in (
    ("POST", f"/v1/jobs/{sys.argv[1]}/pause", None),
    ("PUT", "/v1/policy", {"policy": "equal"}),
    ("POST", "/v1/containers", {"container": "x"}),
):
    try:
        connection.request(method, path, body)
    except ControllerError as error:
        print(error.status, error)
status = connection.request("POST", "/v1/jobs", {"name": "me"})
print(status["id"], status["container"]["name"])
connection.request("POST", f"/v1/jobs/{status['id']}/cancel")
"""
    with containers.controller(*BOTH) as controller, controllers.job(controller.socket) as program:
        other = program.submit(max=1)
        name = containers.name("inside")
        options = ["--rm", "--name", name, "--entrypoint", sys.executable, "--", "-c", code, other]
        done = containers.run("--max", "1", *options, script=None)
        refused = "403 processes in job 2 may access only that job"
        assert done.stdout.splitlines() == [refused] * 3 + [f"2 {name}"]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--min", "3", "--max", "2"], 2, "a shape must have 1 ≤ min ≤ preferred ≤ max"),
        (["--min", "0"], 2, "min must be an integer from 1 to 65536, not 0"),
        (
            ["--min", "5000"],
            2,
            "min must be at most 1, the number of CPUs shared out here, not 5000",
        ),
        (["--weight", "0"], 2, "weight must be a number above 0, at most 1000, not 0"),
        (["--label", "tf_malleable.min=1"], 2, "--label must be NAME or NAME=VALUE"),
        (["--env", "=x"], 2, "--env must be NAME=VALUE or NAME, not '=x'"),
        (["--env-file", "/nowhere"], 2, "cannot read /nowhere: No such file"),
        (["--publish", "x"], 2, "--publish must be PORT or HOST:PORT, not 'x'"),
        (["--gpus", "few"], 2, "--gpus must be all or a number, not 'few'"),
        (["--memory", "lots"], 125, "lots"),
        (["--name", "no/name"], 125, "Invalid container name"),
        (["--nonsense"], 2, "No such option '--nonsense'"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(containers, options, code, sentence):
    with containers.controller(*ONE):
        done = containers.run(*options)
        assert (done.returncode, done.stdout) == (code, "")
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert containers.jobs() == {}
    label = f"tf_malleable.socket={containers.socket}"
    assert containers.client.api.containers(all=True, filters={"label": label}) == []


def test_a_bad_line_of_an_env_file_is_blamed_on_the_file(tmp_path):
    file = tmp_path / "env"
    file.write_text("A=1\n=x\n")
    done = tfm("container", "run", "--image", "any", "--env-file", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tfm: --env-file: each line of {file} must be NAME=VALUE or NAME, not '=x'\n"
    )


def test_an_image_that_is_nowhere_is_named(containers):
    containers.image = "tf-malleable-has-no-such-image"
    done = containers.run()
    assert done.returncode == 125
    *_, sentence = done.stderr.splitlines()
    assert "cannot pull image tf-malleable-has-no-such-image, which does not exist" in sentence


def test_a_program_that_is_not_there(containers):
    with containers.controller(*ONE):
        done = containers.run("--rm", "--entrypoint", "/no/program", script=None)
        assert done.returncode == 127
        assert "/no/program" in done.stderr
        done = containers.run("--entrypoint", "/no/program", script=None)
        assert done.returncode == 127
        assert "/no/program" in done.stderr
        assert [record["outcome"] for record in containers.ended(2)] == ["failed", "failed"]
        assert containers.jobs() == {}


def test_unknown_containers_and_those_of_others_are_refused(containers):
    with containers.controller(*ONE):
        said = containers.tfm("container", "pause", "no-such-thing")
        assert (said.returncode, said.stderr) == (1, "tfm: there is no container 'no-such-thing'\n")
        foreign = containers.client.containers.create(
            containers.image, ["true"], name=containers.name("foreign")
        )
        for command in ("pause", "resume", "stop"):
            said = containers.tfm("container", command, foreign.name)
            assert said.returncode == 1
            assert f"the container {foreign.name} is not a job of this controller" in said.stderr
        said = containers.tfm("container", "set", foreign.name, "1")
        assert "it has no label tf_malleable.job" in said.stderr
        assert foreign.name in containers.names()


def test_labels_that_cannot_be_are_named(containers):
    with containers.controller(*ONE) as controller:
        labels = {"tf_malleable.job": "x", "tf_malleable.socket": str(containers.socket)}
        name = containers.name("bad")
        containers.client.containers.run(
            containers.image,
            ["-c", SLEEP],
            entrypoint="/bin/sh",
            name=name,
            labels={**labels, "tf_malleable.min": "many"},
            volumes=containers.volumes,
            detach=True,
        )
        said = containers.tfm("container", "pause", name)
        assert 'min must be an integer from 1 to 65536, not "many"' in said.stderr
        assert controller.get("/v1/jobs")["jobs"] == []
        assert containers.inspect(name)["State"]["Running"]


def test_without_an_engine_a_sentence_says_so(tmp_path):
    command = [controllers.TFM, "container", "run", "--image", "x", "--", "true"]
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=DEADLINE)
    assert done.returncode == 125
    assert done.stderr.startswith(
        f"tfm: no container engine answers at unix://{tmp_path}/none.sock"
    )
    assert len(done.stderr.splitlines()) == 1


def test_sigterm_ends_a_program_without_a_handler(containers):
    with containers.controller(*ONE):
        running = containers.popen("--rm", "--max", "1", script="echo up; exec sleep 600")
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=controllers.DEADLINE)
        assert running.returncode == 128 + signal.SIGTERM


def test_one_that_was_killed_for_lack_of_memory_says_so(containers):
    with containers.controller(*ONE):
        done = containers.run("--memory", "64m", script="tail /dev/zero")
        assert done.returncode != 0
        (record,) = wait_for(
            lambda: [each for each in containers.ended(1) if each["cause"] == "out-of-memory"]
        )
        assert record["outcome"] == "failed"
