# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Grants of real processes: granted, acknowledged, changed, taken away, given back."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import pairwise

import pytest

from tests.support.service import BUSY, ME, Host, host, refused
from tf_malleable.api.schema.requests import Acknowledgement, Progress
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.policies import registry
from tf_malleable.scheduling.records.speeds import Speedometer


def test_a_job_gets_all_and_shares_when_another_comes(state):
    async def scenario():
        async with host(state) as here:
            await here.job()
            assert here.granted() == [4]
            await here.job()
            assert here.granted() == [2, 2]
            first, second = here.service.jobs()
            assert not set(first.granted) & set(second.granted)
            assert (first.resizes, second.resizes) == (1, 0)

    asyncio.run(scenario())


def test_a_grant_is_actual_only_once_acknowledged(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(obeys=False)
            await here.until(lambda: here.agents[0].lines)
            peer = here.programs[0].peer
            # Granted before it had an agent, and carried out from outside.
            before = here.status(job).actual
            assert len(before) == 4
            here.service.set_cores(ME, job, 1)
            await here.until(lambda: len(here.agents[0].lines[-1].cpus) == 1)
            serial = here.agents[0].lines[-1].serial
            assert here.status(job).actual == before
            # An old serial number does not acknowledge a new grant.
            here.service.acknowledge(peer, job, Acknowledgement(serial - 1))
            assert here.status(job).actual == before
            with refused(409, f"job {job} has had no grant {serial + 1} yet"):
                here.service.acknowledge(peer, job, Acknowledgement(serial + 1))
            # Confined is enough: what has not settled takes turns on the CPUs it has.
            here.service.acknowledge(peer, job, Acknowledgement(serial, settled=False))
            assert here.status(job).actual == here.status(job).granted
            assert len(here.status(job).actual) == 1

    asyncio.run(scenario())


def test_an_agent_of_a_running_job_comes_and_goes_without_a_decision(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            reactor = here.service._reactor
            live = reactor.roster.live[job]
            await here.until(lambda: not reactor._loop.is_requested)
            reactor.connect(live, 1)
            assert live.delivery.agents.keys() >= {1}
            reactor.disconnect(live, 1)
            assert 1 not in live.delivery.agents
            assert not reactor._loop.is_requested

    asyncio.run(scenario())


def test_a_program_without_an_agent_is_confined_from_outside(state):
    async def scenario():
        async with host(state) as here:
            program = here.program()
            job = here.submit(program, running=True)
            status = here.status(job)
            assert status.granted == status.actual != []
            assert not status.malleable

    asyncio.run(scenario())


def test_a_job_waits_until_its_min_is_free(state):
    async def scenario():
        async with host(state, "fcfs-strict") as here:
            first = await here.job(min=3, preferred=3, max=3)
            second = await here.job(min=2, preferred=2, max=2)
            assert here.states() == ["running", "waiting"]
            assert here.agents[1].lines[-1].state == "waiting"
            here.programs[0].end()
            await here.until(lambda: here.status(second).state == "running")
            with refused(404, f"there is no live job '{first}'"):
                here.status(first)

    asyncio.run(scenario())


def test_not_to_queue_is_refused_and_leaves_nothing(state):
    async def scenario():
        async with host(state, "fcfs-strict") as here:
            running = await here.job(min=4, preferred=4)
            program = here.program()
            with refused(409, "too few cores are free"):
                here.submit(program, min=1, queue=False)
            assert len(here.service.jobs()) == 1
            await here.service.saved()
            await here.service.close()
            here.service._store.close()
            async with host(state) as after:
                assert [job.id for job in after.service.jobs()] == [running]
                assert after.service.history(10, False).jobs == []

    asyncio.run(scenario())


def test_a_waiting_program_that_hangs_up_is_not_started(state):
    async def scenario():
        async with host(state, "fcfs-strict") as here:
            await here.job(min=4, preferred=4)
            absent = await here.job()
            await here.agents[1].hang_up()
            here.service._reactor.roster.live[absent].expected_until = 0.0
            present = await here.job()
            here.programs[0].end()
            await here.until(lambda: here.status(present).state == "running")
            assert here.status(absent).state == "waiting"

    asyncio.run(scenario())


def test_by_hand_wins_until_auto(state):
    async def scenario():
        async with host(state) as here:
            first = await here.job()
            second = await here.job()
            assert here.service.set_cores(ME, first, 3).by_hand == 3
            assert here.granted() == [3, 1]
            sentence = "cannot set 2 cores: only 1 of 4 is left, the others are set by hand"
            with refused(409, f"{sentence} for other jobs"):
                here.service.set_cores(ME, second, 2)
            assert here.granted() == [3, 1]
            here.service.set_cores(ME, first, None)
            assert here.granted() == [2, 2]

    asyncio.run(scenario())


def test_pause_stops_the_processes_and_resume_continues_them(state):
    async def scenario():
        async with host(state) as here:
            program = here.program(BUSY)
            job = here.submit(program, running=True)
            await here.until(lambda: program.state() == "R")
            assert here.service.pause(ME, job).state == "paused"
            await here.until(lambda: program.state() == "T")
            assert here.status(job).actual == here.status(job).granted == []
            # Whoever continues it behind our back: it is paused all the same.
            program.send(signal.SIGCONT)
            await here.until(lambda: program.state() != "T")
            await here.until(lambda: program.state() == "T")
            assert here.service.resume(ME, job).state == "running"
            await here.until(lambda: program.state() == "R")
            status = here.status(job)
            assert status.paused_seconds > 0
            assert status.actual == status.granted != []

    asyncio.run(scenario())


@pytest.mark.serial("it measures time")
def test_a_killed_job_gives_its_cores_back_within_a_second(state):
    async def scenario():
        async with host(state) as here:
            await here.job()
            survivor = await here.job()
            here.programs[0].send(signal.SIGKILL)
            await here.until(lambda: len(here.status(survivor).granted) == 4, seconds=1.0)
            ended = here.service.history(10, False).jobs
            assert [job.outcome for job in ended] == ["failed"]
            assert ended[0].exit_code == 137

    asyncio.run(scenario())


@pytest.mark.serial("it measures time")
def test_a_stopped_job_is_noticed_within_two_seconds_and_not_waited_for(state):
    async def scenario():
        async with host(state) as here:
            stopped = await here.job(obeys=False)
            other = await here.job()
            here.programs[0].send(signal.SIGSTOP)
            await here.until(lambda: here.status(stopped).stopped, seconds=2.0)
            assert here.status(stopped).actual == []
            await here.until(lambda: len(here.status(other).actual) == 4)
            here.programs[0].send(signal.SIGCONT)
            await here.until(lambda: here.granted() == [2, 2])
            assert not here.status(stopped).stopped

    asyncio.run(scenario())


def test_cancel_ends_a_paused_job_too(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            here.service.pause(ME, job)
            here.service.cancel(ME, job)
            await here.until(lambda: not here.service.jobs())
            assert here.programs[0].wait() == -signal.SIGTERM
            assert here.service.history(1, False).jobs[0].outcome == "cancelled"

    asyncio.run(scenario())


def test_another_user_may_look_but_not_touch(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            other = Peer(ME.pid, 65534, 65534)
            assert here.service.status(job).id == job
            for action in (
                lambda: here.service.set_cores(other, job, 1),
                lambda: here.service.pause(other, job),
                lambda: here.service.resume(other, job),
                lambda: here.service.cancel(other, job),
            ):
                with refused(403, f"job {job} belongs to another user"):
                    action()
            with refused(403, "only root or the controller's user"):
                here.service.set_policy(other, "equal")
            assert here.granted() == [4]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"min": 3, "max": 2}, "a shape must have 1 ≤ min ≤ preferred ≤ max, not min 3"),
        ({"min": 2, "preferred": 1}, "a shape must have 1 ≤ min ≤ preferred ≤ max"),
        ({"min": 5}, "min must be at most 4, the number of CPUs shared out here, not 5"),
        ({"min": 5, "max": 9}, "min must be at most 4, the number of CPUs shared out here, not 5"),
    ],
)
def test_an_impossible_shape_is_refused(state, fields, sentence):
    async def scenario():
        async with host(state) as here:
            with refused(400, sentence):
                here.submit(here.program(), **fields)
            assert here.service.jobs() == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"max": 9}, (1, 4, 4)),
        ({"max": 9, "preferred": 3}, (1, 3, 4)),
        ({"max": 9, "preferred": 7}, (1, 4, 4)),
        ({"preferred": 65536}, (1, 4, 4)),
        ({"min": 4, "max": 5}, (4, 4, 4)),
    ],
)
def test_more_cores_than_there_are_is_all_of_them(state, fields, shape):
    async def scenario():
        async with host(state) as here:
            answer = here.status(here.submit(here.program(), **fields))
            assert (answer.min, answer.preferred, answer.max) == shape

    asyncio.run(scenario())


