# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm elastic, as people call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support import ROOT
from tests.support.commands import tfm
from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import wait_until
from tests.support.elastic_training import AHEAD, STEPS, undisturbed, write_whole

WORDS = 500


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["local", "--workers", "0", "--", "true"], "must be a number or FEWEST:MOST"),
        (["local", "--workers", "3:2", "--", "true"], "must be a number or FEWEST:MOST"),
        (
            ["local", "--workers", "1:8", "--shards", "4", "--", "true"],
            "--workers must be at most the number of shards, 4, not 8",
        ),
        (["local", "--shards", "0", "--", "true"], "--shards must be an integer from 1 to 256"),
        (["local", "--threads", "0", "--", "true"], "--threads must be an integer from 1, not 0"),
        (["local", "--name", "a/b", "--", "true"], "letters, digits"),
        (["run", "--coordinator", "here", "--", "true"], "an address is HOST:PORT"),
        (["run", "--coordinator", "here:1", "--", "true"], "must have the training's secret"),
        (["run", "--cpus", "0", "--", "true"], "--cpus must be a positive number"),
        (["coordinator"], "TF_MALLEABLE_ELASTIC_SECRET must have"),
        (["set"], "give WORKERS, --servers, or both"),
        (["run", "--patience", "0", "--", "true"], "Invalid value for '--patience'"),
        (["run", "--checkpoint", "a", "--", "true"], "give --coordinator"),
        (["local", "--checkpoint-every", "5", "--", "true"], "give --checkpoint, which says where"),
        (
            ["local", "--checkpoint", "a", "--checkpoint-every", "0", "--", "true"],
            "--checkpoint-every must be a positive number of seconds, not 0",
        ),
        (["status", "--name", "a", "--coordinator", "a:1"], "give it or --coordinator"),
        (["status", "--coordinator", "a"], "an address is HOST:PORT"),
        (["status", "--coordinator", "a:1"], "TF_MALLEABLE_ELASTIC_SECRET must have"),
        (["set", "many"], "WORKERS must be a number or auto, not 'many'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(words, sentence):
    result = tfm("elastic", *words)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_there_is_no_training():
    result = tfm("elastic", "status")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "tfm: there is no elastic training of this user here\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--max", "2"], "makes this a worker of an elastic training, and --max is for a"),
        (["--threads", "0"], "--threads must be an integer from 1"),
        ([], "TF_MALLEABLE_ELASTIC_SECRET must have the training's secret"),
    ],
)
def test_variables_that_ask_for_a_worker_are_checked(monkeypatch, words, sentence):
    monkeypatch.setenv("TF_MALLEABLE_ELASTIC_COORDINATOR", "127.0.0.1:1")
    if words:
        monkeypatch.setenv("TF_MALLEABLE_ELASTIC_SECRET", "ab" * 16)
    result = tfm("run", *words, "--", "true")
    assert result.returncode == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("words", "more", "expected"),
    [
        ([], {}, [None, "1", None]),
        (["--threads", "1"], {}, [1.0, None, "1"]),
        ([], {"TF_MALLEABLE_THREADS": "1"}, [1.0, None, "1"]),
        (["--no-follow-cgroup"], {}, [None, "0", None]),
        ([], {"TF_MALLEABLE_FOLLOW_CGROUP": "0"}, [None, "0", None]),
    ],
)
def test_a_worker_by_variables_has_the_cpus_of_its_cgroup_unless_told(words, more, expected):
    script = (
        "import json, os\n"
        "get = os.environ.get\n"
        "said = json.loads(get('TF_MALLEABLE_ELASTIC'))\n"
        "names = 'TF_MALLEABLE_FOLLOW_CGROUP', 'TF_MALLEABLE_THREADS'\n"
        "print(json.dumps([said['cpus'], *map(get, names)]))\n"
    )
    asked = {"TF_MALLEABLE_ELASTIC_COORDINATOR": "a:1", "TF_MALLEABLE_ELASTIC_SECRET": "ab" * 16}
    env = {**os.environ, **asked, **more}
    result = tfm("run", *words, "--", sys.executable, "-c", script, env=env)
    assert json.loads(result.stdout) == expected, result.stderr


