# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is read from a pod."""

from __future__ import annotations

import pytest

from tests.cluster.test_node_capacity import pod
from tf_malleable.cluster.observe.pod_status import see
from tf_malleable.elastic.links.errors import COME_AGAIN
from tf_malleable.elastic.settings import LEFT


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


@pytest.mark.parametrize(
    ("code", "kind"), [(0, "trained"), (LEFT, "left"), (COME_AGAIN, "left"), (137, None), (1, None)]
)
def test_a_container_that_has_ended_says_so_before_its_pod_does(code, kind):
    # Seen on Kubernetes 1.36.2: about a second before. Only the pod says that it was evicted.
    found = running(code)
    assert (found.end.kind if found.end else None) == kind
    assert found.is_running is (kind is None)
    assert not found.is_held


@pytest.mark.parametrize(("code", "kind"), [(0, "trained"), (1, "crashed")])
def test_what_trains_has_ended_though_a_container_beside_it_goes_on(code, kind):
    found = running(code, {"running": {}})
    assert (found.end.kind, found.is_running, found.is_held) == (kind, False, True)


def running(code, *others):
    """Return a pod that runs as far as is known, of which the first container has ended."""
    made = pod("t-worker-0", "1", owner="u", phase="Running")
    ended = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-02T03:04:05Z"}
    states = [{"terminated": ended}, *others]
    made["status"]["containerStatuses"] = [
        {"name": f"c{number or ''}", "state": state} for number, state in enumerate(states)
    ]
    return see(made)
