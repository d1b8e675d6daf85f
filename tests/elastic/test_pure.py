# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is decided without TensorFlow: cutting, positions, descriptions, settings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.elastic import settings
from tf_malleable.elastic.allreduce.reduction_tree import Node, combine, cover
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.mesh import Alone, Turn
from tf_malleable.elastic.settings import MeshSettings, TrainingSettings
from tf_malleable.elastic.training.checks import RefusedError
from tf_malleable.elastic.training.data import batch_shards, epoch_logs
from tf_malleable.elastic.training.position import Description, Place, key


@given(st.integers(0, 1000), st.integers(1, 256))
def test_each_example_is_in_one_shard(examples, shards):
    sizes = batch_shards.sizes(examples, shards)
    assert sum(sizes) == examples
    assert len(sizes) == shards
    assert max(sizes) - min(sizes) <= 1


def test_shard_0_draws_what_keras_draws_and_no_two_shards_the_same():
    salts = [batch_shards.salt(shard) for shard in range(settings.MOST_SHARDS)]
    assert salts[0] == 0
    assert len(set(salts)) == len(salts)
    assert all(0 <= salt < 2**31 for salt in salts)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=20), st.data())
def test_sums_of_scaled_values_are_never_subnormal(values, data):
    tiny = np.asarray(values, np.float32) * np.float32(2.0**-126)
    scaled = np.float32(0)
    for value in tiny * np.float32(batch_shards.SCALE):
        scaled = scaled + value
    assert scaled == 0 or abs(scaled) >= np.finfo(np.float32).tiny


@given(st.integers(1, 40), st.data())
def test_a_sum_is_the_same_for_all_runs(shards, data):
    values = np.random.default_rng(shards).normal(size=(shards, 7)).astype(np.float32)
    whole = combine(shards, {Node(n, n + 1): values[n] for n in range(shards)}, np.add)
    cuts = sorted(data.draw(st.sets(st.integers(1, shards - 1)))) if shards > 1 else []
    ends = [0, *cuts, shards]
    parts = {}
    for start, stop in pairwise(ends):
        for node in cover(shards, start, stop):
            below = {Node(n, n + 1): values[n] for n in range(shards)}
            parts[node] = _below(node, below)
    assert np.array_equal(whole, combine(shards, parts, np.add))


def _below(node, values):
    from tf_malleable.elastic.allreduce.reduction_tree import children

    if node in values:
        return values[node]
    left, right = children(node)
    return _below(left, values) + _below(right, values)


def test_later_positions_compare_greater():
    order = [
        Place(0, 0, False, 0),
        Place(0, 0, False, 5),
        Place(0, 0, True, 0),
        Place(0, 1, False, 0),
        Place(1, 0, False, 0),
    ]
    assert order == sorted(order)


def test_a_description_comes_back():
    said = Description(
        step=7,
        position=Place(1, 2, False, 3),
        first_epoch=1,
        order=5,
        logs={key(0, 1): {"loss": 0.1}},
        marks={key(1, 2): 9},
        shapes=("float32[3, 4]",),
        kept=("0 float32[2]",),
    )
    assert Description.from_bytes(said.as_bytes()) == said


def test_logs_of_metrics_that_are_vectors_come_back():
    logs = {key(0, 1): {"f1": np.asarray([0.25, 1 / 3])}}
    said = Description(7, Place(0, 2, False, 3), 0, 5, logs)
    (found,) = Description.from_bytes(said.as_bytes()).logs.values()
    assert found["f1"].tolist() == [0.25, 1 / 3]


@pytest.mark.parametrize("said", [b"", b"{}", b"[1]", b'{"position": 3}', b"\xff"])
def test_what_is_no_description_is_refused(said):
    with pytest.raises(RefusedError, match="not one of this version"):
        Description.from_bytes(said)


def test_logs_come_back_to_the_bit():
    logs = {
        "loss": np.float32(0.1),
        "f1": np.asarray([0.25, 1 / 3]),
        "nan": float("nan"),
        "x": "no",
    }
    plain = epoch_logs.plain(logs)
    turn = Turn(0, 0, 0, 2, is_lead=True)
    parts = epoch_logs.as_parts(4, turn, epoch_logs.as_words(plain))
    others = epoch_logs.as_parts(4, Turn(0, 0, 2, 4), epoch_logs.as_words(None))
    found = epoch_logs.from_words(combine(4, {**parts, **others}, np.add))
    assert found["loss"] == float(np.float32(0.1))
    assert found["f1"].tolist() == [0.25, 1 / 3]
    assert np.isnan(found["nan"])
    assert "x" not in found


def test_logs_that_are_too_long_are_refused():
    with pytest.raises(RefusedError, match="at most 65536"):
        epoch_logs.as_words({"x": [0.123456789] * 10000})


def test_a_training_alone_has_all_shards():
    mesh = Alone(4)
    assert mesh.begin(3).is_only
    assert mesh.ahead() is None
    assert mesh.reduce(3, {Node(0, 4): np.ones(2, np.float32)}).tolist() == [1, 1]


def test_nothing_is_asked_for_by_default(monkeypatch):
    monkeypatch.delenv(settings.SETTINGS, raising=False)
    assert MeshSettings.from_environment() is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (MeshSettings(None, b""), TrainingSettings(1, None, None)),
        (MeshSettings(None, b"", shards=4), TrainingSettings(4, None, 1)),
        (MeshSettings(None, b"", shards=4, threads=0), TrainingSettings(4, None, None)),
        (MeshSettings(None, b"", shards=1, threads=2, seed=7), TrainingSettings(1, 7, 2)),
        (MeshSettings(Address("::1", 7), b"s" * 16, seed=7), TrainingSettings(1, 7, 1)),
    ],
)
def test_the_environment_asks(monkeypatch, asked, expected):
    monkeypatch.setenv(settings.SETTINGS, asked.encode())
    found = MeshSettings.from_environment()
    assert found == asked
    assert found.training() == expected


def test_all_members_take_the_same_seed_from_their_secret():
    one, other = (MeshSettings(Address("h", 7), b"s" * 16, host=host) for host in ("a", "b"))
    assert one.training().seed == other.training().seed is not None
    assert one.training().seed != MeshSettings(None, b"t" * 16).training().seed


@pytest.mark.parametrize("value", ["1", "{}", "[]", '{"coordinator": 3}', "{"])
def test_what_tfm_does_not_set_is_refused(monkeypatch, value):
    monkeypatch.setenv(settings.SETTINGS, value)
    with pytest.raises(MeshError, match="is not what tfm elastic sets"):
        MeshSettings.from_environment()


def test_no_two_epochs_draw_the_same():
    firsts = [
        batch_shards.first_draw(fit, epoch) for fit in (0, 1, 2000) for epoch in (0, 1, 10**6)
    ]
    assert firsts == sorted(set(firsts))
    assert firsts[0] == 0
    assert min(b - a for a, b in pairwise(firsts)) >= 2**32
    assert 0 <= batch_shards.first_draw(10**9, 10**9) < 2**63
