# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What pods amount to, and what is done about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cluster.test_job_spec import item
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import parse
from tf_malleable.cluster.observe.job_cache import JobCache
from tf_malleable.cluster.observe.job_state import TRAINED, judge
from tf_malleable.cluster.observe.pod_status import UNSEEN, PodEnd, PodStatus
from tf_malleable.cluster.observe.training_progress import MemberSeen, TrainingProgress
from tf_malleable.cluster.planning.cluster_job import JobPlan, WorkerAt
from tf_malleable.cluster.reconcile import job_status
from tf_malleable.cluster.reconcile.actions import (
    CreatePod,
    DeletePod,
    EnsureDependents,
    MarkPod,
    ResizePod,
    SetFinalizers,
)
from tf_malleable.cluster.reconcile.required_actions import PodSites, closing, steps
from tf_malleable.cluster.settings import Timings

NOW = 1000.0
TIMINGS = Timings()
READY = {"a", "b"}


@pytest.fixture
def job(tmp_path):
    return replace(parse(item(tmp_path)), finalizers=(resource_names.FINALIZER,))


def worker(member, node="a", **more):
    return PodStatus(
        f"t-worker-{member}",
        f"u{member}",
        resource_names.WORKER,
        member,
        node,
        **{"created": 900.0, "cpus": 1.0, "is_running": True, **more},
    )


def coordinator(member=0, **more):
    more = {"is_running": True, **more}
    return PodStatus(
        f"t-coordinator-{member}", f"c{member}", resource_names.COORDINATOR, member, "a", **more
    )


def crashed(member, at=950.0, **more):
    end = PodEnd(3, "Error", at, "crashed")
    return worker(member, end=end, is_running=False, **more)


def progress(*uids, step=10, phase="steady"):
    members = tuple(MemberSeen(uid, "worker", True, False, 2) for uid in uids)
    return TrainingProgress(phase, 1, step, step, None, None, members)


def judged(job, *pods, said=None, ready=READY, now=NOW):
    return judge(job, pods, said, ready, now, TIMINGS)


def todo(job, *pods, plan, said=None, address="10.0.0.1", now=NOW):
    judgement = judged(job, *pods, said=said, now=now)
    taken = {(pod.role, pod.member) for pod in pods}
    hosts = {name: name for name in READY}
    return steps(job, pods, PodSites(taken, "b", address, hosts), judgement, plan, now, TIMINGS)


def of(actions, kind):
    return [each for each in actions if isinstance(each, kind)]


def stay(member, node="a", cpus=1):
    return WorkerAt(node, cpus, f"t-worker-{member}")


def test_a_job_is_held_before_anything_else(job):
    bare = replace(job, finalizers=("x/y",))
    found = todo(bare, plan=JobPlan((WorkerAt("a", 1),)))
    assert found == [SetFinalizers(("x/y", resource_names.FINALIZER))]


def test_a_training_begins(job):
    plan = JobPlan((WorkerAt("a", 2),))
    (prepare,) = todo(job, plan=plan, address="")
    assert isinstance(prepare, EnsureDependents)
    prepare, made = todo(job, plan=plan)
    assert isinstance(prepare, EnsureDependents)
    assert made.pod["metadata"]["labels"][resource_names.ROLE] == resource_names.COORDINATOR
    assert made.pod["spec"]["containers"][0]["command"][-1] == "--fresh"
    # Once it is known where the coordinator is, there is no more to foresee.
    (made,) = todo(job, coordinator(is_running=False), plan=plan)
    assert made.pod["metadata"]["name"] == "t-worker-0"
    assert made.pod["metadata"]["annotations"][resource_names.NODE] == "a"


def test_a_worker_whose_node_does_not_shrink_it_leaves_unless_it_is_the_last(job):
    large = {"cpus": 1.0, "actual": 2.0, "resize": "Infeasible"}
    both = (worker(0, **large), worker(1, "b", actual=1.0), coordinator())
    plan = JobPlan((stay(0), stay(1, "b")))
    said = progress("u0", "u1")
    (left,) = of(todo(job, *both, plan=plan, said=said), DeletePod)
    assert left.pod.name == "t-worker-0"
    assert not of(todo(job, both[0], coordinator(), plan=plan, said=progress("u0")), DeletePod)
    # Neither does one that was only refused more.
    other = worker(0, cpus=2.0, actual=1.0, resize="Infeasible")
    assert not of(todo(job, other, *both[1:], plan=plan, said=said), DeletePod)


