# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings under an operator: they begin, grow, shrink and end."""

from __future__ import annotations

import urllib.request

import pytest

from tests.support.deadline import DEADLINE
from tests.support.kubernetes.examples import pod, priority
from tests.support.operators import JOBS
from tf_malleable.cluster import resource_names

# A pod that is deleted without grace has a moment on a real node, in which it may leave in order.
ENDS = (["lost", "servers"], ["servers", "servers"])
pytestmark = pytest.mark.slow


def reasons(site):
    return {event["reason"] for event in site.client.list("events")}


def test_a_training_runs_to_its_end_and_leaves_nothing(site):
    def told_of(job):
        """Return the reasons of a job's events, not of those of its name before it."""
        events = [(one["involvedObject"], one["reason"]) for one in site.client.list("events")]
        return [reason for about, reason in events if about.get("uid") == job["metadata"]["uid"]]

    site.node("n", 4)
    site.start()
    site.submit()
    status = site.wait_for_workers(2)
    assert status["phase"] == "Running"
    assert status["granted"] == status["actual"] == {"workers": 2, "cpus": 2}
    assert sum(each["shards"] for each in status["workers"]) == 4
    assert {each["actual"] for each in status["workers"]} == {1}
    assert status["selector"] == "tf-malleable.dev/job=t,tf-malleable.dev/role=worker"
    assert site.condition("Running")["status"] == "True"
    found = site.pods()
    for one in found:
        spec = one["spec"]
        assert spec["restartPolicy"] == "Never"
        assert spec["automountServiceAccountToken"] is False
        assert spec["affinity"]["nodeAffinity"]
    assert [one["metadata"]["labels"].get(resource_names.HOLDER) for one in found] == [
        "true",
        "true",
    ]

    def allowed():
        budget = site.client.get("poddisruptionbudgets", "t-state")
        return budget.get("status", {}).get("disruptionsAllowed")

    site.wait(lambda: allowed() == 1)
    status = site.finish()
    assert status["endedAt"]
    # The last step, too, though the workers ended right after it.
    assert status["progress"]["step"] == {each["step"] for each in site.said("t")}.pop()
    assert status["rescales"][0]["reason"] == "start"
    assert site.condition("Complete")["status"] == "True"
    told = {"WorkerComes", "CoordinatorCreated", "Running", "Succeeded"}
    site.wait(lambda: told <= set(told_of(site.job())))
    # What has ended is kept for its logs until the job is deleted.
    workers = f"{resource_names.ROLE}={resource_names.WORKER}"
    ended = site.client.list("pods", labelSelector=workers)
    assert [one["status"]["phase"] for one in ended] == ["Succeeded"] * 2
    # It was Pending only before it ran.
    assert told_of(site.job()).count("Pending") <= 1
    selector = f"{resource_names.ROLE}={resource_names.COORDINATOR}"
    site.wait(lambda: not site.client.list("pods", labelSelector=selector))
    site.client.delete(JOBS, "t")
    for plural in (JOBS, "pods", "services", "poddisruptionbudgets", "secrets"):
        query = {"namespace": "default"}
        query |= {} if plural == JOBS else {"labelSelector": resource_names.JOB}
        site.wait(lambda plural=plural, query=query: not site.client.list(plural, **query))


@pytest.mark.fake("counts its calls")
def test_nothing_is_created_twice(site):
    site.node("n", 4)
    site.start()
    site.submit()
    site.wait_for_workers(2)
    calls = [one.resource for one in site.cluster.calls(site.user) if one.verb == "create"]
    assert calls.count("services") == calls.count("poddisruptionbudgets") == 1
    assert calls.count("pods") == 3
    site.finish()


def test_a_training_grows_with_the_cluster_and_moves_before_a_drain(site):
    a = site.node("a", 1.5)
    site.start()
    site.submit()
    site.wait_for_workers(1)
    b = site.node("b", 1.5)
    status = site.wait_for_workers(2)
    assert {each["node"] for each in status["workers"]} == {a, b}
    site.nodes.cordon(a)
    status = site.wait_for_workers(1)
    assert [each["node"] for each in status["workers"]] == [b]
    # The last one with the state stays until another one, somewhere else, has it too.
    c = site.node("c", 1.5)
    site.wait_for_workers(2)
    site.client.patch(JOBS, "t", {"spec": {"replicas": 1}}, part="scale")
    site.wait_for_workers(1)
    (before,) = {each["node"] for each in site.status()["workers"]}
    after = {b: c, c: b}[before]
    step = site.step()

    def is_drained():
        return not site.nodes.drain(before) and not site.nodes.pods(before)

    site.wait(is_drained)
    status = site.wait_for_workers(1)
    assert [each["node"] for each in status["workers"]] == [after]
    site.wait(lambda: site.step() >= step)
    site.finish()


