# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pods as processes: start, environment, end, restart, grace; and their logs."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.jobs import has_ended
from tests.support.kubernetes.examples import ask, pod

# Says that it listens to signals, and ends as told when it is asked to.
POLITE = "trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.02; done"
STUBBORN = "trap '' TERM; echo on; while :; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def node(cluster):
    return cluster.add_node("n", 4)


def status(cluster, name="one"):
    return cluster.client.get("pods", name)["status"]


def phase(cluster, wanted, name="one"):
    wait_for(lambda: status(cluster, name)["phase"] == wanted)
    return status(cluster, name)


def state(cluster, name="one"):
    return next(
        iter(status(cluster, name).get("containerStatuses", [{}])[0].get("state", {}).items()), None
    )


def test_a_pod_runs(cluster):
    cluster.client.create(pod())
    found = phase(cluster, "Running")
    (container,) = found["containerStatuses"]
    assert container["ready"]
    assert container["state"]["running"]["startedAt"]
    assert found["podIP"].startswith("127.")
    conditions = {one["type"]: one["status"] for one in found["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"),
        "True",
    )
    (pid,) = cluster.pids(cluster.client.get("pods", "one"))
    assert not has_ended(pid)
    cluster.close()
    assert has_ended(pid)


@pytest.mark.parametrize(
    ("script", "ended", "code", "reason"),
    [
        ("exit 0", "Succeeded", 0, "Completed"),
        ("exit 7", "Failed", 7, "Error"),
        ("kill -9 $$", "Failed", 137, "Error"),
    ],
)
def test_a_pod_ends(cluster, script, ended, code, reason):
    cluster.client.create(pod(script=script))
    found = phase(cluster, ended)
    terminated = found["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


def test_a_container_has_ended_before_its_pod_has(cluster):
    # Seen on Kubernetes 1.36.2: about a second passes, and the pod has its CPUs meanwhile.
    cluster.timings.teardown = 60.0
    cluster.client.create(pod(script="exit 0", cpus="3"))
    wait_for(lambda: state(cluster) and state(cluster)[0] == "terminated")
    assert status(cluster)["phase"] == "Running"
    cluster.client.create(pod("two", cpus="3"))
    cluster.client.create(pod("three", cpus="900m"))
    phase(cluster, "Running", "three")
    assert not cluster.client.get("pods", "two")["spec"].get("nodeName")
    # One that is deleted goes as late.
    cluster.client.delete("pods", "one")
    cluster.client.create(pod("four", script="exit 0", cpus="100m"))
    wait_for(lambda: state(cluster, "four") and state(cluster, "four")[0] == "terminated")
    assert cluster.client.find("pods", "one")


def test_what_a_container_leaves_behind_goes_with_it(cluster):
    cluster.client.create(pod(script="sleep 300 & echo $!; exit 0"))
    phase(cluster, "Succeeded")
    wait_for(lambda: has_ended(int(cluster.log("one"))))


def test_the_environment(cluster):
    cluster.apply("""
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {token: secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {key: mapped}
---
apiVersion: v1
kind: Service
metadata: {name: my-service}
spec: {ports: [{port: 8080}]}
""")

    def of(name, **source):
        return {"name": name, "valueFrom": source}

    env = [
        {"name": "PLAIN", "value": "a"},
        {"name": "MADE", "value": "$(PLAIN)-$(NONE)-$$(PLAIN)"},
        of("NAME", fieldRef={"fieldPath": "metadata.name"}),
        of("LABEL", fieldRef={"fieldPath": "metadata.labels['app']"}),
        of("NODE", fieldRef={"fieldPath": "spec.nodeName"}),
        of("IP", fieldRef={"fieldPath": "status.podIP"}),
        of("CPUS", resourceFieldRef={"resource": "limits.cpu"}),
        of("MILLIS", resourceFieldRef={"resource": "limits.cpu", "divisor": "1m"}),
        of("SECRET", secretKeyRef={"name": "s", "key": "token"}),
        of("MAPPED", configMapKeyRef={"name": "m", "key": "key"}),
        of("OPTIONAL", secretKeyRef={"name": "s", "key": "none", "optional": True}),
    ]
    cluster.images["shell:1"] = {"IMAGE": "yes"}
    cluster.client.create(pod(script="env", env=env, labels={"app": "x"}))
    found = phase(cluster, "Succeeded")
    said = dict(line.split("=", 1) for line in cluster.log("one").splitlines())
    assert {name: said[name] for name in ("PLAIN", "MADE", "NAME", "LABEL", "NODE")} == {
        "PLAIN": "a",
        "MADE": "a-$(NONE)-$(PLAIN)",
        "NAME": "one",
        "LABEL": "x",
        "NODE": "n",
    }
    assert said["IP"] == found["podIP"]
    assert (said["CPUS"], said["MILLIS"]) == ("1", "500")
    assert (said["SECRET"], said["MAPPED"], said["IMAGE"]) == ("secret", "mapped", "yes")
    assert "OPTIONAL" not in said
    assert said["MY_SERVICE_SERVICE_PORT"] == "8080"
    assert "KUBECONFIG" not in said
    assert "PYTHONPATH" not in said


def test_a_pod_waits_for_what_its_environment_is_from(cluster):
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "later", "key": "a"}}}]
    cluster.client.create(pod(script="echo $A", env=env))
    wait_for(
        lambda: state(cluster) and state(cluster)[1].get("reason") == "CreateContainerConfigError"
    )
    assert state(cluster)[1]["message"] == 'secret "later" not found'
    cluster.apply("{apiVersion: v1, kind: Secret, metadata: {name: later}, stringData: {a: now}}")
    phase(cluster, "Succeeded")
    assert cluster.log("one") == "now\n"