def test_a_number_is_not_that_of_a_pod_that_will_not_go(job):
    stuck = worker(0, is_leaving=True)
    (made,) = todo(job, stuck, coordinator(), plan=JobPlan((WorkerAt("a", 1),)))
    assert made.pod["metadata"]["name"] == "t-worker-1"


def test_a_worker_is_resized_where_it_is(job):
    plan = JobPlan((stay(0, cpus=2),))
    found = todo(job, worker(0), coordinator(), plan=plan, said=progress("u0"))
    assert [(each.pod.name, each.cpus) for each in of(found, ResizePod)] == [("t-worker-0", 2)]
    assert not of(found, CreatePod) + of(found, DeletePod)


def test_the_last_with_the_state_stays_until_another_has_it(job):
    plan = JobPlan((WorkerAt("b", 1),))
    found = todo(job, worker(0), coordinator(), plan=plan, said=progress("u0"))
    assert not of(found, DeletePod)
    assert len(of(found, CreatePod)) == 1
    plan = JobPlan((stay(1, "b"),))
    both = worker(0), worker(1, "b"), coordinator()
    assert not of(todo(job, *both, plan=plan, said=progress("u0")), DeletePod)
    found = todo(job, *both, plan=plan, said=progress("u0", "u1"))
    assert [each.pod.name for each in of(found, DeletePod)] == ["t-worker-0"]


def test_who_has_no_state_may_go_before(job):
    plan = JobPlan((stay(0),))
    both = worker(0), worker(1, "b"), coordinator()
    found = todo(job, *both, plan=plan, said=progress("u0"))
    assert [each.pod.name for each in of(found, DeletePod)] == ["t-worker-1"]


def test_all_go_if_nothing_is_granted_and_the_coordinator_last(job):
    found = todo(job, worker(0), coordinator(), plan=JobPlan(), said=progress("u0"))
    assert [each.pod.name for each in of(found, DeletePod)] == ["t-worker-0"]
    found = todo(job, worker(0, is_leaving=True), coordinator(), plan=JobPlan())
    assert not of(found, DeletePod)
    found = todo(job, coordinator(), plan=JobPlan())
    assert [each.pod.name for each in of(found, DeletePod)] == ["t-coordinator-0"]


def test_holders_are_labelled_and_known_by_that_without_a_coordinator(job):
    plan = JobPlan((stay(0), stay(1)))
    both = worker(0), worker(1, is_holder=True), coordinator()
    found = of(todo(job, *both, plan=plan, said=progress("u0")), MarkPod)
    labels = {each.pod.name: each.metadata["labels"][resource_names.HOLDER] for each in found}
    assert labels == {"t-worker-0": "true", "t-worker-1": None}
    assert judged(job, *both).holders == {"u1"}


def test_who_is_lost_with_a_node_is_replaced(job):
    found = judged(job, worker(0, "gone"), worker(1))
    assert [(pod.name, why) for pod, why in found.dropped] == [("t-worker-0", "NodeLost")]
    assert [pod.name for pod in found.workers] == ["t-worker-1"]


@pytest.mark.parametrize(("seconds", "is_dropped"), [(10, False), (30, True)])
def test_who_finds_no_place_is_given_up(job, seconds, is_dropped):
    pod = worker(0, is_running=False, unscheduled=("no room", NOW - seconds))
    assert bool(judged(job, pod).dropped) is is_dropped


@pytest.mark.parametrize(
    ("message", "seconds", "is_healthy"),
    [(UNSEEN, 0.05, True), (UNSEEN, 4, True), (UNSEEN, 6, False), ("no room", 0.05, False)],
)
def test_a_pod_that_was_just_created_is_nothing_unusual(job, message, seconds, is_healthy):
    pod = worker(0, is_running=False, unscheduled=(message, NOW - seconds))
    found = job_status.status(job, judged(job, pod), None, None, JobCache(), NOW, TIMINGS)
    (health,) = [one for one in found["conditions"] if one["type"] == "Healthy"]
    assert (health["status"] == "True") is is_healthy


