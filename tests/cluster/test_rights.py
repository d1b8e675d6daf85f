# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the operator may do is what it does: its calls are compared with deploy/kubernetes."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.authorization import unused
from tests.support.kubernetes.examples import pod
from tests.support.operators import JOBS

ROLES = ("tf-malleable-operator-sees", "tf-malleable-operator-acts")


@pytest.mark.fake("records the calls of the operator")
@pytest.mark.slow
def test_no_right_is_missing_and_none_superfluous(site):
    # An answer that is lost makes it look for what it has created.
    for resource in ("services", "poddisruptionbudgets"):
        site.cluster.server.faults.inject("lose", verb="create", resource=resource)
    refused = []
    check = site.cluster.api.authorizer.check

    def note(user, call):
        try:
            check(user, call)
        except Exception:
            refused.append(call)
            raise

    site.cluster.api.authorizer.check = note
    site.cluster.add_node("n", 3)
    site.start()
    site.submit(workers={"max": 1, "cpu": {"min": 1, "max": 2}})
    site.wait(lambda: site.status().get("actual") == {"workers": 1, "cpus": 2})
    site.client.create(pod("other", cpus="1500m"))
    site.wait(lambda: site.status()["actual"]["cpus"] == 1)
    site.finish()
    site.client.delete(JOBS, "t")
    site.wait(lambda: site.client.find(JOBS, "t") is None)
    assert not refused
    calls = site.cluster.calls(site.user)
    own = [call for call in calls if call.namespace == site.namespace]
    rules = [rule for name in ROLES for rule in site.client.get("clusterroles", name)["rules"]]
    assert unused(rules, [call for call in calls if call not in own]) == []
    role = site.client.get("roles", "tf-malleable-operator", site.namespace)
    assert unused(role["rules"], own) == []
