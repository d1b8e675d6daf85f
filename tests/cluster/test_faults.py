# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What may go wrong around an operator: trainings go on, and all comes right in the end."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from tests.support.operators import IMAGE, JOBS, TIMINGS
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.job_state import TRAINED

pytestmark = pytest.mark.slow


def events(site):
    return {event["reason"]: event["message"] for event in site.client.list("events")}


@pytest.mark.fake("kills operators at a given moment")
def test_an_operator_killed_at_any_moment_is_followed_by_another(site):
    site.cluster.add_node("a", 1.5)
    site.cluster.add_node("b", 1.5)
    site.submit()
    chance = random.Random(1)
    for number in range(4):
        operator = site.spawn(identity=str(number), lease_seconds=1.0)
        site.wait(lambda operator=operator: is_acting(site, operator))
        time.sleep(chance.uniform(0.0, 0.6))
        operator.kill()
    site.spawn(identity="last", lease_seconds=1.0)
    status = site.wait_for_workers(2)
    assert len(status["workers"]) == 2
    site.finish()


@pytest.mark.fake("kills operators at a given moment")
@pytest.mark.parametrize("moment", ["a worker ends", "the status is written"])
def test_an_operator_killed_at_the_end_leaves_a_training_that_has_ended(site, moment):
    # A node needs that long until it says that a pod has ended, not only its container.
    site.cluster.timings.teardown = 2.0
    site.cluster.add_node("n", 4)
    site.submit()
    operator = site.spawn(identity="first", lease_seconds=1.0)
    site.wait_for_workers(2)
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    site.end()

    def has_ended(pod):
        return "terminated" in pod["status"]["containerStatuses"][0]["state"]

    if moment == "a worker ends":
        site.wait(lambda: any(map(has_ended, site.pods())))
    else:
        site.wait(lambda: site.condition(TRAINED).get("status") == "True")
    operator.kill()
    site.wait(lambda: not site.pods())
    coordinators = site.pods(role=resource_names.COORDINATOR)
    for pod in coordinators:
        site.client.delete("pods", pod["metadata"]["name"])
    site.spawn(identity="second", lease_seconds=1.0)
    status = site.wait_for_phase("Succeeded")
    assert [each["reason"] for each in status["rescales"]].count("start") == 1
    workers = f"{resource_names.ROLE}={resource_names.WORKER}"
    found = site.client.list("pods", labelSelector=workers)
    assert {pod["metadata"]["uid"] for pod in found} == before
    assert {pod["status"]["phase"] for pod in found} == {"Succeeded"}


def is_acting(site, operator):
    lease = site.client.find("leases", "tf-malleable-operator", site.namespace)
    assert operator.process.poll() is None
    return lease and lease["spec"]["holderIdentity"] == operator.identity


@pytest.mark.fake("counts the calls of an operator")
def test_two_operators_of_which_one_acts(site):
    site.cluster.add_node("n", 4)
    first, second = site.spawn(identity="one"), site.spawn(identity="two")
    site.submit()
    site.wait_for_workers(2)
    lease = site.client.get("leases", "tf-malleable-operator", site.namespace)
    leader = first if lease["spec"]["holderIdentity"] == "one" else second
    created = [
        call
        for call in site.cluster.calls(site.user)
        if (call.verb, call.resource) == ("create", "pods")
    ]
    assert len(created) == 3
    leader.kill()
    site.client.patch(JOBS, "t", {"spec": {"workers": {"max": 1}}})
    site.wait_for_workers(1)
    site.finish()


def test_a_coordinator_that_dies_is_replaced(site):
    site.node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    (before,) = site.pods(role=resource_names.COORDINATOR)
    site.kill(before)

    def is_replaced():
        found = site.pods(role=resource_names.COORDINATOR)
        # The name may be that of the one before.
        return found and found[0]["metadata"]["uid"] != before["metadata"]["uid"]

    site.wait(is_replaced)
    step = site.step()
    site.wait(lambda: site.step() > step + 5)
    site.wait_for_workers(2)
    site.finish()