def test_nothing_is_mounted(cluster):
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    item = pod(**spec)
    item["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/data"}]
    cluster.client.create(item)
    wait_for(
        lambda: (
            state(cluster) and state(cluster)[0] == "waiting" and state(cluster)[1].get("message")
        )
    )
    assert "cannot mount v at /data" in state(cluster)[1]["message"]


def test_an_image_that_is_not_there_is_tried_again(cluster):
    cluster.images.missing.add("none:1")
    cluster.client.create(pod(image="none:1"))
    wait_for(lambda: state(cluster) and state(cluster)[1].get("reason") == "ImagePullBackOff")
    assert status(cluster)["phase"] == "Pending"
    cluster.images.missing.clear()
    phase(cluster, "Running")


def test_pods_have_addresses_of_their_own_and_can_talk(cluster):
    cluster.client.create(pod("other"))
    program = "import os, socket; s = socket.create_server((os.environ['IP'], 0)); "
    program += "print(s.getsockname()[1], flush=True); s.accept()[0].sendall(b'hello')"
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    item = pod(env=env)
    item["spec"]["containers"][0]["command"] = [sys.executable, "-c", program]
    cluster.client.create(item)
    wait_for(lambda: cluster.log("one").endswith("\n"))
    addresses = phase(cluster, "Running")["podIP"], phase(cluster, "Running", "other")["podIP"]
    assert addresses[0] != addresses[1]
    with socket.create_connection(
        (addresses[0], int(cluster.log("one"))), timeout=DEADLINE
    ) as talk:
        assert talk.recv(5) == b"hello"


def test_a_pod_that_is_deleted_may_end_in_its_own_way(cluster):
    cluster.client.create(pod(script=POLITE))
    wait_for(lambda: cluster.log("one") == "on\n")
    seen = []
    cluster.api.store.listen(lambda change: seen.append(change))
    cluster.client.delete("pods", "one")
    wait_for(lambda: cluster.client.find("pods", "one") is None)
    last = seen[-1].object["status"]
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert last["phase"] == "Failed"


def test_after_its_grace_a_pod_is_killed(cluster):
    cluster.client.create(pod(script=STUBBORN, terminationGracePeriodSeconds=1))
    wait_for(lambda: cluster.log("one") == "on\n")
    (pid,) = cluster.pids(cluster.client.get("pods", "one"))
    cluster.client.delete("pods", "one")
    assert not has_ended(pid)
    wait_for(lambda: cluster.client.find("pods", "one") is None)
    assert has_ended(pid)