@pytest.mark.parametrize(
    ("ends_in", "is_dropped"), [(None, True), (25, False), (-5, False), (-30, True)]
)
def test_who_waits_for_the_end_of_a_grace_period_is_not_given_up(job, ends_in, is_dropped):
    pod = worker(0, is_running=False, unscheduled=("no room", NOW - 100))
    held = {} if ends_in is None else {"a": NOW + ends_in, "b": NOW + 1000}
    found = judge(job, [pod], None, READY, NOW, TIMINGS, held)
    assert bool(found.dropped) is is_dropped


def test_crashes_are_counted_and_waited_for(job):
    found = judged(job, crashed(0), crashed(1, at=960.0, failure=(1, 5)), said=progress(step=7))
    assert found.crashes.count == 2
    assert [(pod.name, number) for pod, number in found.crashes.fresh] == [("t-worker-0", 2)]
    assert found.start_at == 960.0 + TIMINGS.backoff
    (mark,) = of(
        todo(job, crashed(0), coordinator(), plan=JobPlan((WorkerAt("a", 1),)), said=progress()),
        MarkPod,
    )
    assert mark.metadata["annotations"] == {resource_names.FAILURE: "1@10"}


def test_the_first_crash_costs_no_time_and_the_later_ones_more_and_more(job):
    waits = []
    for count in range(1, 12):
        last = crashed(0, failure=(count, 5))
        waits.append(judged(job, last).start_at - 950.0)
    assert waits[:4] == [0, 10, 20, 40]
    assert waits[-1] == TIMINGS.longest_backoff


def test_crashes_are_forgiven_once_a_later_worker_has_made_a_step(job):
    failed = crashed(0, failure=(3, 5))
    later = replace(worker(1), created=960.0)
    earlier = replace(worker(1), created=940.0)
    assert judged(job, failed, later, said=progress("u1", step=6)).crashes.count == 0
    assert judged(job, failed, later, said=progress("u1", step=5)).crashes.count == 3
    assert judged(job, failed, earlier, said=progress("u1", step=6)).crashes.count == 3


def test_the_last_words_of_a_crash_outlive_its_pod(job):
    end = PodEnd(3, "Error", 950.0, "crashed", "no such file: x")
    failed = replace(crashed(0, failure=(1, 5)), end=end)
    assert judged(job, failed).crashes.why.endswith("exit code 3: no such file: x")
    later = replace(worker(1), created=960.0)
    plan = JobPlan((stay(1),))
    found = todo(job, failed, later, coordinator(), plan=plan, said=progress("u1", step=6))
    (gone,) = of(found, DeletePod)
    assert (gone.pod, gone.why) == (failed, "Forgiven")
    assert "exit code 3: no such file: x" in gone.message


def test_too_many_crashes_are_the_end_unless_others_train(job):
    last = crashed(0, failure=(7, 5))
    assert judged(job, last).phase == "Failed"
    assert judged(job, last).reason == "BackoffLimitExceeded"
    assert judged(job, last, worker(1)).phase == "Running"


def test_pods_that_left_or_were_lost_are_no_crashes(job):
    for kind in ("left", "lost"):
        gone = worker(0, is_running=False, end=PodEnd(137, "Evicted", 950.0, kind))
        found = judged(job, gone)
        assert found.crashes.count == 0
        assert [pod.name for pod, _ in found.dropped] == ["t-worker-0"]


def test_the_end_is_when_all_have_come_to_it(job):
    done = worker(0, is_running=False, end=PodEnd(0, "Completed", NOW - 5, "trained"))
    pending = worker(2, is_running=False)
    found = judged(job, done, worker(1), pending)
    assert (found.phase, found.is_ending) == ("Running", True)
    # A late worker that has not begun goes at once; one that runs has its time.
    plan = JobPlan((stay(1), stay(2), WorkerAt("a", 1)))
    actions = todo(job, done, worker(1), pending, coordinator(), plan=plan)
    assert [each.pod.name for each in of(actions, DeletePod)] == ["t-worker-2"]
    assert not of(actions, CreatePod)
    actions = todo(job, done, worker(1), coordinator(), plan=plan, now=NOW + 100)
    assert [each.pod.name for each in of(actions, DeletePod)] == ["t-worker-1"]
    assert judged(job, done).phase == "Succeeded"


