# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training ends with the same bits whoever takes part in it, and when.

Each kind of training is led through so many random schedules of joins, leaves and kills as
TFM_TEST_SCHEDULES says: one, or 20 in make test-elastic.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tests.support.elastic import alone, differences, ended_alone, plain, together
from tests.support.fake_mesh import Plan
from tf_malleable.elastic.settings import SETTINGS, MeshSettings

# Together, as many compare with one and the same undisturbed run.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("exactness")]

# One joins, another joins, the lead leaves, and the youngest is killed within a step.
GROWS_AND_SHRINKS = Plan(
    {0: ["a"], 4: ["a", "b"], 9: ["a", "b", "c"], 13: ["b", "c"]}, kills={15: "c"}
)
# One joins, and the lead leaves.
IS_HANDED_OVER = Plan({0: ["a"], 4: ["a", "b"], 9: ["b"]})
SHARDS = 4
SCHEDULES = int(os.environ.get("TFM_TEST_SCHEDULES", "1"))
# The end of an epoch is a step of the mesh, too.
STEPS = {"cnn": 18, "lstm": 21, "mlp": 24}


def check(plan, ended, training):
    """Members end as the plan says, and the last ones with the undisturbed run's bits."""
    one = ended_alone(training, SHARDS)
    killed = set(plan.kills.values())
    last = set(plan.at(10**6)) - killed
    assert last
    for name, each in ended.items():
        assert each.code == (-9 if name in killed else 0), each.said
        if name in last:
            assert differences(one.values, each.values) == []
        else:  # It left, so that the rest of the script was not its business.
            assert not each.values


@pytest.mark.parametrize("training", ["cnn", "lstm", "mlp"])
def test_members_that_come_go_and_are_killed_change_no_bit(tmp_path, training):
    ended = together(GROWS_AND_SHRINKS, [training], tmp_path, shards=SHARDS, threads=1)
    check(GROWS_AND_SHRINKS, ended, training)


@pytest.mark.parametrize(
    "training", ["mixed", "own", "ragged", "several", "sparse", "weighted", "words", "xla"]
)
def test_members_that_come_and_go_change_no_bit(tmp_path, training):
    ended = together(IS_HANDED_OVER, [training], tmp_path, shards=SHARDS, threads=1)
    check(IS_HANDED_OVER, ended, training)


def random_plan(seed, steps):
    """Return a plan with four events: somebody joins, leaves or is killed within a step."""
    chance = random.Random(seed)
    fresh, here = ["b", "c", "d"], ["a"]
    members, kills = {0: ["a"]}, {}
    # Never two in a row, as the fake mesh knows what happens from one step to the next.
    for step in sorted(chance.sample(range(2, steps, 2), 4)):
        kinds = ["join"] * (2 if fresh else 0) + ["leave", "kill"] * (len(here) > 1)
        kind = chance.choice(kinds)
        if kind == "join":
            here.append(fresh.pop(0))
        else:
            gone = here.pop(chance.randrange(len(here)))
            if kind == "kill":
                kills[step] = gone
                continue
        members[step] = list(here)
    return Plan(members, kills)


@pytest.mark.parametrize("training", STEPS)
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_random_joins_leaves_and_kills_change_no_bit(tmp_path, training, seed):
    plan = random_plan(f"{training} {seed}", STEPS[training])
    print(plan)
    check(plan, together(plan, [training], tmp_path, shards=SHARDS, threads=1), training)


@pytest.mark.parametrize("training", ["cnn", "mlp", "own", "weighted", "words"])
def test_one_shard_is_what_keras_computes(tmp_path, training):
    """Except for the order of arrays, which Keras shuffles by itself: so without it."""
    keras = plain([training, "ordered"], tmp_path / "keras.npz")
    ours = alone([training, "ordered"], tmp_path / "ours.npz", shards=1)
    assert (keras.code, ours.code) == (0, 0), ours.said
    assert keras.values.keys() == ours.values.keys()
    for name, value in keras.values.items():
        # To rounding: TensorFlow optimises a step that is cut at its gradients in another way.
        assert np.allclose(value, ours.values[name], rtol=1e-3, atol=1e-4), name


def test_a_join_in_the_very_last_step(tmp_path):
    plan = Plan({0: ["a"], STEPS["cnn"] - 1: ["a", "b"]})
    check(plan, together(plan, ["cnn"], tmp_path, shards=SHARDS, threads=1), "cnn")


def test_threads_that_change_while_members_come_and_go_change_no_bit(tmp_path):
    ended = together(IS_HANDED_OVER, ["threads"], tmp_path, shards=SHARDS, threads=1)
    check(IS_HANDED_OVER, ended, "cnn")


def test_threads_that_change_change_roundings_only_if_shards_may_use_all(tmp_path):
    two = {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
    ended = alone(["threads"], tmp_path / "two.npz", shards=SHARDS, environment=two)
    assert ended.code == 0, ended.said
    for name, value in ended_alone("cnn", SHARDS).values.items():
        assert np.allclose(value, ended.values[name], rtol=1e-3, atol=1e-4), name


def test_threads_of_a_shard_make_bits_the_same_on_any_cpus(tmp_path):
    threads = {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
    ended = alone(["cnn"], tmp_path / "two.npz", shards=SHARDS, threads=1, environment=threads)
    assert ended.code == 0, ended.said
    assert differences(ended_alone("cnn", SHARDS).values, ended.values) == []


def test_two_start_together(tmp_path):
    one = ended_alone("mlp", SHARDS)
    ended = together(Plan({0: ["a", "b"]}), ["mlp"], tmp_path, shards=SHARDS, threads=1)
    for each in ended.values():
        assert each.code == 0, each.said
        assert differences(one.values, each.values) == []


def test_data_that_differ_between_members_are_noticed(tmp_path):
    plan = Plan({0: ["a"], 4: ["a", "b"]})
    ended = together(plan, ["unseeded"], tmp_path, shards=2)
    assert ended["b"].code == 1
    assert "must not depend on the process or on unseeded generators" in ended["b"].said
    assert "Traceback" not in ended["b"].said


def test_an_unmodified_script_is_elastic_by_its_environment(tmp_path):
    asked = {SETTINGS: MeshSettings(None, b"", shards=SHARDS, seed=1).encode()}
    run = plain(["mlp"], tmp_path / "run.npz", is_preloaded=True, environment=asked)
    assert run.code == 0, run.said
    assert differences(ended_alone("mlp", SHARDS).values, run.values) == []


def test_a_wrong_environment_is_refused_with_a_sentence(tmp_path):
    asked = {SETTINGS: "1"}
    run = plain(["mlp"], tmp_path / "run.npz", is_preloaded=True, environment=asked)
    assert run.code == 1
    assert run.said.strip().endswith("TF_MALLEABLE_ELASTIC is not what tfm elastic sets")