def test_a_process_that_has_ended_is_no_job(state):
    async def scenario():
        async with host(state) as here:
            program = here.program()
            program.end()
            with refused(403, "cannot see the calling process"):
                here.submit(program)

    asyncio.run(scenario())


@pytest.mark.slow
def test_progress_becomes_speed_by_cores(state):
    async def scenario():
        async with host(state) as here:
            # Of one that sleeps, some of the time would count as waiting for its input.
            program, times = here.program(BUSY), []
            job, peer = here.submit(program, running=True), program.peer
            for step in range(16):
                here.service.progress(peer, job, Progress(steps_done=step * 10.0, steps_total=500))
                times.append(time.monotonic())
                await asyncio.sleep(0.1)  # Longer on a busy machine.
            rates = [10 / (later - earlier) for earlier, later in pairwise(times)]
            least, most = 0.98 * min(rates), 1.02 * max(rates)
            status = here.status(job)
            assert (status.steps_done, status.steps_total) == (150, 500)
            assert least <= status.steps_per_second <= most
            assert [speed.cores for speed in status.speeds] == [4]
            assert least <= status.speeds[0].steps_per_second <= most

    asyncio.run(scenario())


class Asked:
    """Shares out as another policy, and notes the speeds that are known each time."""

    def __init__(self):
        self.rates = []

    def allocate(self, jobs, machine, now):
        self.rates.append([rate.cores for rate in jobs[0].rates])
        return registry.create("equal").allocate(jobs, machine, now)


