# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tf.config.threading changes limits once TensorFlow has started."""

from __future__ import annotations

import sys

import pytest

from tests.support import harness
from tests.support.commands import tfm

STOCK = "Intra op parallelism cannot be modified after initialization."


def test_numbers_set_before_the_start_and_after():
    assert harness.call("cases_config", "before_and_after") == {
        "at first": [0, 0],
        "before the start": [[3, 5], [None, None]],
        "at the start": [[3, 5], [3, 5]],
        "repeated": 0,
        "intra": [[2, 5], [2, 5]],
        "by hand": 1,
        "inter": [[2, 16], [2, 16], [2, 16]],
        "first number again": [3, 16],
        "in a block": [1, 1],
        "set_threads": [4, 4],
        "unset": [[3, 5], [3, 5], [3, 5]],
    }


def test_numbers_by_hand_hold_until_the_next_grant():
    assert harness.call("cases_config", "with_grants") == [
        *([2, 2], [5, 2], [3, 3], [6, 7], [3, 7], [3, 3])
    ]


@pytest.mark.slow
def test_without_a_number_the_first_limit_holds():
    found = harness.call("cases_config", "unset_with_a_first_limit", TF_MALLEABLE_THREADS=2)
    assert found == [[2, 2], [5, 2], [2, 2]]


def test_numbers_that_are_not_allowed_are_refused_as_stock_tensorflow_refuses_all():
    numbers = [-1, harness.CAPACITY + 1, 2.5, "2", None, True]
    said, then = harness.call("cases_config", "refused", numbers)
    assert said == [
        "once TensorFlow has started, intra_op_parallelism_threads must be an integer from 0 to"
        f" {harness.CAPACITY}, not {number!r}; TF_MALLEABLE_MAX_THREADS sets the highest"
        for number in numbers
    ]
    assert then[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"TF_MALLEABLE_TF_CONFIG_THREADING": 0}, {"stock": True}])
def test_it_can_be_turned_off_and_needs_our_pools(options):
    said, numbers = harness.call("cases_config", "opted_out", fresh=True, **options)
    assert (said, numbers) == (STOCK, [0, 0])


@pytest.mark.slow
def test_an_unchanged_program_that_imports_tensorflow_late(tmp_path):
    program = """
def work():
    import tensorflow as tf
    tf.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    print(tf.config.threading.get_intra_op_parallelism_threads())
work()
"""
    script = tmp_path / "train.py"
    script.write_text(program)
    result = tfm("run", "--", sys.executable, str(script))
    assert result.stdout == "1\n"