def test_cpus_change_in_place_and_make_way_for_pods_of_others(site):
    site.node("n", 3)
    site.start()
    site.submit(workers={"max": 1, "cpu": {"min": 1, "max": 2}})
    site.wait(lambda: site.status().get("actual") == {"workers": 1, "cpus": 2})
    (worker,) = site.pods()
    site.other("other", "1500m")
    site.wait(lambda: site.client.get("pods", "other")["status"]["phase"] == "Running")
    site.wait(lambda: site.status()["actual"]["cpus"] == 1)
    site.client.delete("pods", "other", gracePeriodSeconds=0)
    status = site.wait(lambda: site.status()["actual"]["cpus"] == 2 and site.status())
    assert status["desired"] == {"workers": 1, "cpus": 2}
    (now,) = site.pods()
    assert now["metadata"]["uid"] == worker["metadata"]["uid"]
    assert now["status"]["containerStatuses"][0]["restartCount"] == 0
    site.finish()


@pytest.mark.fake("counts the calls of an operator")
def test_way_is_made_once_and_not_taken_back_before_a_pod_is_bound(site):
    # Whatever else happens while its scheduler waits is an occasion to grow back.
    site.cluster.timings.requeue = 1.0
    site.cluster.add_node("n", 3)
    site.start()
    site.submit(workers={"max": 1, "cpu": {"min": 1, "max": 2}})
    for number in range(3):
        site.wait(lambda: site.status().get("actual") == {"workers": 1, "cpus": 2})
        before, name = resizes(site), f"other-{number}"
        site.other(name, "1500m")
        site.wait(lambda name=name: site.client.get("pods", name)["status"]["phase"] != "Pending")
        assert site.client.get("pods", name)["status"]["phase"] == "Running"
        assert resizes(site) == before + 1
        site.client.delete("pods", name, gracePeriodSeconds=0)
    site.finish()


def resizes(site):
    calls = site.cluster.calls(site.user)
    return sum((call.verb, call.resource) == ("patch", "pods/resize") for call in calls)


@pytest.mark.fake("has a pod of higher priority")
def test_a_worker_that_is_preempted_is_not_missed(site):
    site.cluster.add_node("n", 3)
    site.client.create(priority("urgent", 1000))
    site.start()
    site.submit()
    site.wait_for_workers(2)
    before = [event["reason"] for event in site.client.list("events")].count("WorkerComes")
    site.client.create(pod("other", cpus="1500m", priorityClassName="urgent"))
    site.wait(lambda: site.client.get("pods", "other")["status"]["phase"] == "Running")
    site.wait_for_workers(1)
    # None was made that finds no place.
    found = [event["reason"] for event in site.client.list("events")]
    assert found.count("WorkerComes") == before
    site.client.delete("pods", "other", gracePeriodSeconds=0)
    site.wait_for_workers(2)
    site.finish()


