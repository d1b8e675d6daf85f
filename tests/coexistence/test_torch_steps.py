# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Steps of trainings with PyTorch, in programs that do not know of tf_malleable."""

from __future__ import annotations

import sys

import pytest

from tests.support import controllers
from tests.support.commands import started
from tests.support.controllers import wait_for
from tests.support.programs import ENDS, job

TRAINING = """
import os, sys, time, torch
from torch.optim.optimizer import _global_optimizer_post_hooks
def wait(condition):
    while not condition():
        time.sleep(0.01)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(step, count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        step()
    print("trained", flush=True)
print("imported", flush=True)
wait(lambda: _global_optimizer_post_hooks)
train(optimizer.step, 50)
# Once it is compiled, nothing may make it compile again.
compiled = torch.compile(lambda: optimizer.step(), backend="eager")
train(compiled, 6)
torch._dynamo.config.error_on_recompile = True
train(compiled, 20)
wait(lambda: os.path.exists(sys.argv[1]))
"""


@pytest.fixture
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "run" / "controller.sock"))


@pytest.mark.usefixtures("_alone")
def test_steps_of_a_plain_loop_are_counted_but_not_compiled_ones(tmp_path):
    counted = tmp_path / "counted"
    with (
        controllers.controller(tmp_path) as controller,
        started("run", "--", sys.executable, "-c", TRAINING, str(counted)) as process,
    ):
        assert process.stdout.readline() == "imported\n", process.stderr.read()
        for _ in range(3):
            assert process.stdout.readline() == "trained\n", process.stderr.read()
        wait_for(lambda: job(controller)["steps_done"] == 50)
        assert job(controller)["confined"] is None
        counted.touch()
        assert process.wait(ENDS) == 0
