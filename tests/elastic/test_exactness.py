# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training ends with the same bits whoever takes part in it, and when."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.elastic import alone, differences, plain, together
from tests.support.fake_mesh import Plan
from tf_malleable.elastic.settings import SETTINGS, MeshSettings

# One joins, another joins, the lead leaves, and the youngest is killed within a step.
GROWS_AND_SHRINKS = Plan(
    {0: ["a"], 4: ["a", "b"], 9: ["a", "b", "c"], 13: ["b", "c"]}, kills={15: "c"}
)
TRAININGS = ["cnn", "lstm", "mlp", "mixed", "own", "several", "weighted", "xla"]


@pytest.mark.slow
@pytest.mark.parametrize("training", TRAININGS)
def test_members_that_come_and_go_change_no_bit(tmp_path, training):
    one = alone([training], tmp_path / "one.npz", shards=4)
    assert one.code == 0, one.said
    ended = together(GROWS_AND_SHRINKS, [training], tmp_path, shards=4)
    assert ended["b"].code == 0, ended["b"].said
    assert differences(one.values, ended["b"].values) == []
    assert ended["a"].code == 0, ended["a"].said
    assert not ended["a"].values  # It left, so that the rest of the script was not its business.
    assert ended["c"].code == -9


@pytest.mark.slow
@pytest.mark.parametrize("training", ["cnn", "mlp", "own", "weighted"])
def test_one_shard_is_what_keras_computes(tmp_path, training):
    """Except for the order of arrays, which Keras shuffles by itself: so without it."""
    keras = plain([training, "ordered"], tmp_path / "keras.npz")
    ours = alone([training, "ordered"], tmp_path / "ours.npz", shards=1)
    assert (keras.code, ours.code) == (0, 0), ours.said
    assert keras.values.keys() == ours.values.keys()
    for name, value in keras.values.items():
        # To rounding: TensorFlow optimises a step that is cut at its gradients in another way.
        assert np.allclose(value, ours.values[name], rtol=1e-3, atol=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_plans(tmp_path, seed):
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    members = {0: ["a", "b"]}
    for step in sorted(chance.sample(range(1, 17), 3)):
        members[step] = sorted({"b", *chance.sample(names, chance.randint(1, 3))})
    # Who has left does not come back in this mesh.
    gone: set[str] = set()
    before: list[str] = []
    for now in members.values():
        now[:] = [name for name in now if name not in gone]
        gone |= set(before) - set(now)
        before = now
    one = alone(["cnn"], tmp_path / "one.npz", shards=5)
    ended = together(Plan(members), ["cnn"], tmp_path, shards=5)
    assert ended["b"].code == 0, ended["b"].said
    assert differences(one.values, ended["b"].values) == []


@pytest.mark.slow
def test_threads_of_a_shard_make_bits_the_same_on_any_cpus(tmp_path):
    ended = [
        alone(
            ["cnn"],
            tmp_path / f"{threads}.npz",
            shards=4,
            threads=1,
            environment={"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads},
        )
        for threads in ("1", "2")
    ]
    assert [each.code for each in ended] == [0, 0], ended[0].said
    assert differences(ended[0].values, ended[1].values) == []


@pytest.mark.slow
def test_two_start_together(tmp_path):
    one = alone(["mlp"], tmp_path / "one.npz", shards=2)
    ended = together(Plan({0: ["a", "b"]}), ["mlp"], tmp_path, shards=2)
    for each in ended.values():
        assert each.code == 0, each.said
        assert differences(one.values, each.values) == []


@pytest.mark.slow
def test_data_that_differ_between_members_are_noticed(tmp_path):
    plan = Plan({0: ["a"], 4: ["a", "b"]})
    ended = together(plan, ["unseeded"], tmp_path, shards=2)
    assert ended["b"].code == 1
    assert "must not depend on the process or on unseeded generators" in ended["b"].said
    assert "Traceback" not in ended["b"].said


@pytest.mark.slow
def test_an_unmodified_script_is_elastic_by_its_environment(tmp_path):
    asked = {SETTINGS: MeshSettings(None, b"", shards=4, seed=1, threads=0).encode()}
    run = plain(["mlp"], tmp_path / "run.npz", is_preloaded=True, environment=asked)
    one = alone(["mlp"], tmp_path / "one.npz", shards=4)
    assert run.code == 0, run.said
    assert differences(one.values, run.values) == []


@pytest.mark.slow
def test_a_wrong_environment_is_refused_with_a_sentence(tmp_path):
    asked = {SETTINGS: "1"}
    run = plain(["mlp"], tmp_path / "run.npz", is_preloaded=True, environment=asked)
    assert run.code == 1
    assert run.said.strip().endswith("TF_MALLEABLE_ELASTIC is not what tfm elastic sets")