def recorded(job):
    return replace(job, status={"conditions": [{"type": TRAINED, "status": "True"}]})


def test_an_end_that_is_recorded_needs_no_pods_to_be_known(job):
    found = judged(recorded(job))
    assert (found.phase, found.is_ending) == ("Succeeded", True)
    assert not of(todo(recorded(job), plan=JobPlan((WorkerAt("a", 1),))), CreatePod)
    assert judged(recorded(job), worker(0)).phase == "Running"
    # So does a coordinator that has seen it.
    assert judged(job, said=progress(phase="over")).phase == "Succeeded"
    found = judged(recorded(job), crashed(0))
    assert (found.phase, found.reason) == ("Failed", "CrashedAtEnd")


def test_a_container_beside_one_that_has_trained_does_not_go_on_for_ever(job):
    ended = replace(job, status={"phase": "Succeeded"})
    end = PodEnd(0, "Completed", NOW - 5, "trained")
    done = worker(0, is_running=False, end=end, is_held=True)
    assert not of(todo(ended, done, plan=JobPlan()), DeletePod)
    late = of(todo(ended, done, plan=JobPlan(), now=NOW + TIMINGS.closing), DeletePod)
    assert [each.pod for each in late] == [done]
    kept = replace(done, is_held=False)
    assert not of(todo(ended, kept, plan=JobPlan(), now=NOW + TIMINGS.closing), DeletePod)


def test_the_coordinator_stays_until_it_has_said_how_far_the_training_came(job):
    done = worker(0, is_running=False, end=PodEnd(0, "Completed", NOW - 1, "trained"))
    behind = progress("u0", step=7)
    for said, now, phase in (
        (behind, NOW, "Running"),
        (replace(behind, phase="over"), NOW, "Succeeded"),
        (behind, NOW + 5, "Succeeded"),
        (None, NOW, "Succeeded"),
    ):
        assert judged(job, done, said=said, now=now).phase == phase
    actions = todo(job, done, coordinator(), plan=JobPlan(), said=behind)
    assert not of(actions, DeletePod)
    ended = replace(job, status={"phase": "Succeeded"})
    assert judged(ended, done, said=behind).phase == "Succeeded"


def test_what_has_ended_stays_so_and_nothing_of_it_runs(job):
    ended = replace(job, status={"phase": "Failed"})
    done = crashed(0, failure=(1, 1))
    actions = todo(ended, done, worker(1), coordinator(), plan=JobPlan((stay(1),)))
    assert {each.pod.name for each in of(actions, DeletePod)} == {"t-worker-1", "t-coordinator-0"}
    assert of(actions, SetFinalizers) == [SetFinalizers(())]


def test_a_deleted_job_lets_its_workers_go_first(job):
    deleted = replace(job, deleted=NOW - 5)
    pods = worker(0), coordinator()
    (first,) = closing(deleted, pods, READY, NOW, TIMINGS)
    assert first.pod.name == "t-worker-0"
    leaving = worker(0, is_leaving=True), coordinator()
    assert closing(deleted, leaving, READY, NOW, TIMINGS) == []
    # Neither a lost node nor a worker that will not go holds it.
    lost = worker(0, "gone", is_leaving=True), coordinator()
    assert closing(deleted, lost, READY, NOW, TIMINGS)[-1] == SetFinalizers(())
    assert closing(deleted, leaving, READY, NOW + 100, TIMINGS)[-1] == SetFinalizers(())
    assert closing(replace(deleted, finalizers=()), pods, READY, NOW, TIMINGS) == []


def test_a_change_of_status_is_what_makes_one_of_the_other():
    before = {"a": 1, "b": {"c": 1, "d": 2}, "e": 3, "f": [1]}
    after = {"a": 1, "b": {"c": 2}, "f": [2]}
    assert job_status.change(before, after) == {"b": {"c": 2, "d": None}, "e": None, "f": [2]}
    assert job_status.change(after, after) == {}
