# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm simulate: policies side by side, in virtual time."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import time

import pytest

from tests.support.commands import started, tfm
from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tests.support.histories import job
from tf_malleable.controller.state.store import Store
from tf_malleable.policies.registry import DEFAULT

PLAN = """
0    --name cnn --max 2 --work 600 --curve amdahl:0.1 --no-steps -- python cnn.py
2.5  --min 2 --work 90 --busy 20 --idle 5 --starting 3 -- python big.py
4    --work 50 --fails-at 0.5 -- python small.py
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text(PLAN)
    return path


def said_by(*arguments: object) -> str:
    done = tfm("simulate", *map(str, arguments))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def simulated(*arguments: object):
    return json.loads(said_by("--json", *arguments))


def test_policies_are_compared_in_one_table(plan):
    said = said_by(plan, "--cores", 4).splitlines()
    assert said[0] == "plan: 3 jobs on 4 CPUs"
    assert said[1].split()[:4] == ["policy", "ended", "failed", "refused"]
    assert [line.split()[0] for line in said[2:5]] == [DEFAULT, "equal", "fcfs-strict"]
    assert {line.split()[2] for line in said[2:5]} == {"1"}
    assert "assumed: where a line does not say it, starting takes no time" in said


def test_what_it_says_of_one_job_is_known(tmp_path):
    plan = tmp_path / "one.txt"
    plan.write_text("10 --max 2 --work 100 --curve 1=1,2=1.6 --starting 4 -- python a.py\n")
    (part,) = simulated(plan, "--cores", 4, "--policy", "equal")["workloads"]
    (row,) = part["results"]
    assert row["summary"]["makespan"] == pytest.approx(4 + 100 / 1.6, abs=0.01)
    assert row["summary"]["utilization"] == pytest.approx((4 + 2 * 62.5) / 4 / 66.5, rel=0.01)
    assert row["counts"]["arrivals"] == row["counts"]["ends"] == 1


@pytest.mark.slow
def test_a_service_shares_its_core_unless_weights_are_off(tmp_path):
    plan = tmp_path / "service.txt"
    service = "--slo p99=1s --requests 50:0.01 --work 400 -- python serve.py"
    plan.write_text(f"0 --max 1 {service}\n0 --max 1 --work 100 -- python train.py\n")
    makespans = []
    for weights in ("auto", "off"):
        said = simulated(plan, "--cores", 1, "--policy", "equal", "--cpu-weights", weights)
        makespans.append(said["workloads"][0]["results"][0]["summary"]["makespan"])
    assert makespans == pytest.approx([400, 500], abs=0.1)


@pytest.mark.slow
def test_the_same_seed_prints_the_same_bytes(plan):
    arguments = ("--generate", "jobs=40,load=0.8", "--noise", 0.1, "--cores", 4, "--json")
    said = [said_by(*arguments, "--seed", seed) for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]


@pytest.mark.slow
def test_several_workloads_and_csv(plan):
    said = said_by(plan, "--generate", "jobs=5", "--csv", "--cores", 4)
    rows = list(csv.DictReader(io.StringIO(said)))
    assert [(row["workload"], row["policy"]) for row in rows] == [
        (workload, policy)
        for workload in ("plan", "generated")
        for policy in (DEFAULT, "equal", "fcfs-strict")
    ]
    assert {row["jobs"] for row in rows[3:]} == {"5"}
    assert all(float(row["makespan"]) > 0 for row in rows)


def test_what_really_happened_is_replayed(tmp_path):
    path = tmp_path / "controller.db"
    one, two = (
        job(number, name, [(0.0, 5.0, "waiting", []), (5.0, 25.0, "running", [0, 1])])
        for number, name in ((1, "a"), (2, "b"))
    )
    store = Store(path)
    for record, spans in (one, two):
        for span in spans:
            store.add_span(span)
        store.end(record.id, record)
    store.close()
    (part,) = simulated("--from-history", path, "--policy", "equal", "--cores", 2)["workloads"]
    (row,) = part["results"]
    assert row["counts"]["ends"] == part["jobs"] == 2
    # Both at once, each with one core, at the speed-up that is assumed.
    assert row["summary"]["makespan"] == pytest.approx(20 * 1.905, rel=0.01)


def test_more_hosts_end_sooner():
    spec = "jobs=60,load=5,max-cores=4"
    one, two = (
        simulated("--generate", spec, "--cores", cores, "--hosts", hosts, "--policy", "equal")
        for cores, hosts in ((4, 1), (4, 2))
    )
    assert two["hosts"] == 2
    spans = [each["workloads"][0]["results"][0]["summary"]["makespan"] for each in (one, two)]
    # The generator offers two hosts twice the work in the same time.
    assert spans[1] < 0.8 * spans[0]


@pytest.mark.slow
def test_pictures_are_drawn(plan, tmp_path):
    plot, gantt = tmp_path / "plot.svg", tmp_path / "gantt.png"
    said_by(plan, "--cores", 4, "--plot", plot, "--gantt", gantt)
    assert "fcfs-strict" in plot.read_text()
    assert gantt.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "there is nothing to simulate: give a file, --from-history or --generate"),
        (("--generate", "jobs=0"), "--generate jobs=0: jobs must be an integer from 1"),
        (("--generate", "jobs=5", "--policy", "best"), "there is no policy 'best'; choose from"),
        (("--generate", "jobs=5", "--curve", "steep"), "a curve must be linear, amdahl:SERIAL"),
        (("--generate", "jobs=5", "--json", "--csv"), "--json and --csv exclude each other"),
        (("--generate", "jobs=5", "--cores", "6", "--smt", "4"), "6 CPUs are not divisible into"),
        (("nothing.txt",), "cannot read nothing.txt: No such file or directory"),
        (("--from-history", "nothing.db"), "cannot read the state file nothing.db"),
        (("--generate", "jobs=5", "--plot", "a.pdf"), "FILE must end in .png or .svg, not 'a.pdf'"),
        (
            ("--generate", "jobs=5", "--hosts", "30", "--gantt", "a.svg"),
            "--gantt shows at most 40 hosts and policies, not 90",
        ),
        (
            ("--generate", "jobs=5", "--generate", "jobs=6", "--plot", "a.svg"),
            "--plot and --gantt show one workload: give only one",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path):
    done = tfm("simulate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_bad_line_is_named_and_nothing_is_written(tmp_path):
    plan = tmp_path / "plan.txt"
    plan.write_text("0 --work 5 -- a\n1 --work -5 -- b\n")
    done = tfm("simulate", str(plan), "--plot", str(tmp_path / "plot.svg"))
    assert done.returncode == 2
    assert f"{plan}, line 2: " in done.stderr
    assert list(tmp_path.iterdir()) == [plan]


OWN = """
import os
import signal

