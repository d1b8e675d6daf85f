# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a program has done: counted for Keras and PyTorch, told by others."""

from __future__ import annotations

import sys
import threading
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tf_malleable as tfm
from tests.support.jobs import ALL, Job
from tf_malleable.agent import report, steps
from tf_malleable.agent.steps import Steps

SCRIPT = (Path(__file__).parent / "keras_script.py").read_text()

# Word at which it stops, steps done and total that are reported then.
STOPS = [
    ("imported", None, None),
    ("middle", 8, 15),
    ("simple", 15, 15),
    ("middle", 23, 35),
    ("several steps an execution", 35, 35),
    ("middle", 37, None),
    ("middle", 43, 53),
    ("unknown length", 53, 53),
    ("stopped early", 68, 68),
    ("middle", 79, 88),
    ("from a later epoch", 88, 88),
]


@pytest.mark.slow
def test_an_unmodified_keras_script(fake):
    fake.grant(ALL)
    with Job(SCRIPT, fake.path) as job:
        for word, done, total in STOPS:
            assert job.hear() == word
            fake.wait_for_progress(
                lambda body, d=done, t=total: (
                    (body.get("steps_done"), body.get("steps_total")) == (d, t)
                )
            )
            job.tell()
        code, out, err = job.end()
    assert (code, out) == (0, "")
    assert "tf_malleable" not in err  # TensorFlow and Keras do print there.


@pytest.fixture
def _fresh(monkeypatch):
    monkeypatch.setattr(steps, "_count", steps._Count())
    monkeypatch.setattr(steps, "_told", None)


class CallbackList:
    """Keras' class as far as it concerns us, with what it was called with."""

    def __init__(self, **params):
        self.params = params
        self.calls = []

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch", epoch, logs))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, logs))
        return "result"

    def on_train_end(self, logs=None):
        self.calls.append(("end", logs))


@pytest.fixture
def watched(monkeypatch, _fresh):
    """Return a class like tf_keras' CallbackList that is counted."""
    home = types.ModuleType("tf_keras.src.callbacks")
    home.CallbackList = type("CallbackList", (CallbackList,), dict(vars(CallbackList)))
    monkeypatch.setitem(sys.modules, "tf_keras", types.ModuleType("tf_keras"))
    assert steps.look_for_training() < 1
    monkeypatch.setitem(sys.modules, home.__name__, home)
    assert steps.look_for_training() == float("inf")
    steps.look_for_training()
    return home.CallbackList


@pytest.mark.usefixtures("_fresh")
def test_nobody_looks_often_where_there_is_no_keras(monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] in ("keras", "tf_keras", "tensorflow"):
            monkeypatch.delitem(sys.modules, name)
    assert steps.look_for_training() == float("inf")


