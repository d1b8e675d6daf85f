# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""That the kernel gives jobs CPU time in proportion to their cores, and borrowers what is left."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.controllers import Speaker, controller, job, wait_for
from tests.support.service import BUSY, ME, Host, Program, host
from tf_malleable.api.schema.requests import Submission
from tf_malleable.controller.processes import cpu_weights
from tf_malleable.controller.processes.cpu_weights import CpuSupport, CpuWeights
from tf_malleable.linux.cgroups import autogroup, cpu_cgroup, systemd_scope
from tf_malleable.linux.cgroups.autogroup import AutogroupError
from tf_malleable.linux.cgroups.cpu_cgroup import CpuCgroupError, CpuGroup
from tf_malleable.linux.cgroups.systemd_scope import ScopeError
from tf_malleable.linux.processes import procfs

CPUS = 2
SLEEPER = """
import signal
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pause()
while True:
    pass
"""
# Computes for 20 ms now and then.
NAPPER = """
import time
while True:
    time.sleep(0.4)
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
"""
BY_SESSION = CpuSupport("session", True, "by session")


@pytest.fixture
def by_cgroup() -> CpuWeights:
    """Weights by cgroup, as on a host that has the cpu controller."""
    try:
        found = cpu_cgroup.probe()
    except CpuCgroupError:
        skip_without("cpu")
    if not found.has_idle():
        pytest.skip("this kernel has no cpu.idle")
    return CpuWeights(CpuSupport("cgroup", True, "by cgroup"))


def usual(program: Program) -> Program:
    """Return a program that has no less than the usual priority, whatever that of the tests is."""
    os.sched_setscheduler(program.pid, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, program.pid, 0)
    return program


def program(here: Host, code: str = "import time; time.sleep(600)") -> Program:
    return usual(here.program(code))


def folder(program: Program | Speaker) -> Path | None:
    """Return the cgroup that weighs a program: of v1, or else of v2."""
    lines = Path(f"/proc/{program.pid}/cgroup").read_text().splitlines()
    for line in sorted(lines, key=lambda line: "::" in line):
        _, controllers, path = line.split(":", 2)
        if "/tfm-job-" in path and (not controllers or "cpu" in controllers.split(",")):
            kind = "cgroup" if controllers else "cgroup2"
            mounts = map(str.split, Path("/proc/mounts").read_text().splitlines())
            point = next(
                point
                for _, point, each, options, *_ in mounts
                if each == kind and (not controllers or "cpu" in options.split(","))
            )
            return Path(f"{point}{path}")
    return None


async def lending(here: Host, sleeper: Program, busy: Program) -> tuple[str, str]:
    """Return the job that lends all it has, and the one that borrows it."""
    owner = here.submit(sleeper, running=True)
    borrower = here.submit(busy, running=True)
    await here.until(lambda: here.status(owner).lent)
    return owner, borrower


def weight(program: Program | Speaker) -> float:
    """Return the weight of a program, as a multiple of the usual one."""
    found = folder(program)
    assert found is not None
    if (found / "cpu.shares").exists():
        return int((found / "cpu.shares").read_text()) / 1024
    return int((found / "cpu.weight").read_text()) / 100


def is_idle(program: Program) -> bool:
    found = folder(program)
    assert found is not None
    return (found / "cpu.idle").read_text() == "1\n"


def nice(program: Program) -> int:
    return int(Path(f"/proc/{program.pid}/autogroup").read_text().split()[-1])


