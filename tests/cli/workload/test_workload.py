# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm workload: jobs arrive as a file says, are measured, and none is left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support import controllers
from tests.support.commands import CPU, running, started, tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.jobs import has_ended


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where commands run and leave their files."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


def write(text: str) -> str:
    Path("mix.txt").write_text(text)
    return "mix.txt"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("soon -- true", "a line must begin with the job's arrival time in seconds, not 'soon'"),
        ("-1 -- true", "an arrival must be a finite number of seconds, at least 0, not -1.0"),
        ("nan -- true", "an arrival must be a finite number of seconds, at least 0, not nan"),
        ("0", "Missing argument 'COMMAND...'."),
        ("0 --mim 2 -- true", "No such option"),
        ("0 --help", "No such option"),
        ("0 --min two -- true", "'two' is not a valid integer"),
        ("0 --min 3 --max 2 -- true", "1 ≤ min ≤ preferred ≤ max"),
        ("0 --weight 0 -- true", "weight must be a number above 0"),
        ("0 --threads 1 -- true", "--threads is not allowed in a workload file"),
        ("0 --socket x -- true", "--socket is not allowed in a workload file"),
        ("0 --after 1 -- true", "--after is not allowed in a workload file"),
        ("0 'true", "No closing quotation"),
    ],
)
def test_a_bad_line_is_named(line, message):
    result = tfm("workload", write(f"0 -- true\n{line}\n"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("tfm: mix.txt, line 2: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == ["mix.txt"]


def test_a_file_without_jobs_is_bad_input():
    result = tfm("workload", write("# nothing\n"))
    assert (result.returncode, result.stderr) == (2, "tfm: mix.txt has no jobs\n")
    result = tfm("workload", "none.txt")
    assert result.stderr == "tfm: cannot read none.txt: No such file or directory\n"
    Path("mix.txt").write_bytes(b"\xff\xfe")
    assert tfm("workload", "mix.txt").stderr == "tfm: mix.txt is not a text file\n"


def test_a_dry_run_runs_nothing():
    file = write("0 --max 2 -- touch made\n3 -- sh -c 'echo \"a b\"'\n")
    result = tfm("workload", "--dry-run", file)
    assert (result.returncode, result.stderr) == (0, "")
    _, first, second = result.stdout.splitlines()
    assert first.split() == ["0", "s", "touch", "1", "max", "2", "0", "1", "touch", "made"]
    assert second.rstrip().endswith("sh -c 'echo \"a b\"'")
    plan = json.loads(tfm("workload", "--dry-run", "--json", file).stdout)
    assert [job["at"] for job in plan] == [0.0, 3.0]
    assert sorted(os.listdir()) == ["mix.txt"]


def test_jobs_run_in_turn_and_are_measured(controller):
    file = write(
        "0    --name one -- sh -c 'echo first; sleep 0.5'\n"
        "0.1  --name two/b -- sh -c 'echo second; exit 3'\n"
        "0.1  --name one -- sh -c 'echo third >&2'\n"
    )
    result = tfm("workload", file)
    assert result.returncode == 1
    assert result.stderr.endswith("tfm: 1 of 3 jobs failed; their output is in mix.out\n")
    assert " s  one arrives\n" in result.stderr
    assert " s  two/b fails with 3\n" in result.stderr
    header, *rows, _, summary = result.stdout.splitlines()
    assert header.split()[:4] == ["id", "name", "outcome", "exit"]
    assert sorted(row.split()[1:4] for row in rows) == [
        ["one", "finished", "0"],
        ["one", "finished", "0"],
        ["two/b", "failed", "3"],
    ]
    assert summary.startswith("3 jobs, 1 of them failed: makespan ")
    # On a busy machine, a job may have to wait for so long that its log says so.
    logs = {
        path.name: [line for line in path.read_text().splitlines() if not line.startswith("tfm: ")]
        for path in Path("mix.out").iterdir()
    }
    assert logs == {"one.log": ["first"], "two_b.log": ["second"], "one-2.log": ["third"]}


@pytest.mark.slow
def test_json_has_the_controller_s_own_metrics(controller):
    until = "sh -c 'until [ -e both ]; do sleep 0.1; done; sleep 0.5'"
    file = write(f"0 --name a -- {until}\n0.2 --name b --priority 4 -- {until}\n")
    with started("workload", "--json", "--out", "deep/logs", file) as process:
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        Path("both").touch()
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    found = json.loads(output)
    # In the order of arrival, which on a busy machine is not that of the file.
    first, second = found["jobs"]
    assert {first["name"], second["name"]} == {"a", "b"}
    # It came while the only CPU was taken.
    assert first["waiting_seconds"] < second["waiting_seconds"]
    assert second["waiting_seconds"] > 0.5
    assert 0.5 <= first["service_seconds"] < first["total_seconds"] + 0.001
    assert found["summary"]["jobs"] == 2
    assert found["summary"]["makespan"] >= 1
    assert {span["state"] for span in found["spans"] if span["job"] == second["id"]} == {
        "waiting",
        "running",
    }
    kept = {record["id"]: record for record in controller.get("/v1/history")["jobs"]}
    assert kept[second["id"]]["waiting_seconds"] == second["waiting_seconds"]
    assert sorted(os.listdir("deep/logs")) == ["a.log", "b.log"]


def test_a_controller_that_is_restarted_meanwhile_knows_all(controller, tmp_path):
    until = f"until [ -e {tmp_path}/restarted ]; do sleep 0.1; done"
    file = write(f"0 --name a -- sh -c '{until}'\n0.1 --name b -- sh -c '{until}; echo ran'\n")
    with started("workload", "--json", file) as process:
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        controller.stop(signal.SIGKILL)
        with controllers.controller(tmp_path, "--cpus", str(CPU)):
            (tmp_path / "restarted").touch()
            output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert [job["outcome"] for job in json.loads(output)["jobs"]] == ["finished", "finished"]
    assert Path("mix.out/b.log").read_text().endswith("ran\n")


@pytest.mark.slow
def test_a_job_lasts_as_long_as_what_its_program_leaves_behind(controller):
    # Longer than the history is waited for.
    lasting = "sh -c 'nohup sh -c \"sleep 7; touch trained\" >/dev/null 2>&1 &'"
    result = tfm("workload", write(f"0 -- {lasting}\n"), "--json")
    assert result.returncode == 0, result.stderr
    assert Path("trained").exists()
    (job,) = json.loads(result.stdout)["jobs"]
    assert job["total_seconds"] >= 7


def test_interrupted_it_ends_what_a_program_has_left_behind(controller):
    lasting = "sh -c 'nohup sleep 600 >/dev/null 2>&1 & echo $! >pid'"
    with started("workload", write(f"0 -- {lasting}\n")) as process:
        wait_for(lambda: [job for job in controller.get("/v1/jobs")["jobs"] if job["remaining"]])
        pid = int(Path("pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 128 + signal.SIGTERM
    wait_for(lambda: has_ended(pid))
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])


def test_jobs_of_others_do_not_count(controller):
    assert tfm("run", "--name", "other", "--", "false").returncode == 1
    result = tfm("workload", "--json", write("0 --name mine -- true\n"))
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert [job["name"] for job in found["jobs"]] == ["mine"]
    assert found["summary"]["failures"] == 0
    assert {span["job"] for span in found["spans"]} == {"2"}


def test_a_job_that_is_refused_has_failed(controller):
    file = write("0 --name long -- sleep 0.1\n0.5 --name hasty --no-queue -- true\n")
    log = Path("mix.out/hasty.log")
    # On a busy machine, either of the two may come first.
    with running() as other, started("workload", "--json", file) as process:
        wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
        other.kill()
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    found = {job["name"]: job for job in json.loads(output)["jobs"]}
    outcomes = {name: job["outcome"] for name, job in found.items()}
    assert outcomes == {"long": "finished", "hasty": "failed"}
    hasty = found["hasty"]
    assert (hasty["started"], hasty["service_seconds"], hasty["core_seconds"]) == (None, 0, 0)
    assert hasty["waiting_seconds"] == hasty["total_seconds"] > 0
    assert found["long"]["core_seconds"] > 0
    assert log.read_text().startswith("tfm: too few cores are free")


def test_a_job_that_was_cancelled_has_not_finished(controller):
    with started("workload", "--json", write("0 --name it -- sleep 600\n")) as process:
        wait_for(lambda: controller.get("/v1/jobs")["jobs"])
        tfm("cancel", "it")
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert [job["outcome"] for job in json.loads(output)["jobs"]] == ["cancelled"]


def test_alone_nothing_of_ours_is_in_the_job(monkeypatch):
    program = "import os; print([v for v in os.environ if v.startswith('TF_MALLEABLE_J')])"
    result = tfm("workload", "--alone", write(f'0 --name it -- {sys.executable} -c "{program}"\n'))
    assert result.returncode == 0
    assert Path("mix.out/it.log").read_text() == "[]\n"


def test_without_a_controller_nothing_starts(socket):
    result = tfm("workload", write("0 -- touch made\n"))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"tfm: no controller answers at {socket}; start one with: tfm controller --detach\n"
    )
    assert sorted(os.listdir()) == ["mix.txt"]


def test_output_that_cannot_be_written_is_a_sentence():
    result = tfm("workload", "--alone", "--out", "mix.txt/x", write("0 -- true\n"))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "tfm: cannot use mix.txt/x: Not a directory\n"


NEST = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}\\n")
time.sleep(600)
"""


def nested_job(name: str) -> str:
    Path("nest.py").write_text(NEST)
    return f"0 --name {name} -- {sys.executable} nest.py {name}.pids\n"


def pids(name: str) -> list[int]:
    file = Path(f"{name}.pids")
    return wait_for(lambda: file.exists() and [int(pid) for pid in file.read_text().split()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_interrupted_it_leaves_no_job_behind(controller, number, code):
    file = write(nested_job("runs") + "2 --name waits -- true\n900 --name later -- true\n")
    with started("workload", file) as process:
        found = pids("runs")
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        process.send_signal(number)
        output, errors = process.communicate(timeout=DEADLINE)
        assert (process.returncode, output) == (code, "")
        assert "Traceback" not in errors
    assert len(found) == 2
    assert all(map(has_ended, found))
    records = wait_for(lambda: len(ended := controller.get("/v1/history")["jobs"]) == 2 and ended)
    assert {record["outcome"] for record in records} == {"cancelled"}


def test_interrupted_it_ends_paused_jobs_too(controller):
    with started("workload", write(nested_job("runs"))) as process:
        found = pids("runs")
        assert tfm("pause", "runs").returncode == 0
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
    assert all(map(has_ended, found))


def test_interrupted_alone_it_leaves_no_job_behind():
    with started("workload", "--alone", write(nested_job("runs"))) as process:
        found = pids("runs")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
    assert all(map(has_ended, found))


def test_under_nohup_it_outlives_the_terminal():
    def ignore_hang_up():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    file = write(nested_job("runs"))
    with started("workload", "--alone", file, preexec_fn=ignore_hang_up) as process:
        found = pids("runs")
        # If both were obeyed, SIGHUP with its lower number would be first.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 143
    assert all(map(has_ended, found))


@pytest.mark.slow
def test_a_child_that_does_not_obey_is_killed_after_a_while():
    deaf = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    Path("parent.sh").write_text(f'sh -c "{deaf.replace("$$", chr(92) + "$$")}" & wait\n')
    with started("workload", "--alone", write("0 --name it -- sh parent.sh\n")) as process:
        log = Path("mix.out/it.log")
        pid = int(wait_for(lambda: log.exists() and log.read_text()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
    assert has_ended(pid)


@pytest.mark.serial("it measures time")
def test_a_job_that_does_not_obey_is_killed_at_once_if_told_twice():
    deaf = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    with started("workload", "--alone", write(f'0 --name deaf -- sh -c "{deaf}"\n')) as process:
        log = Path("mix.out/deaf.log")
        pid = int(wait_for(lambda: log.exists() and log.read_text()))
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        # Once more, by somebody without patience.
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
        # What it would be given otherwise.
        assert time.monotonic() - begin < 5
    assert has_ended(pid)


def test_jobs_run_where_the_controller_puts_them(controller):
    program = "import os; print(os.sched_getaffinity(0))"
    result = tfm("workload", write(f'0 --name it -- {sys.executable} -c "{program}"\n'))
    assert result.returncode == 0
    assert Path("mix.out/it.log").read_text() == f"{{{CPU}}}\n"
