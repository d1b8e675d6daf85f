# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What cannot be elastic is refused with one sentence; what cannot be exact is said."""

from __future__ import annotations

import pytest

from tests.support.elastic import SCRIPT, alone

FRONT = "tf_malleable: elastic training: "
REFUSED = {
    "eager": "compile(run_eagerly=True) cannot be traced; leave it out",
    "stateful": "is stateful: it carries examples from batch to batch, which shards cannot",
    "doubles": "is float64, and sums are of float32 or narrower",
    "by_batch": "only fit() can be elastic, not train_on_batch()",
    "twice": "applies gradients once; that of Twice does so 2 times",
    "counting": "but that of Counting changes a variable by itself (AssignAddVariableOp",
    "strange": "the train step of Strange returns 'all' as float32 of shape",
}
SAID = {
    "noisy": "Noisy draws random numbers with RandomStandardNormal",
    "calling": "Calling calls Python in its train step (PyFunc",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    out = tmp_path_factory.mktemp("refusals") / "none.npz"
    ended = alone([], out, SCRIPT.with_name("refusals.py"), shards=2)
    assert ended.code == 0, ended.said
    return ended.said.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refused(said, case):
    (line,) = [line for line in said if line.startswith(f"{case}: ")]
    assert line.startswith(f"{case}: {FRONT}")
    assert REFUSED[case] in line


@pytest.mark.slow
@pytest.mark.parametrize("case", SAID)
def test_said(said, case):
    assert f"{case}: trained" in said
    (line,) = [line for line in said if line.startswith(FRONT + SAID[case])]
    assert "depend" in line


@pytest.mark.slow
def test_a_refusal_ends_the_script_without_a_traceback(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import keras, numpy as np\n"
        "model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', run_eagerly=True)\n"
        "model.fit(np.zeros((2, 1)), np.zeros((2, 1)))\n"
    )
    ended = alone([], tmp_path / "none.npz", script, shards=2)
    assert ended.code == 1
    assert "tf_malleable: elastic training: compile(run_eagerly=True)" in ended.said
    assert "Traceback" not in ended.said