@pytest.mark.parametrize(("is_shared", "code"), [(False, 137), (True, 143)])
def test_the_first_process_of_a_pid_namespace_gets_no_signal_without_a_handler(
    cluster, is_shared, code
):
    item = pod(terminationGracePeriodSeconds=1 if code == 137 else 300)
    item["spec"]["shareProcessNamespace"] = is_shared
    cluster.client.create(item)
    phase(cluster, "Running")
    seen = []
    cluster.api.store.listen(lambda change: seen.append(change))
    cluster.client.delete("pods", "one")
    wait_for(lambda: cluster.client.find("pods", "one") is None)
    (container,) = seen[-1].object["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == code


def test_a_pod_deleted_without_grace_is_gone_at_once_and_its_process_soon(cluster):
    cluster.client.create(pod(script=STUBBORN))
    wait_for(lambda: cluster.log("one") == "on\n")
    (pid,) = cluster.pids(cluster.client.get("pods", "one"))
    cluster.client.delete("pods", "one", gracePeriodSeconds=0)
    assert cluster.client.find("pods", "one") is None
    wait_for(lambda: has_ended(pid))


def test_a_finalizer_keeps_a_pod_that_has_ended(cluster):
    item = pod()
    item["metadata"]["finalizers"] = ["a.b/c"]
    cluster.client.create(item)
    phase(cluster, "Running")
    cluster.client.delete("pods", "one")
    phase(cluster, "Failed")
    assert cluster.client.get("pods", "one")["metadata"]["finalizers"] == ["a.b/c"]
    cluster.client.patch("pods", "one", {"metadata": {"finalizers": None}})
    wait_for(lambda: cluster.client.find("pods", "one") is None)


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("OnFailure", 1)])
def test_a_container_is_restarted_with_pauses(cluster, tmp_path, policy, code):
    cluster.timings.backoff = 0.01
    count = tmp_path / "count"
    script = f"echo again >>{count}; echo run $(wc -l <{count}); "
    script += f"[ $(wc -l <{count}) -lt 3 ] || exec sleep 300; exit {code}"
    cluster.client.create(pod(script=script, restartPolicy=policy))

    def settled():
        (container,) = status(cluster).get("containerStatuses", [{"restartCount": 0}])
        return container["restartCount"] == 2 and "running" in container["state"] and container

    container = wait_for(settled)
    assert container["lastState"]["terminated"]["exitCode"] == code
    wait_for(lambda: cluster.log("one") == "run 3\n")
    token = cluster.token()
    path = "/api/v1/namespaces/default/pods/one/log"
    assert ask(cluster.server, "GET", path, token=token)[1] == "run 3\n"
    assert ask(cluster.server, "GET", f"{path}?previous=true", token=token)[1] == "run 2\n"


def test_a_crash_loop_is_said(cluster):
    cluster.timings.backoff = 5.0
    cluster.timings.longest_backoff = 60.0
    cluster.client.create(pod(script="exit 1", restartPolicy="Always"))
    wait_for(lambda: state(cluster) and state(cluster)[1].get("reason") == "CrashLoopBackOff")
    found = status(cluster)
    assert found["phase"] == "Running"
    assert {one["type"]: one["status"] for one in found["conditions"]}["Ready"] == "False"


def test_on_failure_success_is_the_end(cluster):
    cluster.client.create(pod(script="exit 0", restartPolicy="OnFailure"))
    phase(cluster, "Succeeded")


def test_logs(cluster):
    cluster.client.create(pod(script="seq 5; echo oops >&2"))
    phase(cluster, "Succeeded")
    token = cluster.token()
    path = "/api/v1/namespaces/default/pods/one/log"
    assert ask(cluster.server, "GET", path, token=token)[1] == "1\n2\n3\n4\n5\noops\n"
    assert ask(cluster.server, "GET", f"{path}?tailLines=2", token=token)[1] == "5\noops\n"
    assert ask(cluster.server, "GET", f"{path}?previous=true", token=token)[0] == 400


def test_pods_go_on_while_the_server_is_down_and_are_told_of_after(cluster):
    cluster.client.create(pod("ends", script=POLITE))
    cluster.client.create(pod("stays"))
    wait_for(lambda: cluster.log("ends") == "on\n")
    (pid,) = cluster.pids(cluster.client.get("pods", "ends"))
    phase(cluster, "Running", "stays")
    (other,) = cluster.pids(cluster.client.get("pods", "stays"))
    cluster.server.kill()
    os.kill(pid, 15)
    wait_for(lambda: has_ended(pid))
    assert not has_ended(other)
    cluster.server.start()
    phase(cluster, "Failed", "ends")
    assert status(cluster, "stays")["phase"] == "Running"
