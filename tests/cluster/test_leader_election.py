# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who stops leading gives up the lease, whatever is under way at that moment."""

from __future__ import annotations

import asyncio

import pytest

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube.client import ApiClient, CallError
from tf_malleable.cluster.kube.leader_election import LeaderElection

LEASE = "tf-malleable-operator"


class SlowLeases:
    """Carries out a call only when it may, even if the caller has given up."""

    def __init__(self):
        self.lease = None
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def get(self, kind, namespace, name):
        if self.lease is None:
            raise CallError(404, "NotFound", "no lease")
        return self.lease

    async def create(self, kind, namespace, item):
        self.is_asked.set()
        await asyncio.shield(asyncio.ensure_future(self._create(item)))

    async def _create(self, item):
        await self.may_answer.wait()
        self.lease = {**item, "metadata": {**item["metadata"], "resourceVersion": "1"}}

    async def replace(self, kind, namespace, item):
        self.lease = item


def test_it_is_given_up_though_it_is_only_being_created():
    async def stopped_at_once():
        client = SlowLeases()
        leading = asyncio.create_task(
            LeaderElection(client, "default", LEASE, "one", 1.5, lambda: None).run()
        )
        await client.is_asked.wait()
        leading.cancel()
        await asyncio.sleep(0)
        client.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await leading
        return client.lease["spec"]["holderIdentity"]

    assert asyncio.run(stopped_at_once()) == ""


@pytest.mark.fake("runs the operator in this process")
@pytest.mark.slow
def test_it_is_given_up_though_the_rest_of_the_operator_ends_sooner(site, monkeypatch):
    get = ApiClient.get

    async def slow(self, kind, namespace, name):
        found = await get(self, kind, namespace, name)
        if kind is resource_names.LEASES:
            await asyncio.sleep(0.3)
        return found

    monkeypatch.setattr(ApiClient, "get", slow)
    operator = site.start()
    site.wait(lambda: site.client.find("leases", LEASE, site.namespace))
    operator.stop()
    lease = site.client.get("leases", LEASE, site.namespace)
    assert lease["spec"]["holderIdentity"] == ""


class Leases:
    """A lease of an API server, and the calls that it gets."""

    def __init__(self):
        self.calls, self.version, self.spec = [], 0, None

    async def get(self, kind, namespace, name):
        self.calls.append("get")
        if self.spec is None:
            raise CallError(404, "NotFound", "no lease")
        return self.lease()

    async def create(self, kind, namespace, item):
        return self.write("create", item["spec"])

    async def replace(self, kind, namespace, item):
        if item["metadata"]["resourceVersion"] != str(self.version):
            self.calls.append("conflict")
            raise CallError(409, "Conflict", "somebody else was first")
        return self.write("replace", item["spec"])

    def write(self, call, spec):
        self.calls.append(call)
        self.version, self.spec = self.version + 1, spec
        return self.lease()

    def lease(self):
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": dict(self.spec)}


class Clock:
    """Time that passes while somebody sleeps only."""

    def __init__(self, monkeypatch):
        self.now, self._sleep = 1000.0, asyncio.sleep
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self._pass)

    async def _pass(self, seconds):
        self.now += seconds
        await self._sleep(0)

    async def run(self, election, until):
        """Run an election until something is so."""
        running = asyncio.create_task(election.run())
        while not until():
            await self._sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_who_leads_renews_with_one_call(monkeypatch):
    clock, leases = Clock(monkeypatch), Leases()
    election = LeaderElection(leases, "default", LEASE, "one", 10.0, lambda: None)
    asyncio.run(clock.run(election, lambda: leases.version == 4))
    assert leases.calls[:5] == ["get", "create", "replace", "replace", "replace"]
    assert leases.spec["leaseTransitions"] == 0


def test_a_lease_that_somebody_else_has_written_is_read_again(monkeypatch):
    clock, leases = Clock(monkeypatch), Leases()
    election = LeaderElection(leases, "default", LEASE, "one", 10.0, lambda: None)

    def is_renewed():
        if leases.version == 2:  # As `kubectl annotate` does.
            leases.version = 3
        return leases.version == 4

    asyncio.run(clock.run(election, is_renewed))
    assert leases.calls[2:] == ["replace", "conflict", "get", "replace", "get", "replace"]


def test_who_waits_takes_over_as_soon_as_the_lease_has_expired(monkeypatch):
    clock, leases = Clock(monkeypatch), Leases()
    leases.write("create", {"holderIdentity": "one", "leaseDurationSeconds": 11})
    election = LeaderElection(leases, "default", LEASE, "two", 10.0, lambda: None)
    asyncio.run(clock.run(election, lambda: election.is_leader))
    # Since it has first seen the lease, though 11 is no multiple of how often it looks.
    assert clock.now == pytest.approx(1011.0)
    assert leases.spec["leaseTransitions"] == 1
