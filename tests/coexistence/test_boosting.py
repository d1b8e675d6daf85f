# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Progress of trainings with LightGBM, XGBoost and k-means, which know nothing of tf_malleable."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import controllers
from tests.support.commands import started
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.programs import ENDS, job

# A program says what it has trained, and waits for a file of that name.
BEGIN = """
import os, sys, time
import numpy as np
def trained(name):
    print(name, flush=True)
    while not os.path.exists(os.path.join(sys.argv[1], name)):
        time.sleep(0.01)
x = np.random.default_rng(0).normal(size=(300, 4))
y = (x[:, 0] > 0).astype(int)
"""

LIGHTGBM = """
import lightgbm
data = lightgbm.Dataset(x, y, params={"verbose": -1})
def seen(env):
    calls.append(env.iteration)
calls, quiet = [], {"verbose": -1, "num_iterations": 7}
lightgbm.train(quiet, data, callbacks=[seen])
assert calls == list(range(7)), calls
trained("first")
lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x, y)
trained("second")
stop = lightgbm.early_stopping(2, verbose=False)
found = lightgbm.train(
    {"verbose": -1, "learning_rate": 10.0}, data, 50, valid_sets=[data.create_valid(x, 1 - y)],
    callbacks=[stop],
)
print(found.best_iteration + 2, flush=True)  # It ends after two rounds without a better one.
lightgbm.cv({"verbose": -1}, data, 3)
trained("third")
"""

XGBOOST = """
import xgboost
data = xgboost.DMatrix(x, y)
class Seen(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        calls.append(epoch)
        return False
calls = []
xgboost.train({}, data, 7, callbacks=[Seen()])
assert calls == list(range(7)), calls
trained("first")
xgboost.XGBClassifier(n_estimators=5).fit(x, y)
trained("second")
found = xgboost.train(
    {"eta": 1.0}, data, 50, evals=[(xgboost.DMatrix(x, 1 - y), "other")], early_stopping_rounds=2,
    verbose_eval=False,
)
print(found.num_boosted_rounds(), flush=True)
xgboost.cv({}, data, 3)
trained("third")
"""

KMEANS = """
from sklearn.cluster import KMeans
big = np.random.default_rng(0).normal(size=(20_000, 16))
print("begun", flush=True)
while not os.path.exists(os.path.join(sys.argv[1], "first")):
    KMeans(16, n_init=1, max_iter=20, tol=0, random_state=0).fit(big)
"""


@pytest.fixture
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "run" / "controller.sock"))


def steps(controller) -> tuple[float, float]:
    status = job(controller)
    return status["steps_done"], status["steps_total"]


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("training", [LIGHTGBM, XGBOOST], ids=["lightgbm", "xgboost"])
def test_rounds_are_steps_and_their_number_is_the_total(tmp_path, training):
    with (
        controllers.controller(tmp_path) as controller,
        started("run", "--", sys.executable, "-c", BEGIN + training, str(tmp_path)) as process,
    ):
        assert process.stdout.readline() == "first\n", process.stderr.read()
        wait_for(lambda: steps(controller) == (7, 7))
        (tmp_path / "first").touch()
        assert process.stdout.readline() == "second\n", process.stderr.read()
        wait_for(lambda: steps(controller) == (12, 12))
        (tmp_path / "second").touch()
        # It ends early, and so are all its rounds done.
        early = int(process.stdout.readline())
        assert early < 50
        assert process.stdout.readline() == "third\n", process.stderr.read()
        wait_for(lambda: steps(controller) == (12 + early + 3, 12 + early + 3))
        (tmp_path / "third").touch()
        assert process.wait(ENDS) == 0


TWICE = """
from tf_malleable.agent import boosting
boosting.count_rounds()
import lightgbm
boosting.count_rounds()
lightgbm.train({"verbose": -1}, lightgbm.Dataset(x, y, params={"verbose": -1}), 3)
print(boosting.rounds())
"""


def test_rounds_are_counted_once_in_a_program_that_starts_an_agent_twice():
    words = [sys.executable, "-c", BEGIN + TWICE]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout == "(3, 3)\n"


@pytest.mark.usefixtures("_alone")
def test_the_speed_of_a_program_without_steps_is_that_of_its_regions(tmp_path):
    with (
        controllers.controller(tmp_path) as controller,
        started("run", "--", sys.executable, "-c", BEGIN + KMEANS, str(tmp_path)) as process,
    ):
        assert process.stdout.readline() == "begun\n", process.stderr.read()
        wait_for(lambda: job(controller)["speeds"])
        status = job(controller)
        assert status["steps_done"] is None
        assert status["steps_per_second"] is None
        (tmp_path / "first").touch()
        assert process.wait(ENDS) == 0
