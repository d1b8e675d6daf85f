# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many workers a grant makes, and which CPUs each of them gets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.elastic.membership.cpu_split import split
from tf_malleable.elastic.membership.throughput import StepRate, WorkerSample, WorkerSpeeds
from tf_malleable.elastic.membership.worker_count import Bounds, Patience, Seen, Sizing, wanted

MANY = 64


def test_counts_that_lower_nobodys_shards_are_not_tried():
    assert Bounds(1, 8, 8, MANY).counts() == (1, 2, 3, 4, 8)
    assert Bounds(1, 4, 4, MANY).counts() == (1, 2, 4)
    assert Bounds(3, 4, 4, MANY).counts() == (3, 4)
    assert Bounds(2, 2, 4, MANY).counts() == (2,)


@pytest.mark.parametrize(
    ("bounds", "present", "cores", "expected"),
    [
        # One worker can use all of it: cores change, workers do not.
        (Bounds(1, 4, 4, MANY), 0, 1, 1),
        (Bounds(1, 4, 4, MANY), 0, 4, 1),
        (Bounds(1, 4, 4, MANY), 1, 64, 1),
        (Bounds(1, 8, 64, MANY, 1), 1, 64, 1),
        # The range of one worker ends.
        (Bounds(1, 4, 4, 1), 0, 1, 1),
        (Bounds(1, 4, 4, 1), 0, 2, 2),
        (Bounds(1, 4, 4, 1), 1, 2, 2),
        # Three have as many shards each at most as two.
        (Bounds(1, 4, 4, 1), 2, 3, 2),
        (Bounds(1, 4, 4, 1), 2, 4, 4),
        (Bounds(1, 4, 4, 1), 4, 64, 4),
        (Bounds(1, 4, 4, 2), 1, 3, 2),
        (Bounds(1, 8, 8, 16, 0), 1, 64, 4),
        # Fewer cores than workers.
        (Bounds(1, 4, 4, 1), 4, 3, 2),
        (Bounds(1, 4, 4, 1), 4, 1, 1),
        (Bounds(1, 4, 4, MANY), 4, 2, 2),
        # The fewest workers stay, even if they must share cores.
        (Bounds(3, 4, 4, 1), 3, 1, 3),
        (Bounds(3, 4, 4, 1), 4, 2, 3),
        # As long as each has a core, and all are used, nothing changes.
        (Bounds(1, 4, 4, MANY), 2, 4, 2),
        (Bounds(1, 4, 4, MANY), 2, 2, 2),
    ],
)
def test_the_grant_decides(bounds, present, cores, expected):
    assert wanted(bounds, Seen(present, cores)) == expected


@pytest.mark.parametrize(
    ("speeds", "busy", "present", "expected"),
    [
        ({}, 0.2, 1, 1),  # Nothing was measured with these yet.
        ({(1, 4): 10.0}, 0.9, 1, 1),
        ({(1, 4): 10.0}, None, 1, 1),
        ({(1, 4): 10.0}, 0.5, 1, 2),  # It leaves cores idle: two are tried,
        ({(1, 4): 10.0}, 0.5, 2, 2),  # and measured,
        ({(1, 4): 10.0, (2, 4): 10.5}, 0.5, 2, 1),  # and given up,
        ({(1, 4): 10.0, (2, 4): 15.0}, 0.9, 2, 2),  # or kept.
        ({(1, 4): 10.0, (2, 4): 15.0}, 0.5, 1, 2),  # It is known for the next time.
        ({(1, 4): 10.0, (2, 4): 15.0}, 0.5, 2, 4),
        ({(1, 4): 10.0, (2, 4): 15.0, (4, 4): 9.0}, 0.5, 4, 2),
        ({(1, 4): 10.0, (2, 4): 10.5, (4, 4): 10.2}, 0.1, 1, 1),  # All were tried.
        ({(1, 2): 1.0, (2, 2): 9.0, (1, 4): 10.0}, 0.9, 1, 1),  # That was with two cores.
    ],
)
def test_what_was_measured_decides(speeds, busy, present, expected):
    assert wanted(Bounds(1, 4, 4, MANY), Seen(present, 4, busy, speeds)) == expected


@st.composite
def situations(draw):
    shards = draw(st.integers(1, 64))
    most = draw(st.integers(1, shards))
    bounds = Bounds(
        draw(st.integers(1, most)),
        most,
        shards,
        draw(st.integers(1, 64)),
        draw(st.integers(0, 4)),
    )
    counts = st.sampled_from(bounds.counts())
    speeds = st.dictionaries(st.tuples(counts, st.integers(1, 64)), st.floats(0.1, 100))
    busy = st.none() | st.floats(0, 1)
    return bounds, Seen(
        draw(st.integers(0, most)), draw(st.integers(1, 64)), draw(busy), draw(speeds)
    )


