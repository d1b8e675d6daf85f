# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Grants are carried out and acknowledged, in a program that only imports tf_malleable."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL, FIRST, LAST, Job
from tf_malleable.api.schema.grant_line import GrantLine

# Three threads of its own; answers with TensorFlow's limits.
PROGRAM = """
import sys, threading
import tf_malleable as tfm
from tf_malleable.runtime import _native
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
for line in sys.stdin:
    now = _native.get_threads()
    print(now.intra_set, now.inter_set, flush=True)
"""


@pytest.fixture
def job(fake):
    with Job(PROGRAM, fake.path, TF_MALLEABLE_MAX_THREADS="1") as job:
        yield job


def test_it_joins_as_a_program_that_runs_already(fake, job):
    fake.grant(ALL)
    submission = fake.wait(lambda: fake.heard("jobs"))[0]
    assert submission.pid == job.pid
    assert submission.body == {
        "name": "test",
        "command": [],
        "min": 1,
        "priority": 0,
        "weight": 1.0,
        "running": True,
    }


def test_all_threads_are_where_the_acknowledged_grant_says(fake, job):
    job.ask()
    for cpus in (FIRST, LAST, ALL, FIRST):
        fake.wait_for_acknowledgement(fake.grant(cpus))
        assert job.is_on(cpus)
    # Up to the capacity, which is 1 here whatever the grant.
    assert job.ask() == "1 1"
    assert {heard.pid for heard in fake.state.heard} == {job.pid}


def test_a_job_without_cores_acknowledges_nothing(fake, job):
    fake.wait_for_acknowledgement(fake.grant(FIRST))
    unheard = {fake.grant([], state="waiting"), fake.grant([], state="paused")}
    fake.wait_for_acknowledgement(fake.grant(LAST))
    assert not unheard & {heard.body["serial"] for heard in fake.heard("acknowledgements")}


def test_a_job_that_has_lent_all_stays_as_it_is(fake, job):
    fake.wait_for_acknowledgement(fake.grant(FIRST))
    fake.wait_for_acknowledgement(fake.grant([], lent=FIRST))
    assert job.is_on(FIRST)