def test_a_service_that_is_deleted_is_back_at_its_address(site):
    site.node("n", 4)
    site.start()
    site.submit(workers={"max": 1, "cpu": {"min": 1, "max": 1}})
    site.wait_for_workers(1)
    name = resource_names.service_name("t")
    before = site.client.get("services", name)
    site.client.delete("services", name)

    def is_back():
        found = site.client.find("services", name)
        return found and found["metadata"]["uid"] != before["metadata"]["uid"] and found

    found = site.wait(is_back)
    assert found["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    # A worker that comes later finds the coordinator there, and the one that was there its next.
    site.client.patch(JOBS, "t", {"spec": {"workers": {"max": 2}}})
    site.wait_for_workers(2)
    (coordinator,) = site.pods(role=resource_names.COORDINATOR)
    site.kill(coordinator)
    gone = coordinator["metadata"]["uid"]
    site.wait(
        lambda: (
            {one["metadata"]["uid"] for one in site.pods(role=resource_names.COORDINATOR)} - {gone}
        )
    )
    site.wait_for_workers(2)
    site.finish()


@pytest.mark.fake("kills a process inside a pod")
def test_a_worker_that_is_killed_is_replaced(site):
    site.cluster.add_node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    victim = site.pods()[0]
    site.kill(victim)
    # One took part since, so that the crash does not count any more.
    site.wait(lambda: victim["metadata"]["name"] in events(site).get("Forgiven", ""))
    site.wait_for_workers(2)
    site.wait(lambda: site.status().get("failures") == 0)
    site.finish()


@pytest.mark.fake("kills the API server")
def test_an_api_server_that_is_down_for_a_while(site):
    site.cluster.add_node("a", 1.5)
    site.start()
    site.submit()
    site.wait_for_workers(1)
    step = site.step()
    site.cluster.server.kill()
    time.sleep(1.0)
    site.cluster.server.start()
    site.cluster.add_node("b", 1.5)
    site.wait_for_workers(2)
    assert site.step() > step
    site.finish()


CALLS = [
    ("list", "pods"),
    ("list", "malleablejobs"),
    ("watch", "pods"),
    ("watch", "nodes"),
    ("create", "pods"),
    ("create", "services"),
    ("create", "secrets"),
    ("create", "events"),
    ("create", "poddisruptionbudgets"),
    ("create", "leases"),
    ("update", "leases"),
    ("patch", "pods"),
    ("patch", "malleablejobs"),
    ("patch", "malleablejobs/status"),
    ("delete", "pods"),
]


@pytest.mark.fake("has the API server give wrong answers")
@pytest.mark.parametrize("effect", [409, 410, 500, "lose", "drop", "hang"])
def test_any_call_may_go_wrong(site, effect):
    faults = site.cluster.server.faults
    found = [
        faults.inject(effect, verb=verb, resource=resource, user=site.user.name, skip=skip)
        for verb, resource in CALLS
        for skip in (0, 1)
        if not (effect == "lose" and verb in ("watch", "list"))
        # Each of these costs the time after which no answer is awaited any more.
        if not (effect == "hang" and (skip or verb == "watch" or resource == "events"))
    ]
    site.cluster.add_node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    site.client.patch(JOBS, "t", {"spec": {"workers": {"max": 1}}})
    site.wait_for_workers(1)
    site.cluster.server.cut_watches()
    site.cluster.api.compact()
    site.client.patch(JOBS, "t", {"spec": {"workers": {"max": 2}}})
    site.wait_for_workers(2)
    site.finish()
    assert sum(fault.met for fault in found) > len(found) / 2
    # Whatever was done twice, no member is there twice.
    calls = [pod["metadata"]["name"] for pod in site.client.list("pods")]
    assert len(calls) == len(set(calls))


@pytest.mark.fake("has an image vanish that runs")
def test_an_image_that_does_not_start(site):
    site.cluster.add_node("a", 1.5)
    site.start()
    site.submit()
    site.wait_for_workers(1)
    site.cluster.images.missing.add(IMAGE)
    site.cluster.add_node("b", 1.5)
    site.wait(
        lambda: site.condition("Healthy").get("reason") in ("ErrImagePull", "ImagePullBackOff")
    )
    step = site.step()
    site.wait(lambda: site.step() > step)
    assert site.status()["phase"] == "Running"
    # A late worker does not keep the training from its end.
    site.finish()
    site.submit("never", workers={"max": 1})
    status = site.wait_for_phase("Failed", "never")
    assert "ImagePull" in site.condition("Failed", "never")["reason"]
    assert status["actual"]["workers"] == 0
    site.wait(lambda: not site.running("never"), "never")
    site.wait(lambda: "does not start" in events(site).get("Failed", ""), "never")


def test_a_script_that_crashes(site):
    site.node("n", 4)
    site.start()
    item = site.make("t", backoffLimit=1, workers={"max": 1})
    container = item["spec"]["template"]["spec"]["containers"][0]
    # Both by one stream: the order of lines of two is nobody's promise.
    script = "echo first >&2; echo 'no such file: x' >&2; exit 3"
    container["command"] = ["tfm", "run", "--", "sh", "-c", script]
    site.client.create(item)
    status = site.wait_for_phase("Failed")
    assert status["failures"] == 2
    assert site.condition("Failed")["reason"] == "BackoffLimitExceeded"
    assert "exit code 3: first | no such file: x" in site.condition("Failed")["message"]
    site.wait(lambda: not site.running())
    # Those that have failed are kept for their logs.
    found = site.client.list("pods", labelSelector=f"{resource_names.ROLE}={resource_names.WORKER}")
    assert len(found) == 2


@pytest.mark.fake("counts the calls of an operator")
def test_a_coordinator_that_a_limit_range_refuses(site):
    site.cluster.add_node("n", 2)
    site.cluster.apply("""
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: default}
spec: {limits: [{type: Container, min: {cpu: 100m}, max: {memory: 512Mi}}]}
""")
    site.start(timings=replace(TIMINGS, stuck=600.0))
    site.submit()
    site.wait(lambda: site.condition("Healthy").get("reason") == "PodRefused")
    said = site.condition("Healthy")["message"]
    assert "minimum cpu usage per Container is 100m, but request is 50m" in said
    assert "set spec.coordinator.resources" in said
    # What it depends on is not created anew each time that it is tried.
    kinds = ("services", "poddisruptionbudgets", "secrets")
    before, tries = [creations(site, kind) for kind in kinds], creations(site, "pods")
    site.wait(lambda: creations(site, "pods") >= tries + 3)
    assert [creations(site, kind) for kind in kinds] == before
    # It holds no CPUs that another one could use.
    site.wait(lambda: site.condition("Granted").get("reason") == "PodsRefused")
    other = {"coordinator": {"resources": {"requests": {"cpu": "100m"}}}}
    site.submit("other", workers={"max": 1, "cpu": {"max": 1}}, **other)
    site.wait_for_workers(1, "other")
    site.finish("other")
    site.client.patch(JOBS, "t", {"spec": other})
    site.wait_for_workers(1)
    assert site.condition("Healthy")["status"] == "True"
    site.finish()


def creations(site, resource):
    calls = site.cluster.calls(site.user)
    return sum((call.verb, call.resource) == ("create", resource) for call in calls)


@pytest.mark.fake("has a namespace that enforces a standard")
def test_workers_that_are_refused_for_too_long(site):
    site.cluster.add_node("n", 4)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    site.client.patch("namespaces", "default", {"metadata": {"labels": labels}})
    site.start()
    site.submit()
    status = site.wait_for_phase("Failed")
    assert site.condition("Failed")["reason"] == "PodRefused"
    assert "runAsNonRoot != true" in site.condition("Failed")["message"]
    assert status["granted"]["workers"] == 0
    site.wait(lambda: not site.running())


@pytest.mark.fake("refuses what a test says")
@pytest.mark.parametrize("resource", ["services", "poddisruptionbudgets"])
def test_a_service_or_budget_that_is_refused_for_too_long(site, resource):
    site.cluster.add_node("n", 4)
    faults = site.cluster.server.faults
    faults.inject(422, verb="create", resource=resource, user=site.user.name, times=None)
    site.start()
    site.submit()
    status = site.wait_for_phase("Failed")
    failed = site.condition("Failed")
    assert (failed["reason"], failed["message"]) == ("DependentsRefused", "an injected Invalid")
    assert status["granted"]["workers"] == 0
    assert not creations(site, "pods")


@pytest.mark.fake("counts the calls of an operator")
def test_a_service_of_somebody_else(site):
    name = resource_names.service_name("t")
    site.cluster.add_node("n", 2)
    site.cluster.apply(f"""
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec: {{ports: [{{port: 80}}]}}
""")
    site.start(timings=replace(TIMINGS, stuck=600.0))
    site.submit()
    site.wait(lambda: site.condition("Healthy").get("reason") == "DependentsRefused")
    assert site.condition("Healthy")["message"] == f"Service {name} belongs to somebody else"
    # It holds no CPUs that another one could use, and is not looked at all the time.
    site.wait(lambda: site.condition("Granted").get("reason") == "PodsRefused")
    looks, begin = gets(site, "services"), time.monotonic()
    site.submit("other", workers={"max": 1, "cpu": {"max": 1}})
    site.wait_for_workers(1, "other")
    site.finish("other")
    own = 8  # Of the other one.
    most = own + (time.monotonic() - begin) / TIMINGS.longest_refused
    assert gets(site, "services") - looks <= most
    site.client.delete("services", name)
    site.wait_for_workers(1)
    site.finish()


def gets(site, resource):
    calls = site.cluster.calls(site.user)
    return sum((call.verb, call.resource) == ("get", resource) for call in calls)


@pytest.mark.fake("knows what the pods of the fake request")
def test_a_quota_that_is_exceeded(site):
    site.cluster.add_node("n", 4)
    site.cluster.apply("""
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: default}
spec: {hard: {limits.memory: 100Mi}}
""")
    site.start()
    site.submit()
    site.wait(lambda: site.condition("Granted").get("reason") == "WaitingForQuota")
    assert not creations(site, "pods")
    # One worker of 64 Mi and a coordinator of 256 Mi.
    site.client.patch("resourcequotas", "q", {"spec": {"hard": {"limits.memory": "330Mi"}}})
    site.wait_for_workers(1)
    hard = {"limits.memory": None, "requests.cpu": "2100m"}
    site.client.patch("resourcequotas", "q", {"spec": {"hard": hard}})
    site.wait_for_workers(2)
    site.finish()
    # One that the operator does not know.
    site.client.patch("resourcequotas", "q", {"spec": {"hard": {"limits.example.com/a": "1"}}})
    site.submit("other")
    site.wait(lambda: site.condition("Healthy", "other").get("reason") == "QuotaExceeded", "other")
    site.client.delete("resourcequotas", "q")
    site.wait_for_workers(2, "other")
    site.finish("other")


@pytest.mark.fake("knows what the pods of the fake request")
def test_a_quota_of_limits(site):
    # The coordinator requests 50m of it and is limited to a whole CPU, which is what counts.
    site.cluster.add_node("n", 4)
    site.cluster.apply("""
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: default}
spec: {hard: {limits.cpu: "2"}}
""")
    site.start()
    site.submit()
    site.wait_for_workers(1)
    assert site.condition("Healthy")["status"] == "True"
    refused = [event for event in site.client.list("events") if "Quota" in event["reason"]]
    assert not refused
    site.client.patch("resourcequotas", "q", {"spec": {"hard": {"limits.cpu": "3"}}})
    site.wait_for_workers(2)
    site.finish()


def test_pods_that_nobody_schedules(site):
    site.node("n", 4)
    site.start()
    item = site.make("t", workers={"max": 1})
    item["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    site.client.create(item)
    site.wait(lambda: site.condition("Healthy").get("reason") == "Unschedulable")
    site.wait(lambda: "Unschedulable" in events(site))
    site.client.delete(JOBS, "t")
    site.wait(lambda: not site.client.list("pods", labelSelector=resource_names.JOB))


def test_a_pod_that_stays_terminating(site):
    site.node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    held = site.pods()[1]["metadata"]["name"]
    site.client.patch("pods", held, {"metadata": {"finalizers": ["example.com/held"]}})
    site.client.delete("pods", held)
    site.wait(lambda: held not in {each["pod"] for each in site.status()["workers"]})
    site.wait_for_workers(2)
    site.finish()
    site.client.patch("pods", held, {"metadata": {"finalizers": None}})


@pytest.mark.fake("has an operator with patience of its own")
def test_a_worker_waits_for_the_cpus_of_one_that_keeps_its_grace_period(site):
    site.node("n", 1.5)
    timings = replace(TIMINGS, unscheduled=4.0)
    site.start(timings=timings)
    item = site.make("t", workers={"max": 1})
    spec = item["spec"]["template"]["spec"]
    # Longer than a pod may usually stay unscheduled.
    spec["terminationGracePeriodSeconds"] = 2 * int(timings.unscheduled)
    (container,) = spec["containers"]
    train = " ".join(container["command"][3:])
    stays = f"mkdir {site.folder}/first || exec {train}; trap '' TERM; sleep 600"
    container["command"] = ["tfm", "run", "--", "sh", "-c", stays]
    site.client.create(item)
    site.wait(lambda: (site.folder / "first").exists())
    (first,) = site.pods()
    site.client.delete("pods", first["metadata"]["name"])
    (second,) = site.wait(site.pods)
    site.wait_for_workers(1)
    assert [pod["metadata"]["uid"] for pod in site.pods()] == [second["metadata"]["uid"]]
    assert not [one for one in site.client.list("events") if "finds no place" in one["message"]]
    site.finish()


@pytest.mark.fake("kills a node")
@pytest.mark.serial("it measures how long a new generation takes")
def test_a_node_that_dies(site):
    for name in "abc":
        site.cluster.add_node(name, 1.5)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    victim = site.status()["workers"][1]["node"]
    before = site.status()["rescales"]
    site.cluster.kill_node(victim)

    def is_unready():
        found = site.client.get("nodes", victim)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] != "True" for one in found)

    site.wait(is_unready)
    seen = time.monotonic()
    site.wait(lambda: len(site.status()["rescales"]) > len(before))
    assert time.monotonic() - seen < 2.0
    status = site.wait_for_workers(2)
    assert victim not in {each["node"] for each in status["workers"]}
    # Nobody can say that its pods have ended before it is clear that it is gone.
    site.client.delete("nodes", victim)
    site.finish()
    site.client.delete(JOBS, "t")
    site.wait(lambda: not site.client.list("pods"))


def test_a_job_of_the_same_name_after_one_that_is_going(site):
    site.node("n", 4)
    site.start()
    site.submit(workers={"max": 1})
    site.wait_for_workers(1)
    first = site.job()["metadata"]["uid"]
    site.client.delete(JOBS, "t")
    site.wait(lambda: site.client.find(JOBS, "t") is None)
    site.submit(workers={"max": 1})
    site.wait_for_workers(1)
    (worker,) = site.pods()
    assert worker["metadata"]["ownerReferences"][0]["uid"] != first
    site.finish()