def test_weights_follow_the_grants(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            first = program(here)
            job = here.submit(first, running=True)
            await here.until(lambda: weight(first) > 1)
            both = weight(first)
            second = program(here)
            here.submit(second, running=True)
            await here.until(lambda: weight(first) == both / 2)
            assert weight(second) == both / 2
            here.service.cancel(ME, here.service.jobs()[1].id)
            second.end()
            await here.until(lambda: weight(first) == both)
            assert here.status(job).granted

    asyncio.run(scenario())


def test_a_borrower_stands_back_until_the_owner_is_gone(state, by_cgroup):
    async def scenario():
        async with host(state, "lend+equal", cpus=1, weights=by_cgroup) as here:
            sleeper, busy = program(here, SLEEPER), program(here, BUSY)
            owner, borrower = await lending(here, sleeper, busy)
            # Before it computes there.
            assert is_idle(busy)
            assert not is_idle(sleeper)
            await here.until(lambda: sleeper.has("SigCgt", signal.SIGUSR1))
            sleeper.send(signal.SIGUSR1)
            await here.until(lambda: here.status(borrower).state == "paused")
            assert here.status(owner).granted
            sleeper.end()
            await here.until(lambda: here.status(borrower).state == "running")
            await here.until(lambda: not is_idle(busy))

    asyncio.run(scenario())


def test_a_borrower_comes_forward_once_the_owner_has_ended(state, by_cgroup):
    async def scenario():
        async with host(state, "lend+equal", cpus=1, weights=by_cgroup) as here:
            sleeper, busy = program(here, SLEEPER), program(here, BUSY)
            _owner, borrower = await lending(here, sleeper, busy)
            assert is_idle(busy)
            sleeper.end()
            await here.until(lambda: not is_idle(busy))
            assert here.status(borrower).resizes == 0

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("it counts how often a CPU moves")
def test_short_naps_move_no_cpu(state, by_cgroup):
    async def scenario():
        async with host(state, "lend+equal", cpus=1, weights=by_cgroup) as here:
            owner = here.submit(program(here, NAPPER), running=True)
            borrower = here.submit(program(here, BUSY), running=True)
            await here.until(lambda: here.status(owner).lent)
            serial = here.service._find(borrower).record.serial
            await asyncio.sleep(4)
            assert here.status(owner).lent
            assert here.service._find(borrower).record.serial == serial

    asyncio.run(scenario())


def test_who_was_started_with_nice_weighs_no_more_than_others_on_the_host(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            normal, gentle, idle = (program(here) for _ in range(3))
            os.setpriority(os.PRIO_PROCESS, gentle.pid, 10)
            os.sched_setscheduler(idle.pid, os.SCHED_IDLE, os.sched_param(0))
            for each in (normal, gentle):
                here.submit(each, running=True, max=1)
            await here.until(lambda: weight(normal) > 1)
            assert weight(gentle) == pytest.approx(weight(normal) / 16, rel=0.01)
            gentle.end()
            await here.until(lambda: len(here.service.jobs()) == 1)
            here.submit(idle, running=True, max=1)
            await here.until(lambda: weight(idle) == pytest.approx(weight(normal) / 16, rel=0.01))

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("it keeps a CPU busy")
def test_a_borrower_beside_programs_that_are_no_jobs_is_not_left_without(state, by_cgroup):
    async def scenario():
        async with host(state, "lend+equal", cpus=1, weights=by_cgroup) as here:
            others = [program(here, BUSY) for _ in range(4)]
            for each in others:
                os.sched_setaffinity(each.pid, {0})
            sleeper, busy = program(here, SLEEPER), program(here, BUSY)
            _owner, borrower = await lending(here, sleeper, busy)
            await here.until(lambda: not is_idle(busy))
            assert here.status(borrower).state == "running"
            assert weight(busy) * 5 < weight(sleeper)

    asyncio.run(scenario())


def test_a_service_shares_its_cores_and_is_not_held_up_there(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            serve, busy = program(here), program(here, BUSY)
            training = here.submit(busy, running=True)
            service = here.submit(serve, running=True, slo="p99=50ms")
            await here.until(lambda: here.status(service).lent)
            assert here.status(service).granted == here.status(service).lent == [0, 1]
            assert here.status(training).granted == [0, 1]
            await here.until(lambda: is_idle(busy) and not is_idle(serve))
            serve.end()
            await here.until(lambda: not is_idle(busy))

    asyncio.run(scenario())


def test_a_service_shares_with_nobody_while_a_job_has_no_weight(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            service = here.submit(program(here), running=True, slo="p99=50ms")
            training = here.submit(program(here, BUSY), running=True)
            await here.until(lambda: here.status(service).lent)
            by_cgroup.drop(here.service._find(training))
            here.submit(program(here), running=True, max=1)
            await here.until(lambda: not here.status(service).lent)
            assert len(here.status(service).granted) == 1

    asyncio.run(scenario())


def test_a_service_shares_with_nobody_while_a_job_is_weighed_elsewhere(state, by_cgroup):
    """Linux gives both parents their time first, however much the job below one stands back."""

    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            service = here.submit(program(here), running=True, slo="p99=50ms")
            busy = program(here, BUSY)
            here.submit(busy, running=True)
            await here.until(lambda: here.status(service).lent)
            beside = folder(busy)
            assert beside is not None
            elsewhere = beside.with_name(f"tfm-test-{os.getpid()}")
            elsewhere.mkdir()
            other = program(here)
            (elsewhere / "cgroup.procs").write_text(str(other.pid))
            here.submit(other, running=True, max=1)
            await here.until(lambda: not here.status(service).lent)
            other.end()
            await here.until(lambda: here.status(service).lent)
            await here.until(lambda: not list(elsewhere.glob("tfm-job-*")))
            elsewhere.rmdir()

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("it keeps a CPU busy")
def test_what_shares_with_a_busy_service_has_what_that_leaves(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=1, weights=by_cgroup) as here:
            serve, busy = program(here, SLEEPER), program(here, BUSY)
            here.submit(serve, running=True, slo="p99=50ms")
            here.submit(busy, running=True)
            await here.until(lambda: is_idle(busy))
            # What is no job leaves the borrower nothing.
            other = program(here, BUSY)
            os.sched_setaffinity(other.pid, {0})
            await here.until(lambda: not is_idle(busy))
            other.end()
            await here.until(lambda: serve.has("SigCgt", signal.SIGUSR1))
            serve.send(signal.SIGUSR1)
            await here.until(lambda: is_idle(busy))
            await asyncio.sleep(2)
            assert is_idle(busy)

    asyncio.run(scenario())


def test_weights_that_systemd_has_reset_are_put_in_force_again(state, by_cgroup, monkeypatch):
    monkeypatch.setattr(cpu_weights, "_RENEW_SECONDS", 0.05)
    weights = CpuWeights(CpuSupport("scope", True, "by scope"))

    async def scenario():
        async with host(state, cpus=CPUS, weights=weights) as here:
            one = program(here)
            here.submit(one, running=True)
            await here.until(lambda: weight(one) > 1)
            before, found = weight(one), folder(one)
            assert found is not None
            CpuGroup(found, unified=(found / "cpu.weight").exists()).weigh(1)
            await here.until(lambda: weight(one) == before)

    asyncio.run(scenario())


def test_a_job_that_can_have_no_scope_has_a_cgroup(by_cgroup, monkeypatch, caplog):
    caplog.set_level("INFO")
    weights = CpuWeights(CpuSupport("scope", True, "by scope"))
    monkeypatch.setattr(weights._scopes, "make", failing(ScopeError("it is a service")))
    one = Program()
    process = procfs.identify(one.pid)
    assert process is not None
    group = weights.make(process)
    assert group is not None
    assert one.pid in group.pids()
    assert f"process {one.pid} has no weight: it is a service" in caplog.text
    made = folder(one)
    one.end()
    assert made is not None
    assert group.remove()
    assert not made.exists() or CpuGroup(made, unified=False).remove()


def test_without_a_controller_jobs_have_the_usual_weight(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            one = program(here)
            here.submit(one, running=True)
            await here.until(lambda: weight(one) > 1)
            await here.service.close()
            assert weight(one) == 1

    asyncio.run(scenario())


def test_a_controller_without_weights_undoes_those_of_a_killed_one(tmp_path, by_cgroup):
    weighs = controller(tmp_path, "--cpu-weights", "auto")
    with weighs as first, job(first.socket) as one:
        os.sched_setscheduler(one.pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, one.pid, 0)
        one.submit()
        wait_for(lambda: weight(one) > 1)
        first.process.kill()
        first.process.wait()
        with controller(tmp_path, "--cpu-weights", "off"):
            assert weight(one) == 1


def test_the_cgroup_of_an_ended_job_is_removed(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            one = program(here)
            here.submit(one, running=True)
            left = folder(one)
            assert left is not None
            one.end()
            await here.until(lambda: not left.exists())

    asyncio.run(scenario())


def test_the_cgroup_of_what_becomes_no_job_is_removed(state, by_cgroup):
    async def scenario():
        async with host(state, cpus=CPUS, weights=by_cgroup) as here:
            one = program(here)
            await here.service._arrivals.prepare(one.peer, Submission(name="one"))
            left = folder(one)
            assert left is not None
            one.end()
            await here.until(lambda: not left.exists())

    asyncio.run(scenario())


@pytest.fixture
def by_session() -> CpuWeights:
    try:
        raises = autogroup.probe()
    except AutogroupError as error:
        pytest.skip(str(error))
    if not raises:
        pytest.skip("needs the right to raise the weight of a session")
    return CpuWeights(BY_SESSION)


def test_sessions_have_weights_where_cgroups_have_none(state, by_session):
    async def scenario():
        async with host(state, "lend+equal", cpus=1, weights=by_session) as here:
            sleeper, busy = program(here, SLEEPER), program(here, BUSY)
            _owner, borrower = await lending(here, sleeper, busy)
            assert nice(busy) == 19
            assert nice(sleeper) < 0
            sleeper.end()
            await here.until(lambda: nice(busy) < 0)
            assert here.status(borrower).state == "running"

    asyncio.run(scenario())


def test_jobs_that_share_a_session_have_no_weight(state, by_session):
    fork = "import os, time; os.fork(); print(flush=True); time.sleep(600)"

    async def scenario():
        async with host(state, cpus=CPUS, weights=by_session) as here:
            first = program(here, fork)
            here.submit(first, running=True)
            await here.until(lambda: nice(first) < 0)
            live = here.service._find(here.service.jobs()[0].id)
            process = live.record.process
            assert process is not None
            by_session.attach(live, process)
            assert nice(first) == 0

    asyncio.run(scenario())


def failing(error: Exception):
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("group", "session", "said"),
    [
        (True, None, "by cgroup, in proportion to cores; borrowers in the idle class"),
        (False, None, "by cgroup, in proportion to cores; borrowers at the lowest weight (no"),
        ("no rights", True, "by session (autogroup), in proportion to cores; borrowers at the"),
        (
            "no rights",
            False,
            "by session (autogroup), only borrowers at the lowest: more",
        ),
        ("no rights", "autogroup is off", "none: no rights, and autogroup is off; borrowers leave"),
    ],
)
def test_what_a_host_allows_is_said(monkeypatch, tmp_path, group, session, said):
    monkeypatch.setattr(systemd_scope, "manages", lambda: False)
    if isinstance(group, str):
        monkeypatch.setattr(cpu_cgroup, "probe", failing(CpuCgroupError(group)))
    else:
        if group:
            (tmp_path / "cpu.idle").write_text("0")
        monkeypatch.setattr(cpu_cgroup, "probe", lambda: CpuGroup(tmp_path, unified=True))
    if isinstance(session, str):
        monkeypatch.setattr(autogroup, "probe", failing(AutogroupError(session)))
    else:
        monkeypatch.setattr(autogroup, "probe", lambda: session)
    assert cpu_weights.support().text.startswith(said)


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (
            True,
            "by scope of systemd for jobs from logins, in proportion to cores; borrowers in the",
        ),
        (
            False,
            "by scope of systemd for jobs from logins, in proportion to cores; borrowers at the",
        ),
        ("systemd refuses: x", "none: systemd refuses: x, and autogroup is off; borrowers leave"),
    ],
)
def test_what_systemd_allows_is_said(monkeypatch, scope, said):
    monkeypatch.setattr(cpu_cgroup, "probe", failing(CpuCgroupError("no rights")))
    monkeypatch.setattr(autogroup, "probe", failing(AutogroupError("autogroup is off")))
    monkeypatch.setattr(systemd_scope, "manages", lambda: True)
    probe = failing(ScopeError(scope)) if isinstance(scope, str) else lambda: scope
    monkeypatch.setattr(systemd_scope, "probe", probe)
    assert cpu_weights.support().text.startswith(said)


@pytest.mark.parametrize("by_variable", [True, False])
@pytest.mark.parametrize("weights", ["auto", "off"])
def test_a_controller_says_what_it_does(tmp_path, monkeypatch, weights, by_variable):
    if by_variable:
        monkeypatch.setenv("TF_MALLEABLE_CPU_WEIGHTS", weights)
    option = () if by_variable else ("--cpu-weights", weights)
    with controller(tmp_path, *option) as one:
        said = wait_for(lambda: one.get("/v1")["cpu_weights"])
        assert said.startswith(
            "off" if weights == "off" else ("by cgroup", "by scope", "by session", "none: ")
        )


def test_another_word_is_refused(tmp_path):
    from tests.support.commands import tfm

    done = tfm("controller", "--cpu-weights", "some")
    assert done.returncode == 2
    assert "'some' is not one of 'auto', 'off'" in done.stderr
