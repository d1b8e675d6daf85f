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