@pytest.mark.slow
def test_a_decision_is_made_again_once_steps_and_speeds_are_known(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            await asyncio.sleep(0.5)  # Its use of CPUs is known by now, and stays.
            asked = here.service._reactor._chosen = Asked()
            peer = here.programs[0].peer
            for step in range(1, 20):
                here.service.progress(peer, job, Progress(steps_done=step * 10.0, steps_total=500))
                await asyncio.sleep(0.1)
            assert asked.rates[0] == []
            assert asked.rates[-1] == [4]

    asyncio.run(scenario())


def test_use_is_measured(state):
    async def scenario():
        async with host(state) as here:
            busy, idle = here.program(BUSY), here.program()
            jobs = [here.submit(program, running=True) for program in (busy, idle)]

            def used(job):
                found = here.status(job).used_cpus
                return -1.0 if found is None else found

            # The idle one also uses a CPU while it starts.
            await here.until(lambda: used(jobs[0]) > 0.2 and 0 <= used(jobs[1]) < 0.1)

    asyncio.run(scenario())


def test_the_policy_is_switched_live_and_remembered(state):
    async def scenario():
        async with host(state) as here:
            await here.job()
            await here.job()
            assert here.granted() == [2, 2]
            here.service.set_policy(ME, "fcfs-strict")
            assert here.service.policies().policy == "fcfs-strict"
            with refused(400, "no-such-policy"):
                here.service.set_policy(ME, "no-such-policy")
            assert here.service.info().policy == "fcfs-strict"
        async with host(state, policy=None) as here:
            assert here.service.info().policy == "fcfs-strict"

    asyncio.run(scenario())


def test_a_job_is_told_before_the_file_is_written(state, monkeypatch):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            lines = here.agents[0].lines
            await here.until(lambda: lines)
            await here.service.saved()
            store, told = here.service._store, []
            write = store.flush
            monkeypatch.setattr(store, "flush", lambda: (told.append(lines[-1].serial), write()))
            here.service.set_cores(ME, job, 1)
            await here.service.saved()
            assert told == [here.service._reactor.roster.live[job].record.serial]
            monkeypatch.undo()

    asyncio.run(scenario())


def test_a_job_in_the_queue_profits_from_what_one_of_its_name_has_just_shown(state):
    async def scenario():
        async with host(state, cpus=1) as here:
            first = await here.job(name="same")
            second = await here.job(name="same")
            other = await here.job(name="other")
            assert here.states() == ["running", "waiting", "waiting"]
            live = here.service._reactor.roster.live
            shown = Speedometer().change(1, 0.0).report(5, 100, 50.0).report(25, 100, 60.0)
            live[first].measured.speed = shown
            here.programs[0].send(signal.SIGKILL)
            await here.until(lambda: first not in live)
            assert [rate.cores for rate in live[second].as_job(0.0).rates] == [1]
            assert live[other].as_job(0.0).rates == ()

    asyncio.run(scenario())


def run_seconds(here: Host) -> float:
    """Return for how long the last job ran: its nap of 0.3 s, and a start of any length."""
    (ended,) = here.service.history(1, False).jobs
    assert ended.service_seconds >= 0.3
    return ended.service_seconds


@pytest.mark.slow
def test_the_same_command_is_expected_to_run_as_long_as_before(state):
    async def scenario():
        async with host(state) as here:

            async def ended(code: str, **fields: object) -> float | None:
                program = here.program(code)
                job = here.submit(program, **fields)
                expected = here.status(job).expected_seconds
                await here.until(lambda: not here.service.jobs())
                program.wait()
                return expected

            nap, failure = "import time; time.sleep(0.3)", "raise SystemExit(3)"
            assert await ended(failure, command=["train", "1"]) is None
            # What failed says nothing.
            assert await ended(nap, command=["train", "1"]) is None
            waits = await here.job(command=["train", "1"])
            first = here.status(waits).expected_seconds
            assert first == pytest.approx(run_seconds(here))
            # Nor does what was cancelled, or has other arguments.
            here.service.cancel(here.agents[-1]._program.peer, waits)
            await here.until(lambda: not here.service.jobs())
            assert await ended(nap, command=["train", "2"]) is None
            assert await ended(nap, command=["train", "1"], name="other") is None
            assert await ended(nap, command=["train", "1"]) == first

    asyncio.run(scenario())


def test_a_job_in_the_queue_hears_how_long_one_like_it_has_run(state):
    async def scenario():
        async with host(state, cpus=1) as here:
            here.submit(here.program("import time; time.sleep(0.3)"), command=["train"])
            waits = await here.job(command=["train"])
            assert here.states() == ["running", "waiting"]
            assert here.status(waits).expected_seconds is None
            await here.until(lambda: len(here.service.jobs()) == 1)
            assert here.status(waits).expected_seconds == pytest.approx(run_seconds(here))

    asyncio.run(scenario())