@pytest.mark.fake("has a kubelet refuse resizes")
@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_worker_comes_elsewhere_where_one_cannot_grow(site, reason):
    node = site.cluster.add_node("n", 3.5)
    site.start()
    site.client.create(pod("other", cpus="2"))
    site.wait(lambda: site.client.get("pods", "other")["status"]["phase"] == "Running")
    # One worker with two CPUs, or two with one.
    made = site.make("t", workers={"max": 2, "cpu": {"min": 1, "max": 2}})
    made["metadata"]["annotations"] = {resource_names.ADMITTED: "2"}
    site.client.create(made)
    site.wait(lambda: site.status().get("actual") == {"workers": 1, "cpus": 1})
    node.refuses = reason
    site.client.delete("pods", "other", gracePeriodSeconds=0)

    def is_given_up():
        (worker,) = site.pods()
        asked = worker["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        return reason in reasons(site) and asked == "1"

    site.wait(is_given_up)
    site.cluster.add_node("m", 2)
    status = site.wait_for_workers(2)
    assert {each["node"]: each["actual"] for each in status["workers"]} == {"n": 1, "m": 1}
    site.finish()


@pytest.mark.fake("has a kubelet refuse resizes")
def test_a_worker_leaves_where_it_cannot_shrink(site):
    node = site.cluster.add_node("n", 4.5)
    site.start()
    site.submit(workers={"max": 2, "cpu": {"min": 1, "max": 2}})
    site.wait(lambda: site.status().get("actual") == {"workers": 2, "cpus": 4})
    node.refuses = "Infeasible"
    site.other("other", "1")
    site.wait(lambda: site.client.get("pods", "other")["status"]["phase"] == "Running")
    # Its successor has what is left, in a pod of its own.
    site.wait(lambda: site.status().get("actual") == {"workers": 2, "cpus": 3})
    site.finish()


def test_a_job_is_suspended_and_goes_on(site):
    site.node("n", 3)
    site.start()
    site.submit(suspend=True, workers={"max": 1})
    site.wait_for_phase("Suspended")
    assert not site.pods()
    site.client.patch(JOBS, "t", {"spec": {"suspend": False}})
    site.wait_for_workers(1)
    site.client.patch(JOBS, "t", {"spec": {"suspend": True}})
    site.wait_for_phase("Suspended")
    site.wait(lambda: not site.running())
    site.client.patch(JOBS, "t", {"spec": {"suspend": False}})
    site.wait_for_workers(1)
    site.finish()


def test_kueue_admits_more_of_an_elastic_job_before_it_grows(site):
    site.node("n", 4)
    site.start()
    site.submit(suspend=True, workers={"max": 1, "cpu": {"min": 1, "max": 3}})

    def annotate(**values):
        keys = {"elastic": resource_names.ELASTIC, "admitted": resource_names.ADMITTED}
        said = {keys[name]: value for name, value in values.items()}
        site.client.patch(JOBS, "t", {"metadata": {"annotations": said}})

    annotate(elastic="true", admitted="1")
    site.client.patch(JOBS, "t", {"spec": {"suspend": False}})
    site.wait(lambda: site.status().get("actual") == {"workers": 1, "cpus": 1})
    status = site.status()
    assert (status["requested"], status["granted"]["cpus"]) == ({"cpus": 3}, 1)
    granted = site.condition("Granted")
    assert (granted["reason"], "asks for 3 CPUs" in granted["message"]) == ("Admitted", True)
    (worker,) = site.pods()
    annotate(admitted="3")
    site.wait(lambda: site.status()["actual"]["cpus"] == 3)
    annotate(admitted="2")
    site.wait(lambda: site.status()["actual"]["cpus"] == 2)
    (now,) = site.pods()
    assert now["metadata"]["uid"] == worker["metadata"]["uid"]
    annotate(elastic=None)
    site.wait(lambda: "requested" not in site.status())
    site.finish()


def test_a_server_that_ends_is_replaced(site):
    site.node("n", 4)
    site.start()
    site.submit(workers={"max": 1}, parameterServers={"min": 1, "max": 1, "cpu": "500m"})
    site.wait_for_workers(1)
    site.wait(lambda: site.status()["parameterServers"])
    (server,) = site.wait(lambda: site.pods(role=resource_names.SERVER))
    site.wait(lambda: site.status()["parameterServers"][0].get("actual") == 0.5)
    # Its container runs before the training uses it, and until then its end is no loss.
    site.wait(site.servers_in_training)
    site.kill(server)
    site.wait(lambda: [each["reason"] for each in site.status()["rescales"]][-2:] in ENDS)
    site.finish()


@pytest.mark.fake("asks the operator at its own port")
def test_metrics_and_health(site):
    site.cluster.add_node("n", 4)
    operator = site.start()
    site.submit(workers={"max": 1})
    site.wait_for_workers(1)

    def read(path):
        with urllib.request.urlopen(
            f"http://127.0.0.1:{operator.port}{path}", timeout=DEADLINE
        ) as file:
            return file.read().decode()

    assert read("/healthz") == read("/readyz") == "ok\n"
    site.wait(lambda: 'tfm_jobs{phase="Running"} 1.0' in read("/metrics"))
    shown = read("/metrics")
    assert 'tfm_workers{number="actual"} 1.0' in shown
    assert "tfm_operator_leader 1.0" in shown
    assert 'tfm_operator_actions_total{action="CreatePod",result="done"} 2.0' in shown
