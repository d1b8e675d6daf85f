# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program that makes itself a job, with or without TensorFlow."""

from __future__ import annotations

import os
import signal
import sys

import pytest

import tf_malleable as tfm
from tests.support.jobs import ALL, FIRST, LAST, Job
from tf_malleable.api.schema.job_names import default_name

JOINING = """
import os, sys
import numpy
import tf_malleable as tfm
tfm.join(socket=sys.argv[1], **eval(sys.argv[2] if len(sys.argv) > 2 else "{}"))
print(sorted(os.sched_getaffinity(0)), flush=True)
sys.stdin.readline()
"""


def test_it_waits_for_its_first_grant_and_is_a_job_from_then_on(fake):
    fake.grant([], state="waiting")
    options = "dict(name='n', min=1, preferred=1, max=2, priority=3, weight=0.5)"
    with Job(JOINING, None, str(fake.path), options) as job:
        fake.wait(lambda: fake.state.streams)
        assert not fake.heard("acknowledgements")
        serial = fake.grant(FIRST)
        assert job.hear() == str(sorted(FIRST))
        fake.wait_for_acknowledgement(serial)
        assert job.is_on(FIRST)
        fake.wait(lambda: fake.heard("progress"))
        fake.wait_for_acknowledgement(fake.grant(LAST))
        assert job.is_on(LAST)
        assert job.end("\n") == (0, "", "")
    (submission,) = fake.heard("jobs")
    command = submission.body.pop("command")
    assert command[:2] == [sys.executable, "-c"]
    assert submission.body == {
        "name": "n",
        "min": 1,
        "preferred": 1,
        "max": 2,
        "priority": 3,
        "weight": 0.5,
        "queue": True,
    }


def test_it_has_two_connections_from_its_submission_to_its_last_report(fake):
    fake.grant(FIRST)
    with Job(JOINING, None, str(fake.path)) as job:
        assert job.hear() == str(sorted(FIRST))
        fake.wait_for_acknowledgement(fake.serial)
        assert job.end("\n") == (0, "", "")
    assert fake.heard("progress")
    assert fake.state.opened == 2


def test_what_it_has_lent_while_it_waited_is_its_own(fake):
    fake.grant([], lent=FIRST)
    with Job(JOINING, None, str(fake.path)) as job:
        assert job.hear() == str(sorted(FIRST))
        assert job.is_on(FIRST)
        assert job.end("\n") == (0, "", "")


def test_by_default_it_is_called_like_the_script(fake, tmp_path):
    fake.grant(FIRST)
    script = tmp_path / "train.py"
    script.write_text(JOINING)
    run = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0])"
    with Job(run, None, str(script), str(fake.path)) as job:
        job.hear()
        assert fake.heard("jobs")[0].body["name"] == "train.py"


@pytest.mark.parametrize("module", ["pkg", "pkg.train"])
def test_a_module_is_called_as_by_tfm_run(fake, tmp_path, module):
    fake.grant(FIRST)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    for name in ("__main__", "train"):
        (tmp_path / "pkg" / f"{name}.py").write_text(JOINING)
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    run = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])"
    with Job(run, None, module, str(fake.path), PYTHONPATH=paths) as job:
        job.hear()
    assert fake.heard("jobs")[0].body["name"] == default_name(["python3", "-m", module]) == module


def test_twice_is_the_same_job(fake):
    fake.grant(FIRST)
    program = JOINING.replace("print", "tfm.join(name='other'); print")
    with Job(program, None, str(fake.path)) as job:
        job.hear()
        code, said, warning = job.end("\n")
    assert (code, said) == (0, "")
    assert "UserWarning: this process is a job already, and remains it" in warning
    assert len(fake.heard("jobs")) == 1
    with Job(program.replace("name='other'", ""), None, str(fake.path)) as job:
        job.hear()
        assert job.end("\n") == (0, "", "")


def test_what_tfm_run_has_started_is_a_job_already(fake):
    fake.grant([], state="waiting")
    with Job(JOINING, fake.path, "/nowhere") as job:
        assert job.hear() == str(sorted(ALL))
        fake.wait(lambda: fake.heard("jobs"))
        assert fake.heard("jobs")[0].body["running"] is True
        assert job.end("\n") == (0, "", "")


def test_a_controller_that_dies_while_it_waits(fake):
    fake.grant([], state="waiting")
    with Job(JOINING, None, str(fake.path)) as job:
        fake.wait(lambda: fake.state.streams)
        fake.close()
        fake.grant(FIRST)
        fake.open()
        assert job.hear() == str(sorted(FIRST))
        assert len(fake.heard("jobs")) == 2
        assert job.end("\n") == (0, "", "")


def test_ctrl_c_ends_the_waiting(fake):
    fake.grant([], state="waiting")
    with Job(JOINING, None, str(fake.path)) as job:
        fake.wait(lambda: fake.state.streams)
        job.send(signal.SIGINT)
        code, out, err = job.end()
    assert (code, out) == (-signal.SIGINT, "")
    assert err.endswith("KeyboardInterrupt\n")


def test_a_child_that_is_forked_meanwhile_can_join_too(fake):
    program = (
        "import os, sys, threading\n"
        "import tf_malleable as tfm\n"
        "wait = threading.Thread(target=tfm.join, kwargs={'socket': sys.argv[1]}, daemon=True)\n"
        "wait.start()\n"
        "sys.stdin.readline()\n"
        "from tf_malleable.agent import agent\n"
        "if os.fork() == 0:\n"
        "    print(agent._process.lock.acquire(timeout=1), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "os._exit(0)\n"
    )
    fake.grant([], state="waiting")
    with Job(program, None, str(fake.path)) as job:
        fake.wait(lambda: fake.state.streams)
        assert job.ask() == "True"


def test_without_a_controller(tmp_path):
    for _ in range(2):
        with pytest.raises(ConnectionError) as caught:
            tfm.join(socket=tmp_path / "c.sock")
        assert str(caught.value) == (
            f"no controller answers at {tmp_path}/c.sock; start one with: tfm controller --detach"
        )


def test_what_is_no_controller(fake):
    fake.answer_with("jobs", b"SSH-2.0-OpenSSH_9.2\r\n")
    with pytest.raises(
        ConnectionError, match=r"^cannot reach the controller at .* is not a controller"
    ) as caught:
        tfm.join(socket=fake.path)
    assert "start one" not in str(caught.value)


def test_refused(fake):
    fake.answer_with("jobs", lambda handler: handler.answer(409, {"error": "no cores are free"}))
    with pytest.raises(tfm.ControllerError, match=r"^no cores are free$") as caught:
        tfm.join(socket=fake.path, queue=False)
    assert caught.value.status == 409
    assert fake.heard("jobs")[0].body["queue"] is False


def test_a_shape_that_the_machine_does_not_have(fake):
    sentence = "min must be at most 2, the number of CPUs shared out here, not 64"
    fake.answer_with("jobs", lambda handler: handler.answer(400, {"error": sentence}))
    with pytest.raises(ValueError, match=sentence):
        tfm.join(socket=fake.path, min=64)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"min": 0}, "min must be an integer from 1 to 65536, not 0"),
        ({"min": 3, "max": 2}, "a shape must have 1 ≤ min ≤ preferred ≤ max"),
        ({"weight": "heavy"}, "weight must be a number above 0"),
        ({"name": ""}, "name must be a string"),
    ],
)
def test_bad_arguments_reach_nobody(fake, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tfm.join(socket=fake.path, **options)
    assert not fake.state.heard
