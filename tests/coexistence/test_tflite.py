# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TensorFlow Lite has threads of its own, which no limit reaches."""

from __future__ import annotations

THREADS = 4


def test_an_interpreter_computes_right_on_threads_of_its_own(call):
    found = call("cases_tflite", "threads_of_an_interpreter", THREADS, 200)
    assert found["settled"]
    assert found["right"]
    # The thread that calls it computes, too.
    assert found["own"] == THREADS - 1
    # They ran although the limit was one, and no pool of TensorFlow's had a part in it.
    assert found["busy"] > 0
    assert found["same_tasks"]
    assert found["alive"]
