# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm history: from a controller, and from its state file when it is gone."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess

import pytest
from msgspec.structs import replace

from tests.support import controllers
from tests.support.commands import CPU, answer, listening, started, tfm
from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE
from tests.support.histories import ZERO, shared
from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.messages import Speed
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.api.transport.address import SOCKET, standard_socket
from tf_malleable.controller.state.store import CPUS, Store

COLUMNS = "id name user outcome arrived waiting service paused total cores·s resizes steps"
HEADER = COLUMNS.split()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Where state files usually are, so that none of the machine's own is read."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    return tmp_path / "home" / "tf_malleable" / "controller.db"


def write(path, found=None) -> str:
    """Keep a history in a state file."""
    found = found or shared()
    store = Store(path)
    store.set_setting(CPUS, "0-1")
    for span in found.spans:
        store.add_span(span)
    for job in found.jobs:
        store.end(job.id, job)
    store.close()
    return str(path)


@pytest.fixture
def state(tmp_path):
    return write(tmp_path / "controller.db")


def out(*arguments: str, **options) -> str:
    result = tfm("history", *arguments, **options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def failure(*arguments: str, code: int = 1, **options) -> str:
    result = tfm("history", *arguments, **options)
    assert (result.returncode, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("tfm: ")
    return result.stderr.removeprefix("tfm: ").removesuffix("\n")


def test_a_table_and_a_summary(state):
    header, large, small, last, empty, summary = out("--state", state).splitlines()
    assert header.split() == HEADER
    arrived = ["Nov", "14", "22:13:20"]
    numbers = ["0.0", "s", "10.0", "s", "2.0", "s", "12.0", "s", "16.0", "0", "-"]
    assert large.split() == ["1", "large.py", "ada", "finished", *arrived, *numbers]
    assert small.split()[:4] == ["2", "small.py", "ada", "finished"]
    assert last.split()[:5] == ["3", "small.py", "ada", "failed", "137"]
    assert empty == ""
    assert summary == (
        "3 jobs, 1 of them failed: makespan 12.0 s, mean turnaround 6.7 s,"
        " mean waiting 0.3 s, mean slowdown 1.07, 0.25 jobs/s, 50% of the core time used"
    )


def test_json_is_what_the_controller_says(state):
    found = json.loads(out("--state", state, "--json"))
    assert [job["name"] for job in found["jobs"]] == ["large.py", "small.py", "small.py"]
    assert found["spans"][0] == {
        "job": "1",
        "begin": ZERO,
        "end": ZERO + 4,
        "state": "running",
        "cpus": [0, 1],
    }
    assert found["summary"]["makespan"] == 12.0


def test_csv_can_be_read_again(tmp_path):
    found = shared()
    awkward = replace(
        found.jobs[2],
        name='a "name", with\nall',
        command=["sh", "-c", "echo 'x'"],
        speeds=[Speed(1, 2.5), Speed(4, 8.0)],
        priority=-3,
    )
    jobs = [*found.jobs[:2], awkward]
    state = write(tmp_path / "c.db", replace(found, jobs=jobs))
    text = subprocess.check_output([TFM, "history", "--state", state, "--csv"]).decode()
    header, *_ = lines = text.split("\r\n")
    assert lines[-1] == ""
    assert len(lines) == 1 + len(jobs) + 1
    assert header.split(",") == list(found.jobs[0].__struct_fields__)
    table = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["name"] for row in table] == ["large.py", "small.py", awkward.name]
    assert shlex.split(table[2]["command"]) == awkward.command
    assert (table[0]["exit_code"], table[0]["cpu_seconds"]) == ("0", "12.0")
    assert (table[2]["exit_code"], table[2]["cpu_seconds"]) == ("137", "")
    assert float(table[0]["core_seconds"]) == 16.0
    assert [row["speeds"] for row in table] == ["", "", "1=2.5 4=8.0"]
    assert [row["priority"] for row in table] == ["", "", "-3"]


def test_generations_are_shown_where_a_job_was_elastic(tmp_path, state):
    assert "generation" not in out("--state", state)
    found = shared()
    elastic = Elastic(workers=1, generation=9, most_workers=4, longest_pause_seconds=0.25)
    jobs = [replace(found.jobs[0], elastic=elastic), *found.jobs[1:]]
    path = write(tmp_path / "elastic.db", replace(found, jobs=jobs))
    head, first, second, *_ = out("--state", path).splitlines()
    assert head.split()[-5:] == ["most", "workers", "generation", "longest", "pause"]
    assert first.split()[-4:] == ["4", "9", "250", "ms"]
    assert second.split()[-3:] == ["-", "-", "-"]
    (row, *_) = json.loads(out("--state", path, "--json"))["jobs"]
    assert row["elastic"]["most_workers"] == 4
    (row, *_) = csv.DictReader(io.StringIO(out("--state", path, "--csv")))
    assert "generation=9" in row["elastic"].split()


def test_what_was_saved_is_shown_where_a_job_read_through_a_tier(tmp_path, state):
    assert "saved" not in out("--state", state)
    found = shared()
    reading = TierReading(source_bytes=1 << 20, source_opens=7, saved_bytes=9 << 20)
    jobs = [replace(found.jobs[0], reading=reading), *found.jobs[1:]]
    path = write(tmp_path / "tier.db", replace(found, jobs=jobs))
    head, first, second, *_ = out("--state", path).splitlines()
    assert head.split()[-3:] == ["from", "source", "saved"]
    assert first.split()[-4:] == ["1.0", "MiB", "9.0", "MiB"]
    assert second.split()[-2:] == ["-", "-"]
    (row, *_) = json.loads(out("--state", path, "--json"))["jobs"]
    assert row["reading"]["source_opens"] == 7
    (row, *_) = csv.DictReader(io.StringIO(out("--state", path, "--csv")))
    assert "source_opens=7" in row["reading"].split()


def test_energy_is_shown_where_it_was_metered(tmp_path, state):
    assert "energy" not in out("--state", state)
    found = shared()
    metered = replace(
        found.jobs[0], energy_joules=2500.0, energy_source="measured", area="lab", steps=500.0
    )
    path = write(tmp_path / "metered.db", replace(found, jobs=[metered, *found.jobs[1:]]))
    head, first, second, *_ = out("--state", path).splitlines()
    assert head.split()[-4:] == ["energy", "per", "step", "source"]
    assert first.split()[-5:] == ["2.5", "kJ", "5", "J", "measured"]
    assert second.split()[-3:] == ["-", "-", "-"]
    (row, *_) = csv.DictReader(io.StringIO(out("--state", path, "--csv")))
    assert (row["energy_joules"], row["energy_source"], row["area"]) == (
        "2500.0",
        "measured",
        "lab",
    )


def test_a_limit_keeps_those_that_ended_last(state):
    # Job 1 ended last, job 3 before it.
    found = json.loads(out("--state", state, "--limit", "2", "--json"))
    assert [job["id"] for job in found["jobs"]] == ["1", "3"]
    assert found["summary"]["jobs"] == 2


@pytest.mark.parametrize("suffix", ["PNG", "svg"])
def test_a_picture(state, tmp_path, suffix):
    picture = tmp_path / f"gantt.{suffix}"
    assert out("--state", state, "--gantt", str(picture)).split()[:12] == HEADER
    begin = picture.read_bytes()[:100]
    assert begin.startswith(b"\x89PNG" if suffix == "PNG" else b"<?xml")


def test_without_matplotlib_it_says_what_to_install(state, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError(name='matplotlib')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    picture = str(tmp_path / "gantt.png")
    sentence = failure("--state", state, "--gantt", picture, env=environment)
    assert sentence == "drawing needs matplotlib: pip install matplotlib"
    assert out("--state", state, env=environment).split()[:12] == HEADER


def test_a_name_cannot_command_the_terminal(tmp_path):
    found = shared()
    job = replace(found.jobs[0], name="\x1b[2J\x07gone")
    state = write(tmp_path / "c.db", replace(found, jobs=[job]))
    text = out("--state", state)
    assert "\x1b" not in text
    assert "?[2J?gone" in text


def test_nothing_has_ended(tmp_path):
    state = str(tmp_path / "empty.db")
    Store(tmp_path / "empty.db").close()
    assert out("--state", state) == "no job has ended yet\n"
    assert out("--state", state, "--csv").splitlines()[0].startswith("id,name,")
    assert json.loads(out("--state", state, "--json"))["jobs"] == []
    picture = tmp_path / "gantt.png"
    assert failure("--state", state, "--gantt", str(picture)) == "there are no jobs to draw"
    assert not picture.exists()


def test_from_a_controller_and_after_it(tmp_path, home, monkeypatch):
    with controllers.controller(tmp_path, "--cpus", str(CPU), "--policy", "equal") as controller:
        for name, code in (("good", 0), ("bad", 3)):
            tfm("run", "--name", name, "--", "sh", "-c", f"sleep 0.1; exit {code}")
        wait_for(lambda: len(controller.get("/v1/history")["jobs"]) == 2)
        header, good, bad, *_ = out().splitlines()
        assert header.split() == HEADER
        assert good.split()[:2] == ["1", "good"]
        assert bad.split()[:2] == ["2", "bad"]
        alive = json.loads(out("--json"))
        assert [span["state"] for span in alive["spans"]].count("running") == 2
        assert alive["jobs"] == controller.get("/v1/history")["jobs"]
        controller.stop(signal.SIGKILL)
    state = str(controller.state)
    assert json.loads(out("--state", state, "--json"))["jobs"] == alive["jobs"]
    # The standard one is read when nobody answers at the standard path, and that is said.
    monkeypatch.delenv(SOCKET)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home.parent.mkdir(parents=True)
    for suffix in ("", "-wal"):
        os.rename(f"{state}{suffix}", f"{home}{suffix}")
    result = tfm("history", "--json")
    assert json.loads(result.stdout)["jobs"] == alive["jobs"]
    assert result.stderr == f"tfm: no controller answers at {standard_socket()}, reading {home}\n"


def test_nobody_answers_and_there_is_no_file(tmp_path, home, monkeypatch):
    monkeypatch.delenv(SOCKET)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert failure() == (
        f"no controller answers at {standard_socket()}, and cannot read the state file {home}:"
        " No such file or directory"
    )
    missing = tmp_path / "missing.db"
    assert failure("--state", str(missing)) == (
        f"cannot read the state file {missing}: No such file or directory"
    )
    assert not home.exists()
    assert not missing.exists()


def test_a_controller_elsewhere_has_another_history(tmp_path, home, socket):
    write(home)
    other = str(tmp_path / "other.sock")
    advice = "read its state file with: tfm history --state FILE"
    assert failure("--socket", other) == f"no controller answers at {other}; {advice}"
    # As the variable names it.
    assert failure() == f"no controller answers at {socket}; {advice}"
    result = tfm("history", "--socket", other, "--state", str(home))
    assert result.returncode == 0
    assert result.stderr == f"tfm: no controller answers at {other}, reading {home}\n"


def test_a_controller_that_cannot_be_reached_is_not_called_absent(tmp_path, state):
    path = tmp_path / "other.sock"
    arguments = ["history", "--socket", str(path), "--state", state]
    with listening(path) as server, started(*arguments) as process:
        answer(server, b"220 mail.example.com ESMTP\r\n")
        output, errors = process.communicate(timeout=DEADLINE)
    assert output.split()[:12] == HEADER
    assert errors.startswith(f"tfm: cannot reach the controller at {path} (")
    assert errors.endswith(f"), reading {state}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--limit", "0"], "0 is not in the range 1<=x<=100000"),
        (["--limit", "100001"], "100001 is not in the range 1<=x<=100000"),
        (["--json", "--csv"], "--json and --csv exclude each other: give only one of them"),
        (["--gantt", "x.pdf"], "FILE must end in .png or .svg, not 'x.pdf'"),
        (["--gantt", "."], "is a directory"),
        (["much"], "unexpected extra argument (much)"),
    ],
)
def test_bad_input_is_one_line(arguments, sentence):
    assert sentence in failure(*arguments, code=2)


def test_a_picture_that_cannot_be_written(state, tmp_path):
    picture = tmp_path / "missing" / "gantt.png"
    sentence = failure("--state", state, "--gantt", str(picture))
    assert sentence == f"cannot write {picture}: No such file or directory"


def test_a_garbage_state_file_is_one_line(tmp_path):
    garbage = tmp_path / "thesis.txt"
    garbage.write_text("chapter one " * 100)
    assert failure("--state", str(garbage)) == (
        f"cannot read the state file {garbage}: it is not a tf_malleable state file; choose"
        " another one with --state"
    )
