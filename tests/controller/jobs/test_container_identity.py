# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which processes are a container's: those in the cgroups of its first process, and no others.

Everybody may make a cgroup of any name where that is delegated to him; here, root does it for him.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.fake_containers import FakeContainers, found
from tests.support.service import ME, Host, Program, host, refused
from tf_malleable.api.schema.requests import Progress
from tf_malleable.controller.http.clients import owner_name
from tf_malleable.linux.cgroups.cgroup import folders, parse_memberships, parse_mounts
from tf_malleable.linux.processes.peer_credentials import Peer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups anywhere")

VICTIM, HOSTILE = 4001, 4002
ID = found().info.id


def homes() -> list[Path]:
    """Return our cgroup in each hierarchy that lets anybody make cgroups without settings."""
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    own = parse_memberships(Path("/proc/self/cgroup").read_text())
    return [
        folders(mount, own[key])[0]
        for mount in mounts
        for key in ([""] if mount.unified else mount.controllers)
        if key in own and key != "cpuset"
    ]


class Cgroups:
    """Cgroups that root makes for users of the host, in all hierarchies."""

    def __init__(self) -> None:
        self._tops = [home / f"tfm-test-{os.getpid()}" for home in homes()]

    def add(self, program: Program, *names: str) -> None:
        """Move a program into a cgroup of this path below ours, in all hierarchies."""
        for number in range(len(self._tops)):
            self.add_in_one(program, number, *names)

    def add_in_one(self, program: Program, number: int, *names: str) -> None:
        """Move a program into a cgroup in one hierarchy."""
        folder = self._tops[number].joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(str(program.pid))

    def remove(self) -> None:
        """Remove all, once their processes are gone."""
        for top in self._tops:
            wait_for(lambda top=top: not any(map(has_processes, tree(top))))
            for folder in sorted(tree(top), reverse=True):
                folder.rmdir()


def tree(top: Path) -> list[Path]:
    return [top, *(path for path in top.rglob("*") if path.is_dir())]


def has_processes(folder: Path) -> bool:
    return bool((folder / "cgroup.procs").read_text())


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    made = Cgroups()
    try:
        for top in made._tops:
            top.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    if not made._tops:
        pytest.skip("no cgroups are mounted here")
    yield made
    made.remove()


def container(here: Host, engine: FakeContainers, cgroups: Cgroups) -> str:
    """Have a container of the victim's that runs; return its job."""
    first = here.program(uid=VICTIM)
    cgroups.add(first, "docker", ID)
    engine.observer.seen(found(first.pid, VICTIM))
    (job,) = here.service.jobs()
    assert job.pid == first.pid
    return job.id


@pytest.mark.parametrize("name", [ID, f"docker-{ID}.scope", f"libpod-{ID}.scope"])
@pytest.mark.parametrize("below", [(), ("inner",)])
def test_who_is_in_a_cgroup_of_a_container_s_name_is_not_in_it(state, cgroups, name, below):
    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            job = container(here, engine, cgroups)
            program = here.program()
            cgroups.add(program, f"user-{HOSTILE}", name, *below)
            hostile = Peer(program.pid, HOSTILE, HOSTILE)
            sight = here.service.sight(hostile)
            assert sight.of(here.status(job)).command == []
            assert not sight.everything
            own = "processes in a container may access only the job that they belong to"
            for change in (here.service.pause, here.service.resume, here.service.cancel):
                with refused(403, own):
                    change(hostile, job)
            with refused(403, own):
                here.service.set_cores(hostile, job, 1)
            with refused(403, f"process {program.pid} is not part of job {job}"):
                here.service.progress(hostile, job, Progress(steps_done=1))
            assert not here.status(job).paused_by_user

    asyncio.run(scenario())


def test_who_is_in_one_hierarchy_only_is_not_in_it(state, cgroups):
    """As of hierarchies of v1, each is delegated by itself."""
    if len(homes()) < 2:
        pytest.skip("there is one hierarchy only")

    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            first, other = here.program(uid=VICTIM), here.program()
            cgroups.add(first, "docker", ID)
            cgroups.add_in_one(other, 0, "docker", ID)
            engine.observer.seen(found(first.pid, VICTIM))
            (job,) = here.service.jobs()
            with refused(403, "processes in a container may access only"):
                here.service.pause(Peer(other.pid, HOSTILE, HOSTILE), job.id)

    asyncio.run(scenario())


def test_who_was_started_in_it_from_outside_is_in_it(state, cgroups):
    """As with `docker exec`, also if it is in a cgroup that the container has made."""

    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            job = container(here, engine, cgroups)
            for names in (), ("inner",), ("inner", ID):
                other = here.program()
                cgroups.add(other, "docker", ID, *names)
                here.service.pause(Peer(other.pid, HOSTILE, HOSTILE), job)
                assert here.status(job).paused_by_user
                here.service.resume(Peer(other.pid, 0, 0), job)

    asyncio.run(scenario())


def test_a_first_process_that_has_moved_on_inside_is_known(state, cgroups):
    """As systemd does in a container, before a controller is restarted."""

    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            first, other = here.program(uid=VICTIM), here.program()
            cgroups.add(first, "docker", ID, "init.scope")
            engine.observer.seen(found(first.pid, VICTIM))
            (job,) = here.service.jobs()
            cgroups.add(other, "docker", ID, "system.slice")
            here.service.pause(Peer(other.pid, HOSTILE, HOSTILE), job.id)
            assert here.status(job.id).paused_by_user

    asyncio.run(scenario())


def test_a_container_that_has_just_started_is_asked_for(state, cgroups):
    """Its first process may ask before the engine has reported the start."""

    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            engine.observer.seen(found(uid=VICTIM))
            (job,) = here.service.jobs()
            assert (job.state, job.pid) == ("running", None)
            first = here.program()
            cgroups.add(first, "docker", ID)
            peer = Peer(first.pid, 0, 0)
            engine.add(found(first.pid, VICTIM))
            await here.service.meet(peer)
            assert here.status(job.id).pid == first.pid
            here.service.pause(peer, job.id)

    asyncio.run(scenario())


def test_nobody_is_asked_for_a_container_that_nobody_has_started(state, cgroups):
    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            job = container(here, engine, cgroups)
            program = here.program()
            cgroups.add(program, "e" * 64)
            engine.add(found(program.pid, VICTIM))
            await here.service.meet(Peer(program.pid, HOSTILE, HOSTILE))
            await here.service.meet(Peer(10**9, HOSTILE, HOSTILE))
            assert [each.id for each in here.service.jobs()] == [job]
            assert engine.asked == 0

    asyncio.run(scenario())


def test_ids_are_shown_to_those_who_may_see_the_job_only(state, cgroups):
    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            job = here.status(container(here, engine, cgroups))
            assert here.service.sight(ME).of(job).container.id == ID
            owner = here.service.sight(here.program(uid=VICTIM).peer)
            assert owner.of(job).container.id == ID
            other = here.service.sight(here.program(uid=HOSTILE).peer).of(job)
            assert (other.container.id, other.container.image) == ("", "")

    asyncio.run(scenario())


def test_cgroups_of_many_names_are_no_more_clients(state, cgroups):
    """Otherwise each would have a part of the connections of its own."""
    program = Program()
    try:
        names = set()
        for name in ("a" * 64, "b" * 64):
            cgroups.add(program, name)
            names.add(owner_name(Peer(program.pid, HOSTILE, HOSTILE)))
            assert owner_name(Peer(program.pid, 0, 0)) == f"container {name}"
        assert names == {f"confined user {HOSTILE}"}
    finally:
        program.end()