def test_a_job_that_the_controller_confines_keeps_its_affinity(fake):
    with Job(PROGRAM, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        fake.wait_for_acknowledgement(fake.grant(FIRST, confined=False))
        assert job.is_on(FIRST)
        for count in (5, 2, 7):
            # CPUs that this process could not be moved to.
            fake.wait_for_acknowledgement(
                fake.grant(list(range(4000, 4000 + count)), confined=True)
            )
            assert job.ask() == f"{count} {count}"
            assert job.is_on(FIRST)
        fake.wait_for_acknowledgement(fake.grant([], lent=ALL, confined=True))
        assert job.ask() == "7 7"
        fake.wait_for_acknowledgement(fake.grant(LAST))
        assert job.is_on(LAST)


# Enters and leaves tfm.threads(…); answers with the limits.
OVERRIDING = """
import sys
import tf_malleable as tfm
from tf_malleable.runtime import _native
blocks = []
for line in sys.stdin:
    command, _, arguments = line.strip().partition(" ")
    if command == "enter":
        blocks.append(eval(f"tfm.threads({arguments})"))
        blocks[-1].__enter__()
    elif command == "exit":
        blocks.pop().__exit__(None, None, None)
    elif command == "set":
        tfm.set_threads(int(arguments))
    now = _native.get_threads()
    print(now.intra_set, now.inter_set, flush=True)
"""


@pytest.fixture
def grant(fake):
    """Return a function that grants so many cores, and returns once they are in force."""

    def carried_out(count):
        # CPUs that this process could not be moved to.
        cpus = list(range(4000, 4000 + count))
        fake.wait_for_acknowledgement(fake.grant(cpus, confined=True))

    return carried_out


def test_a_grant_outlives_the_program_s_limits_for_a_while(fake, grant):
    with Job(OVERRIDING, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        grant(8)
        assert job.ask("enter 4") == "4 4"
        grant(2)
        assert job.ask() == "2 2"
        # The program's own number applies again as soon as it is granted.
        grant(6)
        assert job.ask() == "4 4"
        assert job.ask("exit") == "6 6"


def test_a_grant_in_nested_limits_for_a_while(fake, grant):
    with Job(OVERRIDING, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        grant(12)
        assert job.ask("enter 9") == "9 9"
        assert job.ask("enter intra=5") == "5 9"
        grant(3)
        assert job.ask() == "3 3"
        grant(7)
        assert job.ask() == "5 7"
        assert job.ask("set 4") == "4 4"
        grant(10)
        assert job.ask() == "4 4"
        assert job.ask("exit") == "9 4"
        assert job.ask("exit") == "10 10"


def test_a_confinement_that_is_neither_is_no_grant():
    line = {"serial": 1, "state": "running", "cpus": [0], "lent": []}
    assert not GrantLine.read(line).confined
    assert GrantLine.read({**line, "confined": True}).confined
    with pytest.raises(ValueError, match="this line is not a grant"):
        GrantLine.read({**line, "confined": 1})


def test_gpus_are_none_unless_the_controller_shares_them_out():
    line = {"serial": 1, "state": "running", "cpus": [0], "lent": []}
    assert GrantLine.read(line).gpus is GrantLine.read({**line, "gpus": None}).gpus is None
    assert GrantLine.read({**line, "gpus": [1, 2]}).gpus == [1, 2]
    with pytest.raises(ValueError, match="this line is not a grant"):
        GrantLine.read({**line, "gpus": ["0"]})


def test_a_grant_that_cannot_be_carried_out_is_not_acknowledged(fake, job):
    fake.wait_for_acknowledgement(fake.grant(FIRST))
    impossible = fake.grant([4242])
    fake.wait_for_acknowledgement(fake.grant(LAST))
    assert job.is_on(LAST)
    assert impossible not in [heard.body["serial"] for heard in fake.heard("acknowledgements")]
    assert len(fake.heard("jobs")) == 1


def test_after_many_grants_at_once_the_last_one_holds(fake, job):
    fake.wait_for_acknowledgement(fake.grant(ALL))
    for _ in range(100):
        fake.grant(FIRST)
        last = fake.grant(LAST)
    fake.wait_for_acknowledgement(last)
    assert job.is_on(LAST)
    serials = [heard.body["serial"] for heard in fake.heard("acknowledgements")]
    assert serials == sorted(serials)


def test_an_acknowledgement_that_is_refused_as_out_of_date_does_no_harm(fake, job):
    fake.answer_with("acknowledgements", lambda h: h.answer(409, {"error": "it is paused"}))
    fake.grant(FIRST)
    fake.wait(lambda: fake.heard("acknowledgements"))
    fake.answer_with("acknowledgements", None)
    fake.wait_for_acknowledgement(fake.grant(LAST))
    assert len(fake.heard("jobs")) == 1


@pytest.mark.slow
def test_it_reports_about_once_a_second(fake, job):
    fake.grant(ALL)
    first, *_, last = fake.wait(lambda: len(fake.heard("progress")) >= 4 and fake.heard("progress"))
    assert 2 < last.at - first.at < 10
    assert last.body.keys() == {"cpu_seconds", "active", "queued", "threads"}
    assert last.body["cpu_seconds"] > 0


def test_a_program_that_keeps_the_interpreter_to_itself(fake):
    program = (
        "import threading\nimport tf_malleable\n"
        "def work():\n"
        "    n = 0\n"
        "    while True:\n"
        "        n += 1\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=work, daemon=True).start()\n"
        "work()\n"
    )
    fake.grant(ALL)
    with Job(program, fake.path) as job:
        fake.wait(lambda: fake.heard("acknowledgements"))
        for cpus in (FIRST, LAST) * 5:
            fake.wait_for_acknowledgement(fake.grant(cpus))
            assert job.is_on(cpus)