@given(situations())
def test_any_decision_is_one_that_makes_sense(situation):
    bounds, seen = situation
    found = wanted(bounds, seen)
    assert found in bounds.counts()
    assert found <= max(seen.cores, bounds.least)
    # Nobody else could use more of the grant, unless it was measured.
    if not seen.speeds:
        able = [each for each in bounds.counts() if each <= max(seen.cores, bounds.least)]
        used = min(seen.cores, bounds.usable(found))
        assert used == max(min(seen.cores, bounds.usable(each)) for each in able)
        assert wanted(bounds, Seen(found, seen.cores)) == found


def course(grants, seconds):
    """Return the number of workers over time, with a grant for so many seconds each."""
    bounds, sizing, found = Bounds(1, 4, 4, 1), Sizing(1), []
    for now in range(int(len(grants) * seconds)):
        cores = grants[int(now / seconds)]
        target = wanted(bounds, Seen(sizing.workers, cores))
        sizing = sizing.after(target, float(now), Patience())
        found.append(sizing.workers)
    return found


def changes(found):
    return sum(one != other for one, other in pairwise(found))


def test_a_grant_that_stays_is_followed_soon():
    found = course([2, 1, 2], 30)
    assert found[2:4] == [1, 2]
    assert found[31:33] == [2, 1] or found[30:32] == [2, 1]
    assert changes(found) == 3


def test_grants_that_flap_cause_no_rescales():
    assert changes(course([2, 1] * 60, 1)) == 0
    assert changes(course([2, 1] * 15, 4)) <= 12  # At most one in ten seconds.


CPUS = st.lists(st.integers(0, 63), min_size=1, max_size=64, unique=True)


@given(CPUS, st.integers(1, 8), st.integers(1, 8), CPUS, st.none() | st.integers(1, 4))
def test_parts_are_disjoint_equal_and_within_the_grant(cpus, before, count, others, most):
    names = [str(number) for number in range(count)]
    had = split(others, [str(number) for number in range(before)], {})
    found = split(cpus, names, had, most)
    assert list(found) == names
    assert all(part and part <= set(cpus) for part in found.values())
    sizes = sorted(map(len, found.values()))
    if len(cpus) >= count:
        assert sum(sizes) == len(set().union(*found.values()))
        assert sizes[-1] - sizes[0] <= 1
        assert sizes[-1] == min(-(-len(cpus) // count), most or 64)
    else:
        assert sizes == [1] * count
    assert split(cpus, names, found, most) == found


def test_a_worker_keeps_the_cpus_that_it_had():
    first = split([0, 1, 2, 3], ["a", "b"], {})
    assert first == {"a": {0, 1}, "b": {2, 3}}
    second = split([0, 1, 2], ["a", "b"], first)
    assert second == {"a": {0, 1}, "b": {2}}
    assert split([1, 2, 3], ["a", "b"], second) == {"a": {1, 3}, "b": {2}}
    assert split([0, 1, 2, 3], ["b"], first) == {"b": {0, 1, 2, 3}}


def test_speeds_are_measured_while_nothing_changes():
    measured = WorkerSpeeds()
    for second in range(11):
        measured.add(WorkerSample(float(second), 1, 2, 10 * second, 1.5 * second))
        assert bool(measured.speeds) == (second >= 8)
    assert measured.speeds == {(1, 2): 10.0}
    assert measured.busy == 0.75
    measured.add(WorkerSample(11.0, 1, 1, 110, 16.0))  # It has fewer cores.
    assert measured.busy is None
    for second in range(12, 30):
        measured.add(WorkerSample(float(second), 1, 1, 110 + 5 * (second - 11), 16.0))
    assert measured.speeds == {(1, 2): 10.0, (1, 1): 5.0}
    assert measured.busy == 0.0
    measured.add(None)
    assert measured.busy is None


def test_a_training_that_began_again_is_measured_anew():
    measured = WorkerSpeeds()
    measured.add(WorkerSample(0.0, 1, 1, 1000, 10.0))
    measured.add(WorkerSample(10.0, 1, 1, 3, 11.0))
    measured.add(WorkerSample(11.0, 1, 1, 4, 12.0))
    assert not measured.speeds
    measured.add(WorkerSample(20.0, 1, 1, 103, 20.0))
    assert measured.speeds == {(1, 1): 10.0}


def test_a_rate_is_of_one_kind_of_steps_only():
    rate = StepRate()
    for at in range(4):
        rate.add(at, 10 * at, are_batches=False)
    assert rate.steps_per_second() == 10
    # The same moment, as counted by members that continue what others began.
    rate.add(4, 500, are_batches=True)
    assert rate.steps_per_second() is None
    rate.add(6, 520, are_batches=True)
    assert rate.steps_per_second() == 10