from tf_malleable.model import Allocation


class Dies:
    def allocate(self, jobs, machine, now):
        os.kill(os.getpid(), signal.SIGKILL)


class Refuses:
    def allocate(self, jobs, machine, now):
        return Allocation({})


class Reviews:
    def allocate(self, jobs, machine, now):
        return Allocation({}, now - 1.0)
"""


@pytest.fixture
def own_policies(tmp_path):
    """Return an environment in which these policies are installed."""
    folder = tmp_path / "site"
    (folder / "own-1.dist-info").mkdir(parents=True)
    (folder / "own_policies.py").write_text(OWN)
    (folder / "own-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own\nVersion: 1\n"
    )
    (folder / "own-1.dist-info" / "entry_points.txt").write_text(
        "[tf_malleable.policies]\ndies = own_policies:Dies\n"
        "refuses = own_policies:Refuses\nreviews = own_policies:Reviews\n"
    )
    return {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.slow
def test_a_policy_that_cannot_go_on_is_reported_and_the_others_go_on(plan, own_policies):
    policies = [f"--policy={name}" for name in ("refuses", "dies", "equal", "reviews")]
    done = tfm("simulate", str(plan), "--cores", "4", *policies, env=own_policies)
    assert done.returncode == 1
    assert "\nequal " in done.stdout
    assert "\nrefuses failed: it never gives cores to 3 waiting jobs\n" in done.stdout
    assert "\nreviews failed: it asks for a review 1 s in the past\n" in done.stdout
    assert "\ndies failed: its process ended, killed by signal 9\n" in done.stdout
    assert done.stderr == "tfm: 3 of 4 simulations failed\n"


LONG = "jobs=200000,load=0.9"


@pytest.mark.slow
def test_ctrl_c_keeps_what_has_ended(plan):
    arguments = ("--generate", LONG, "--policy", "equal", "--cores", "4")
    with started("simulate", str(plan), *arguments, start_new_session=True) as process:
        seen: set[str] = set()
        deadline = time.monotonic() + DEADLINE
        while seen <= (now := children(process.pid)):
            assert time.monotonic() < deadline
            seen |= now
            time.sleep(0.02)
        # Ctrl-C is for the command alone, once the others have got their work.
        while not all(map(ignores_ctrl_c, children(process.pid))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "plan: 3 jobs on 4 CPUs" in out
    assert "\nequal " in out
    assert err == "tfm: interrupted; 1 of 2 simulations had ended\n"
    # Python's own tracker of resources ends a moment later.
    while alive_in_group(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> set[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return set(file.read().split())


def ignores_ctrl_c(pid: str) -> bool:
    with open(f"/proc/{pid}/status") as file:
        ignored = next(line.split()[1] for line in file if line.startswith("SigIgn"))
    return bool(int(ignored, 16) >> (signal.SIGINT - 1) & 1)


def alive_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_terminal_shows_progress_and_the_time_left():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TFM, "simulate", "--generate", "jobs=3000,load=0.9", "--policy", "equal", "--cores", "4"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(DEADLINE) == 0
    assert b"simulated jobs" in shown
    assert b"/3000" in shown
    assert b"left:" in shown
