# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is read from a pod."""

from __future__ import annotations

import pytest

from tests.cluster.test_node_capacity import pod
from tf_malleable.cluster.observe.pod_status import see


def ended(code, message=None):
    made = pod("t-worker-0", "1", owner="u", phase="Failed")
    state = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-02T03:04:05Z"}
    state |= {} if message is None else {"message": message}
    made["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": state}}]
    return see(made).end


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (None, ""),
        ("\n \n", ""),
        ("one\n\n  two \n", "one | two"),
        ("1\n2\n3\n4\n5\n", "2 | 3 | 4 | 5"),
        ("x" * 700, "x" * 500),
    ],
)
def test_the_last_words_of_a_crash_are_one_line(message, said):
    end = ended(3, message)
    assert (end.kind, end.said) == ("crashed", said)
    assert str(end) == "ended with Error and exit code 3" + (f": {said}" if said else "")
