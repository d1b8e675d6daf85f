# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An elastic training computes what Keras does, with every layer and every optimizer of Keras's.

A step hands nothing but gradients to an optimizer, and these are of few kinds. So all optimizers
are tried with layers of each kind, and all layers with one model in which each variable has the
next optimizer. TFM_TEST_TURNS=16 tries every variable with every optimizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support import zygote
from tests.support.elastic import SCRIPT, alone, plain, together
from tests.support.fake_mesh import Plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LAYERS = SCRIPT.with_name("every_layer.py")
OPTIMIZERS = [
    ["Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion"],
    ["LossScaleOptimizer", "MultiOptimizer", "Muon", "Nadam", "RMSprop", "SGD"],
    ["ScheduleFreeAdamW", "SGD clipnorm", "SGD clipvalue", "SGD global_clipnorm", "SGD nesterov"],
    ["Adam amsgrad", "Adam clipnorm", "Adam clipvalue", "Adam global_clipnorm"],
    ["Adam gradient_accumulation_steps", "Adam use_ema", "Adam weight_decay"],
]
# Keras itself fails with these and an embedding.
FAILING = ["Adam loss_scale_factor", "RMSprop centered"]
TURNS = int(os.environ.get("TFM_TEST_TURNS", "1"))
BEGINS_WITH_TWO = Plan({0: ["a", "b"]})


def by_number(values):
    """Return values by optimizer and number, as names of variables depend on the process."""
    return {
        (name.partition(":")[0], name.partition(": ")[2].split()[0]): (name, value)
        for name, value in values.items()
    }


def check_equal(keras, ours):
    """All values are equal to rounding: TensorFlow optimises a step cut in two in another way."""
    assert (keras.code, ours.code) == (0, 0), keras.said + ours.said
    expected, found = by_number(keras.values), by_number(ours.values)
    assert len(expected) == len(keras.values)
    assert expected.keys() == found.keys()
    differ = []
    for key, (name, value) in expected.items():
        one = found[key][1]
        if value.dtype.kind == "U":
            assert (name, value) == (name, one)
        elif not np.allclose(value, one, rtol=1e-3, atol=1e-4):
            differ.append((name, float(np.abs(value - one).max())))
    assert differ == []


def compare(tmp_path, arguments, **settings):
    """Train with Keras and elastically, side by side."""
    with ThreadPoolExecutor(2) as threads:
        keras = threads.submit(plain, arguments, tmp_path / "keras.npz", script=LAYERS)
        ours = threads.submit(alone, arguments, tmp_path / "ours.npz", LAYERS, **settings)
        check_equal(keras.result(), ours.result())
        return keras.result()


@pytest.mark.parametrize("optimizers", OPTIMIZERS, ids=lambda names: names[0])
def test_every_optimizer_updates_as_in_keras(tmp_path, optimizers):
    ended = compare(tmp_path, ["few", *optimizers], shards=1)
    assert {name.partition(":")[0] for name in ended.values} == set(optimizers)
    assert not [name for name in ended.values if name.endswith(": error")]


def test_what_keras_cannot_train_fails_alike(tmp_path):
    ended = compare(tmp_path, ["few", *FAILING], shards=1)
    assert sorted(ended.values) == [f"{name}: error" for name in FAILING]


@pytest.mark.parametrize("first", range(TURNS))
def test_every_layer_is_trained_as_in_keras(tmp_path, first):
    compare(tmp_path, ["all", f"in turn from {first}"], shards=1)


def test_shards_of_one_or_two_members_have_the_gradients_of_one_process(tmp_path):
    """Also if some have no example, as in the last batch."""
    arguments = ["few", "Adam", "SGD clipnorm"]
    keras = plain(arguments, tmp_path / "keras.npz", script=LAYERS)
    check_equal(keras, alone(arguments, tmp_path / "alone.npz", LAYERS, shards=6))
    for ours in together(BEGINS_WITH_TWO, arguments, tmp_path, LAYERS, shards=6).values():
        check_equal(keras, ours)


def test_no_layer_or_optimizer_of_keras_is_missing(tmp_path):
    """What a new version of Keras has is to be added here."""
    script = tmp_path / "missing.py"
    script.write_text(
        f"import runpy\n"
        f"script = runpy.run_path({str(LAYERS)!r})\n"
        f"print('missing', sorted(script['missing_layers']()))\n"
        f"print('optimizers', *script['named_optimizers'](), sep='|')\n"
    )
    process = zygote.popen("keras")(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, _ = process.communicate(timeout=120)
    assert "missing []" in said, said
    (line,) = [line for line in said.splitlines() if line.startswith("optimizers|")]
    named = {name for name in line.split("|")[1:] if not name.startswith("in turn")}
    assert named == {*FAILING, *(name for names in OPTIMIZERS for name in names)}