def test_a_worker_without_its_coordinator_says_so(monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_ELASTIC_SECRET", "ab" * 16)
    script = (
        "import dataclasses as d\n"
        "from tf_malleable.elastic.links.errors import MeshError\n"
        "from tf_malleable.elastic.member.server import ServingMember\n"
        "from tf_malleable.elastic.settings import MeshSettings\n"
        "said = d.replace(MeshSettings.from_environment(), patience_seconds=0.5)\n"
        "try:\n"
        "    ServingMember(said)\n"
        "except MeshError as error:\n"
        "    print(error)\n"
    )
    words = ["run", "--coordinator", "127.0.0.1:1", "--", sys.executable, "-c", script]
    result = tfm("elastic", *words)
    assert result.stdout == "no coordinator of an elastic training answers at 127.0.0.1:1\n"


class Local:
    """tfm elastic local with the small training."""

    def __init__(self, folder, *options):
        self.folder = folder
        script = [sys.executable, "-m", "tests.support.elastic_training", str(folder)]
        script += ["--words", str(WORDS), "--shard-seconds", "0.005"]
        words = [sys.executable, "-m", "tf_malleable_cli", "elastic", "local"]
        self.errors = folder / "errors.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*words, *options, "--", *script],
                stderr=errors,
                stdin=subprocess.DEVNULL,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(DEADLINE)
        print(self.errors.read_text())

    def status(self):
        result = tfm("elastic", "status", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def wait_for(self, count, role="worker"):
        def is_so():
            status = self.status()
            found = [
                each
                for each in status.get("processes", [])
                if each["role"] == role and each["state"] == "in the training"
            ]
            return status.get("phase") == "steady" and len(found) == count

        wait_until(is_so, lambda: str(self.status()))

    def pids(self):
        return [int(each["place"].rpartition(":")[2]) for each in self.status()["processes"]]

    def finish(self):
        steps = self.status()["step"] + AHEAD
        write_whole(self.folder / STEPS, str(steps))
        assert self.process.wait(DEADLINE) == 0
        found = [json.loads(path.read_text()) for path in self.folder.glob("*.json")]
        trained = {each["digest"] for each in found if each["how"] == "trained"}
        assert trained == {undisturbed(WORDS, steps, 4)}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_and_servers_are_started_and_stopped_by_command(tmp_path):
    with Local(tmp_path, "--workers", "1:3", "--servers", "0:1", "--name", "t") as local:
        local.wait_for(1)
        assert tfm("elastic", "set", "3", "--servers", "1").returncode == 0
        local.wait_for(3)
        local.wait_for(1, "server")
        refused = tfm("elastic", "set", "4")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == "tfm: WORKERS must be from 1 to 3, not 4\n"
        assert tfm("elastic", "set", "2", "--servers", "0", "--name", "t").returncode == 0
        local.wait_for(2)
        local.wait_for(0, "server")
        shown = tfm("elastic", "status").stdout
        assert "in the training" in shown
        assert "→ 2" in shown
        local.finish()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_killed_is_replaced(tmp_path):
    with Local(tmp_path, "--workers", "2:3") as local:
        local.wait_for(2)
        os.kill(local.pids()[1], signal.SIGKILL)
        wait_until(lambda: len(local.status().get("rescales", [])) >= 4, lambda: "no rescale")
        local.wait_for(2)
        [coordinator] = [
            int(pid)
            for pid in os.listdir("/proc")
            if pid.isdigit() and is_coordinator_of(pid, local.process.pid)
        ]
        os.kill(coordinator, signal.SIGKILL)
        time.sleep(1)
        local.wait_for(2)
        local.finish()


def is_coordinator_of(pid, parent):
    try:
        with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
            return int(stat.read().rpartition(")")[2].split()[1]) == parent and (
                "\0coordinator\0" in line.read()
            )
    except OSError:
        return False


@pytest.mark.slow
def test_a_script_that_fails_ends_it_with_its_exit_code(tmp_path):
    result = tfm("elastic", "local", "--workers", "2", "--", "sh", "-c", "exit 7")
    assert result.returncode == 7


@pytest.mark.slow
def test_a_script_that_trains_nothing_is_refused():
    result = tfm("elastic", "local", "--workers", "2", "--", "true")
    assert result.returncode == 1
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("tfm: 'true' has ended without a fit() of Keras 3")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_sigterm_ends_all_in_peace(tmp_path):
    with Local(tmp_path, "--workers", "2") as local:
        local.wait_for(2)
        pids = local.pids()
        local.process.terminate()
        assert local.process.wait(DEADLINE) == 143
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
        found = [json.loads(path.read_text())["how"] for path in tmp_path.glob("*.json")]
        assert found == ["left", "left"]
