# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm cluster operator: it starts, says why it cannot, and ends on SIGTERM."""

from __future__ import annotations

import pytest

from tests.support.commands import started
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.kubernetes.authorization import account

LEASE = "tf-malleable-operator"


def test_a_policy_that_there_is_not(tfm, cluster):
    said = tfm("operator", "--policy", "nonsense")
    assert said.code == 2
    assert said.err.count("\n") == 1


def test_who_may_not_be_the_operator_is_told(tfm, cluster):
    mine = cluster.kubeconfig(account("default", "nobody"))
    said = tfm("operator", "--port", "0", kubeconfig=mine)
    assert said.code == 1
    assert said.err.startswith("tfm: the cluster refuses this operator: secrets")
    assert said.err.count("\n") == 1


@pytest.mark.slow
def test_it_leads_until_sigterm(cluster):
    words = ["--kubeconfig", cluster.kubeconfig(), "--port", "0", "-n", "default"]
    with started("cluster", "operator", *map(str, words)) as operator:
        wait_for(lambda: cluster.client.find("leases", LEASE))
        operator.terminate()
        assert operator.wait(DEADLINE) == 0
    assert cluster.client.get("leases", LEASE)["spec"]["holderIdentity"] == ""
