# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""threads(…), set_pool_threads, set_cpuset and threadpoolctl on real pools."""

import pytest

from tests.support import harness


def _limits(intra: int, inter: int) -> dict[str, int]:
    return {"intra_op": intra, "inter_op": inter}


def test_threads_is_a_context_manager_and_a_decorator() -> None:
    found = harness.call(
        "cases_api", "threads_for_a_while", TF_NUM_INTRAOP_THREADS=2, TF_NUM_INTEROP_THREADS=3
    )
    assert found["seen"] == {
        "at start": _limits(2, 3),
        "yielded": [5, 5],
        "inside": _limits(5, 5),
        "nested": _limits(1, 5),
        "after nested": _limits(5, 5),
        "after": _limits(2, 3),
        "decorated": _limits(3, 3),
        "decorated, recursive": _limits(3, 3),
        "after an error": _limits(2, 3),
    }
    assert found["same"]
    assert found["work"] > 490_000
    assert found["settled"]


def test_one_pool_can_have_a_limit_of_its_own() -> None:
    found = harness.call("cases_api", "one_pool", harness.CAPACITY)
    assert found["kinds"] == ["intra_op", "inter_op"]
    assert found["follows"] == ["free", "free"]
    assert found["alone"] == _limits(harness.CAPACITY, 4)
    assert found["then"] == _limits(2, 4)


@pytest.mark.slow
def test_a_cpuset_holds_for_all_threads_present_and_future() -> None:
    found = harness.call("cases_api", "one_cpu")
    if found["cpus"] > 1:
        assert found["before"] != [found["cpu"]]
    assert found["at_once"] == [found["cpu"]]
    assert found["later"] == [found["cpu"]]
    assert found["widened"] == found["before"]
    assert set(found["limits"].values()) == {1}
    assert found["private"] == [1]
    # Three threads compute all the time: one CPU is what they get, and no more.
    assert 0.05 < found["cpus_used"] < 1.2
    assert found["limits_after"] == _limits(found["cpus"], found["cpus"])


def test_threadpoolctl_limits_tensorflow() -> None:
    found = harness.call("cases_api", "with_threadpoolctl")
    (start,) = found["start"]
    assert start["internal_api"] == "tf_malleable"
    assert start["num_threads"] == 6
    assert start["version"].startswith("2.")
    assert [one["num_threads"] for one in found["inside_info"]] == [2]
    assert found["inside"] == _limits(2, 2)
    assert found["after"] == _limits(6, 9)
    assert found["only"] == _limits(1, 1)
    assert found["others"] == _limits(6, 9)
    assert found["most"] == _limits(harness.CAPACITY, harness.CAPACITY)
    assert found["end"] == _limits(6, 9)


@pytest.mark.slow
def test_scikit_learn_in_threads_leaves_what_is_granted() -> None:
    seen = harness.call("cases_api", "with_scikit_learn", 20)["seen"]
    assert seen == [[granted, granted, granted] for granted, _, _ in seen]


def test_a_forked_child_has_the_limits_of_its_only_thread() -> None:
    """Those of a thread that had ended, it keeps; those that nobody in it can end, it drops."""
    assert harness.call("cases_api", "forked_from_a_thread")["in_child"] == [3, 5]