class Torch:
    """PyTorch's modules as far as they concern us."""

    def __init__(self, monkeypatch):
        self.hooks = []
        self.is_compiling = False
        for name in ("torch.compiler", "torch.optim.optimizer"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        compiler, optimizer = sys.modules["torch.compiler"], sys.modules["torch.optim.optimizer"]
        compiler.is_compiling = lambda: self.is_compiling
        optimizer.register_optimizer_step_post_hook = self.hooks.append

    def step(self):
        for hook in self.hooks:
            assert hook(object(), (), {}) is None


@pytest.mark.usefixtures("_fresh")
def test_steps_of_optimizers_are_counted_unless_they_are_compiled(monkeypatch):
    assert steps.now() == Steps()
    torch = Torch(monkeypatch)
    for _ in range(2):
        steps.look_for_training()
    assert len(torch.hooks) == 1
    assert steps.now() == Steps()
    for _ in range(3):
        torch.step()
    torch.is_compiling = True
    torch.step()
    assert steps.now() == Steps(3)
    tfm.progress(1, 2)
    assert steps.now() == Steps(1, 2)


def test_steps_of_keras_come_before_those_of_optimizers(watched, monkeypatch):
    torch = Torch(monkeypatch)
    steps.look_for_training()
    callbacks = watched(epochs=1, steps=5)
    callbacks.on_train_batch_end(0)
    for _ in range(3):
        torch.step()
    assert steps.now() == Steps(1, 5)


@pytest.mark.usefixtures("_fresh")
def test_a_pytorch_without_hooks_for_all_optimizers_is_left_alone(monkeypatch):
    torch = Torch(monkeypatch)
    monkeypatch.delattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook")
    steps.look_for_training()
    assert torch.hooks == []


def test_calls_pass_through_unchanged(watched):
    callbacks = watched(epochs=1, steps=5)
    assert callbacks.on_train_batch_end(0) == "result"
    assert callbacks.on_train_batch_end(1, {"loss": 1}) == "result"
    assert callbacks.on_train_batch_end(batch=2, logs=None) == "result"
    assert callbacks.on_train_batch_end(logs=3, batch=3) == "result"
    assert callbacks.on_train_batch_end(batch="odd") == "result"
    callbacks.on_train_end()
    assert callbacks.calls == [
        ("batch", 0, None),
        ("batch", 1, {"loss": 1}),
        ("batch", 2, None),
        ("batch", 3, 3),
        ("batch", "odd", None),
        ("end", None),
    ]
    assert steps.now() == Steps(4, 4)
    with pytest.raises(TypeError, match=r"on_train_batch_end\(\) missing 1 required"):
        callbacks.on_train_batch_end()


@pytest.mark.parametrize("params", [{}, {"epochs": "many", "steps": 3}, {"epochs": None}])
def test_odd_params_make_the_total_unknown(watched, params):
    callbacks = watched(**params)
    callbacks.on_epoch_begin(0)
    callbacks.on_train_batch_end(0)
    assert steps.now() == Steps(1, None)


@pytest.fixture
def switching():
    """Threads take turns after each few statements."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("switching")
def test_fits_side_by_side_are_added_up(watched):
    def fit():
        callbacks = watched(epochs=20, steps=50)
        for epoch in range(20):
            callbacks.on_epoch_begin(epoch)
            for batch in range(50):
                callbacks.on_train_batch_end(batch)
        callbacks.on_train_end()

    threads = [threading.Thread(target=fit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps.now() == Steps(4000, 4000)


def test_the_same_list_twice_is_two_fits(watched):
    callbacks = watched(epochs=2, steps=3)
    for done in (6, 12):
        for epoch in range(2):
            callbacks.on_epoch_begin(epoch)
            for batch in range(3):
                callbacks.on_train_batch_end(batch)
        assert steps.now() == Steps(done, done)
        callbacks.on_train_end()


def test_a_fit_that_began_before_we_looked(watched):
    callbacks = watched(epochs=3, steps=10)
    callbacks.on_train_batch_end(6)
    assert steps.now() == Steps(7, 30)


@pytest.mark.usefixtures("watched")
def test_what_the_program_says_goes_first(watched):
    watched(epochs=1, steps=2).on_train_batch_end(0)
    tfm.progress(10, 20)
    assert steps.now() == Steps(10, 20)
    tfm.progress(11)
    assert steps.now() == Steps(11, None)


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("number", [0, 2.5, np.int64(3), np.float32(1.5), Fraction(1, 2), 10**15])
def test_any_number_is_a_step(number):
    tfm.progress(number, number)
    assert steps.now() == Steps(float(number), float(number))
    assert report.progress()["steps_done"] == float(number)


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 10**15 + 1, "3", True, None, []])
def test_what_is_no_step(value):
    with pytest.raises(ValueError, match=r"^step must be a number from 0 to 10\*\*15, not ") as e:
        tfm.progress(value)
    assert repr(value) in str(e.value)
    if value is not None:
        with pytest.raises(ValueError, match=r"^total must be a number"):
            tfm.progress(1, value)
    assert steps.now() == Steps()


def test_without_a_controller_it_does_nothing():
    with Job("import tf_malleable as tfm\nfor i in range(9): tfm.progress(i, 9)", None) as job:
        assert job.end() == (0, "", "")


@pytest.mark.slow
def test_a_program_that_says_how_far_it_is(fake):
    program = (
        "import sys, tf_malleable as tfm\n"
        "for n, line in enumerate(sys.stdin):\n"
        "    tfm.progress(n, 100)\n"
        "    print(n, flush=True)\n"
    )
    with Job(program, fake.path) as job:
        for step in ("0", "1", "2"):
            assert job.ask() == step
            said = {"steps_done": float(step), "steps_total": 100.0}
            fake.wait_for_progress(lambda body, said=said: said.items() <= body.items())


def test_the_last_report_is_of_the_end(fake):
    program = (
        "import sys, tf_malleable as tfm\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "for n in range(1, 8): tfm.progress(n, 7)\n"
    )
    fake.grant(ALL)
    with Job(program, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        assert job.end("\n") == (0, "", "")
    last = fake.heard("progress")[-1]
    assert last.path == "/v1/jobs/7/progress"
    assert (last.body["steps_done"], last.body["steps_total"]) == (7.0, 7.0)


REGIONS = """
import itertools, sys
import tf_malleable as tfm
from tf_malleable.runtime import openmp
count = itertools.count(1000, 1000)
openmp.regions = lambda: next(count)
print("begun", flush=True)
sys.stdin.readline()
tfm.progress(1)
sys.stdin.readline()
"""


def test_parallel_regions_are_reported_until_there_are_steps(fake):
    fake.grant(ALL)
    with Job(REGIONS, fake.path) as job:
        assert job.hear() == "begun"
        fake.wait(lambda: {"regions": 2000} in [each.body for each in fake.heard("progress")])
        job.tell()
        fake.wait_for_progress(lambda body: body.get("steps_done") == 1)
        seen = len(fake.heard("progress"))
        fake.wait(lambda: len(fake.heard("progress")) >= seen + 2)
        assert not any("regions" in each.body for each in fake.heard("progress")[seen:])


def test_parallel_regions_are_not_reported_again_to_a_controller_that_does_not_know_them(fake):
    def answer(handler):
        is_known = "regions" not in handler.heard.body
        handler.answer(*((204,) if is_known else (400, {"error": "there is no field regions"})))

    fake.answer_with("progress", answer)
    fake.grant(ALL)
    with Job(REGIONS, fake.path) as job:
        assert job.hear() == "begun"
        fake.wait(lambda: len(fake.heard("progress")) >= 4)
        assert sum("regions" in each.body for each in fake.heard("progress")) == 1
        assert len(fake.heard("jobs")) == 1
        job.end()
