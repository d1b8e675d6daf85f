# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Nodes that die, come back, vanish, are drained."""

from __future__ import annotations

from pathlib import Path

from tests.support.controllers import wait_for
from tests.support.kubernetes.examples import pod


def found(cluster, name="one"):
    return cluster.client.find("pods", name)


def running(cluster, *names):
    for name in names:
        wait_for(lambda name=name: found(cluster, name)["status"]["phase"] == "Running")


def condition(item, kind):
    return next((one for one in item["status"]["conditions"] if one["type"] == kind), {})


def taints(cluster, name):
    return {taint["key"] for taint in cluster.client.get("nodes", name)["spec"].get("taints", ())}


def test_a_node_that_dies_is_unreachable_and_its_pods_are_to_go(cluster):
    cluster.add_node("n")
    cluster.client.create(pod())
    running(cluster, "one")
    (pid,) = cluster.pids(found(cluster))
    cluster.kill_node("n")
    assert not Path(f"/proc/{pid}").exists()
    wait_for(lambda: "node.kubernetes.io/unreachable" in taints(cluster, "n"))
    assert condition(cluster.client.get("nodes", "n"), "Ready")["status"] == "Unknown"
    wait_for(lambda: condition(found(cluster), "Ready")["status"] == "False")
    wait_for(lambda: "deletionTimestamp" in found(cluster)["metadata"])
    # Nobody there can say that it has ended, so it stays Terminating and Running.
    assert found(cluster)["status"]["phase"] == "Running"
    assert condition(found(cluster), "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    cluster.client.delete("pods", "one", gracePeriodSeconds=0)
    assert found(cluster) is None


def test_a_pod_that_tolerates_it_stays_and_runs_again_with_its_node(cluster):
    cluster.add_node("n")
    cluster.timings.backoff = 0.01
    stays = [{"operator": "Exists", "effect": "NoExecute"}]
    cluster.client.create(pod("again", restartPolicy="Always", tolerations=stays))
    cluster.client.create(pod("once", tolerations=stays))
    running(cluster, "again", "once")
    cluster.kill_node("n")
    wait_for(lambda: "node.kubernetes.io/unreachable" in taints(cluster, "n"))
    cluster.restart_node("n")
    wait_for(lambda: found(cluster, "once")["status"]["phase"] == "Failed")
    wait_for(
        lambda: (
            found(cluster, "again")["status"]["containerStatuses"][0]["restartCount"] == 1
            and cluster.pids(found(cluster, "again"))
        )
    )
    wait_for(lambda: not taints(cluster, "n"))
    assert condition(cluster.client.get("nodes", "n"), "Ready")["status"] == "True"


def test_pods_that_were_to_go_do_when_their_node_is_back(cluster):
    cluster.add_node("n")
    cluster.client.create(pod())
    running(cluster, "one")
    cluster.kill_node("n")
    wait_for(lambda: "deletionTimestamp" in found(cluster)["metadata"])
    cluster.restart_node("n")
    wait_for(lambda: found(cluster) is None)


def test_pods_of_a_node_that_vanished_are_forced_away(cluster):
    cluster.add_node("n")
    cluster.client.create(pod())
    running(cluster, "one")
    seen = []
    cluster.api.store.listen(lambda change: seen.append(change))
    cluster.remove_node("n")
    wait_for(lambda: found(cluster) is None)
    last = next(change for change in reversed(seen) if change.key[2] == "one").object
    assert last["status"]["phase"] == "Failed"
    assert condition(last, "DisruptionTarget")["reason"] == "DeletionByPodGC"


def test_a_drain_respects_budgets(cluster):
    cluster.add_node("n")
    cluster.apply("""
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}
""")
    for name in ("one", "two"):
        cluster.client.create(pod(name, labels={"app": "a"}))
    running(cluster, "one", "two")
    (kept,) = cluster.drain("n")
    gone = ({"one", "two"} - {kept}).pop()
    wait_for(lambda: found(cluster, gone) is None)
    assert found(cluster, kept)["status"]["phase"] == "Running"
    assert cluster.drain("n") == [kept]
    cluster.add_node("m")
    cluster.client.create(pod(gone, labels={"app": "a"}))
    wait_for(lambda: found(cluster, gone)["spec"].get("nodeName") == "m")
    running(cluster, gone)
    assert cluster.drain("n") == []
    wait_for(lambda: found(cluster, kept) is None)


def test_a_taint_expels_at_once_who_does_not_tolerate_it(cluster):
    cluster.add_node("n")
    cluster.client.create(pod())
    running(cluster, "one")
    taint = {"key": "maintenance", "effect": "NoExecute"}
    cluster.client.patch("nodes", "n", {"spec": {"taints": [taint]}})
    wait_for(lambda: found(cluster) is None)
