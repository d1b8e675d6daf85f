# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An organisation's budget among hosts: kept, and where it carries most work."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.power.servers import SERVERS
from tf_malleable.model.power import PowerCurve, lower_hull
from tf_malleable.scheduling.energy.water_fill import PowerHost, water_fill, with_floors

CHEAP = PowerHost(PowerCurve(((0.0, 50.0), (1.0, 90.0))), 4)
DEAR = PowerHost(PowerCurve(((0.0, 50.0), (1.0, 210.0))), 4)


def work(host: PowerHost, watts: float) -> float:
    """Return the most CPUs that a host can keep busy with these watts, on average."""
    if watts >= host.curve.full:
        return host.cpus
    hull = lower_hull(host.curve.points)
    for (x0, y0), (x1, y1) in pairwise(hull):
        if y0 <= watts <= y1:
            return host.cpus * (x0 + (x1 - x0) * (watts - y0) / max(y1 - y0, 1e-12))
    return 0.0


def test_watts_go_first_where_they_carry_most_work():
    assert water_fill({"a": DEAR, "b": CHEAP}, 130) == {"a": 50, "b": 80}
    assert water_fill({"a": DEAR, "b": CHEAP}, 200) == {"a": 110, "b": 90}
    assert water_fill({"a": DEAR, "b": CHEAP}, 1000) == {"a": 210, "b": 90}


def test_hosts_that_are_alike_share_evenly_whatever_their_names():
    assert water_fill(dict.fromkeys("abc", CHEAP), 210) == pytest.approx(dict.fromkeys("abc", 70))


def test_a_host_without_jobs_gets_what_it_needs_to_be_idle():
    idle = replace(CHEAP, active=False)
    assert water_fill({"a": idle, "b": DEAR}, 200) == {"a": 50, "b": 150}


def test_too_little_for_all_to_be_idle_is_shared_in_proportion():
    assert water_fill({"a": DEAR, "b": CHEAP}, 50) == {"a": 25, "b": 25}
    assert water_fill({}, 50) == {}


HOSTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2),
    st.builds(
        PowerHost,
        st.sampled_from([server.curve for server in SERVERS]),
        st.integers(1, 128),
        st.sampled_from([0.5, 1.0, 2.0]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(HOSTS, st.floats(0, 4000))
def test_the_budget_is_kept_and_used(hosts, watts):
    shares = water_fill(hosts, watts)
    assert shares.keys() == hosts.keys()
    assert sum(shares.values()) <= watts + 1e-6
    idle = sum(host.curve.idle for host in hosts.values())
    if idle <= watts:
        useful = sum(host.curve.full if host.active else host.curve.idle for host in hosts.values())
        assert sum(shares.values()) == pytest.approx(min(watts, useful))
        for name, host in hosts.items():
            assert host.curve.idle <= shares[name] <= host.curve.full + 1e-9


@given(HOSTS, st.floats(0, 4000), st.data())
def test_moving_watts_from_one_host_to_another_gains_no_work(hosts, watts, data):
    shares = water_fill(hosts, watts)
    if sum(host.curve.idle for host in hosts.values()) > watts:
        return
    busy = [name for name, host in hosts.items() if host.active]
    if len(busy) < 2:
        return
    giver, taker = data.draw(st.permutations(busy))[:2]
    moved = data.draw(st.floats(0, 1)) * (shares[giver] - hosts[giver].curve.idle)
    before = sum(hosts[n].weight * work(hosts[n], shares[n]) for n in (giver, taker))
    after = hosts[giver].weight * work(hosts[giver], shares[giver] - moved)
    after += hosts[taker].weight * work(hosts[taker], shares[taker] + moved)
    assert after <= before + 1e-6


@given(HOSTS, st.floats(1, 4000), st.data())
def test_no_share_is_below_its_floor(hosts, watts, data):
    shares = water_fill(hosts, watts)
    part = st.floats(0, watts / len(hosts))
    floors = {name: data.draw(part) for name in hosts}
    found = with_floors(shares, floors, watts)
    assert found.keys() == hosts.keys()
    assert sum(found.values()) <= watts * (1 + 1e-9)
    for name in hosts:
        assert floors[name] * (1 - 1e-9) <= found[name] <= max(shares[name], floors[name])
    if all(shares[name] >= floors[name] for name in hosts):
        assert found == pytest.approx(shares)
