# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users share a controller, and one of them is hostile: what he can reach of the others'.

Floods are in test_floods.py.
"""

from __future__ import annotations

import grp
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from tests.support.controllers import Controller, controller, wait_for
from tests.support.users import User, said_as
from tf_malleable.api.routes import ROUTES, Route
from tf_malleable.cli.launch import background
from tf_malleable.linux import cpu_claims

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

VICTIMS = (4001, 4002, 4003)
HOSTILE = 4004
CPUS = sorted(os.sched_getaffinity(0))
SECRET = "the-token-of-somebody-else"
REFUSED = ("EACCES", "EPERM")
# What time changes, though nobody does anything.
VOLATILE = (
    "as_of",
    "reason",
    "waiting_seconds",
    "run_seconds",
    "used_cpus",
    "used_mem",
    "peak_mem",
    "lacks",
)
ENDS = {"least": "minimum", "most": "maximum"}


@dataclass(frozen=True)
class Shared:
    """A controller of one CPU; each user has a job, and the first user's job has the CPU."""

    controller: Controller
    victims: tuple[User, ...]
    jobs: tuple[str, ...]
    hostile: User

    def theirs(self) -> list[dict[str, Any]]:
        """Return the victims' jobs as root sees them, without what changes by itself."""
        jobs = self.controller.get("/v1/jobs")["jobs"]
        return [
            {name: value for name, value in each.items() if name not in VOLATILE}
            for each in jobs
            if each["id"] in self.jobs
        ]


@contextmanager
def shared(directory: Path, group: int, *more: str, **settings: Any) -> Iterator[Shared]:
    """Have four users, with a job each, at one controller."""
    name = grp.getgrgid(group).gr_name
    options = ("--policy", "equal", "--cpus", str(CPUS[0]), "--group", name, *more)
    private = {"command": ["train", SECRET], "output": f"/home/{SECRET}.log"}
    with ExitStack() as stack:
        one = stack.enter_context(controller(directory, *options, **settings))
        uids = (*VICTIMS, HOSTILE, HOSTILE)
        *victims, hostile, accomplice = (
            stack.enter_context(User(uid, group, one.socket)) for uid in uids
        )
        jobs = tuple(user.submit(name="theirs", **private) for user in victims)
        accomplice.submit(name="mine", priority=1000, weight=1000)
        here = Shared(one, tuple(victims), jobs, hostile)
        assert [each["state"] for each in here.theirs()] == ["running", "waiting", "waiting"]
        yield here


def sample(kind: type[msgspec.Struct], end: str) -> Any:
    """Return a message: with the least numbers and without what may be left out, or the most."""
    schema = msgspec.json.schema(kind)
    return _value(schema, schema["$defs"], end)


def _value(schema: dict[str, Any], defs: dict[str, Any], end: str) -> Any:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rpartition("/")[2]], defs, end)
    if "anyOf" in schema:
        some = [each for each in schema["anyOf"] if each.get("type") != "null"]
        is_optional = len(some) < len(schema["anyOf"])
        return None if is_optional and end == "least" else _value(some[0], defs, end)
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        fields = schema.get("properties", {})
        return {name: _value(each, defs, end) for name, each in fields.items()}
    if schema["type"] == "string":
        return "x" * max(1, schema.get("minLength", 0))
    if schema["type"] in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return schema.get(ENDS[end], least)
    return {"array": [], "boolean": end == "most"}[schema["type"]]


def test_samples_are_valid_requests():
    for route in ROUTES:
        for kind in filter(None, (route.body, route.query)):
            for end in ENDS:
                assert isinstance(msgspec.convert(sample(kind, end), kind), kind)


def call(user: User, route: Route, job: str, end: str) -> tuple[int, str]:
    """Send a request that is valid, whoever may send it."""
    target = route.path.replace("{id}", job)
    if route.query is not None:
        values = sample(route.query, end)
        said = {name: json.dumps(value) for name, value in values.items() if value is not None}
        target += f"?{urlencode(said)}"
    body = None if route.body is None else sample(route.body, end)
    return user.ask(route.method, target, body)


def test_no_call_reads_or_changes_what_is_another_s(directory, group):
    """A new route is called like the others; one that changes a job must refuse him."""
    with shared(directory, group) as here:
        with User(VICTIMS[0], group, here.controller.socket) as ended:
            ended.submit(name="ended", command=["train", SECRET])
        wait_for(lambda: here.controller.get("/v1/history")["jobs"])
        assert SECRET in json.dumps(here.controller.get("/v1/history"))
        before, policy = here.theirs(), here.controller.get("/v1/policy")["policy"]
        assert json.dumps(before).count(SECRET) == 2 * len(VICTIMS)
        for route in ROUTES:
            for job in here.jobs if "{id}" in route.path else here.jobs[:1]:
                for end in ENDS:
                    status, text = call(here.hostile, route, job, end)
                    what = f"{route.method} {route.path} with {end}: {status} {text[:200]}"
                    # There may be no container engine.
                    assert status < 500 or (status, route.name) == (503, "take"), what
                    assert SECRET not in text, what
                    if route.method != "GET":
                        assert status == 403 if "{id}" in route.path else status >= 400, what
                    assert here.theirs() == before, what
        assert here.controller.get("/v1/policy")["policy"] == policy
        assert all(user.ask("GET", "/v1")[0] == 200 for user in here.victims)


def output_of(uid: int, group: int, home: Path) -> Path:
    """Return the file that `tfm submit` makes for what a user's job prints."""

    def make() -> str:
        os.environ["XDG_STATE_HOME"] = str(home)
        path, file = background._new_output()
        os.write(file, SECRET.encode())
        return str(path)

    return Path(said_as(uid, make, group))


def test_no_file_of_another_s_is_read_or_changed(directory, group):
    quotas = directory / "quotas.conf"
    quotas.write_text("[*]\nmax-jobs = 50\n")
    home = directory / "home"
    home.mkdir()
    os.chown(home, VICTIMS[0], group)
    claimed = directory / "claims"
    env = {**os.environ, cpu_claims.VARIABLE: str(claimed)}
    with shared(directory, group, "--quotas", str(quotas), env=env) as here:
        one = here.controller
        output = output_of(VICTIMS[0], group, home)
        assert output.read_text() == SECRET
        (claim,) = claimed.iterdir()
        lock = one.socket.with_name(f"{one.socket.name}.lock")
        states = sorted(directory.glob(f"{one.state.name}*"))
        assert one.state in states
        changes = ("write", "change mode", "rename", "remove")
        attempts = [
            *((what, path) for path in (*states, output, lock) for what in ("read", *changes)),
            *((what, path) for path in (quotas, claim) for what in changes),
            *((what, one.socket) for what in changes[1:]),
            ("list", output.parent),
            *(("create", folder / "new") for folder in (one.socket.parent, output.parent, home)),
            *(
                (what, folder)
                for folder in (one.socket.parent, output.parent, home, claimed)
                for what in ("change mode", "rename", "remove folder")
            ),
        ]
        for what, path in attempts:
            assert here.hostile.attempt(what, path) in REFUSED, f"{what} {path}"
        assert one.get("/v1")["problem"] is None


def test_no_process_of_another_s_is_signalled_or_confined(directory, group):
    with shared(directory, group) as here:
        processes = [*(user.pid for user in here.victims), here.controller.pid]
        before = [os.sched_getaffinity(pid) for pid in processes]
        attempts = [
            *(
                ("signal", pid, number)
                for pid in processes
                for number in (signal.SIGCONT, signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL)
            ),
            *(("confine", pid, CPUS[-1]) for pid in processes),
            *(("slow down", pid) for pid in processes),
            *(
                ("read", f"/proc/{pid}/{file}")
                for pid in processes
                for file in ("environ", "mem", "maps")
            ),
        ]
        for attempt in attempts:
            assert here.hostile.attempt(*attempt) in REFUSED, attempt
        assert [os.sched_getaffinity(pid) for pid in processes] == before
        assert all(user.ask("GET", "/v1")[0] == 200 for user in here.victims)


def test_no_cgroup_of_another_s_job_is_changed(directory, group):
    with shared(directory, group) as here:
        names = tuple(f"tfm-job-{user.pid}-" for user in here.victims)
        # Others' cgroups go meanwhile, which os.walk() bears.
        found = [
            Path(parent, name)
            for parent, folders, _ in os.walk("/sys/fs/cgroup")
            for name in folders
            if name.startswith(names)
        ]
        if not found:
            pytest.skip("no cgroup can be made here")
        for folder in found:
            assert here.hostile.attempt("make folder", folder / "mine") in REFUSED
            assert here.hostile.attempt("remove folder", folder) in (*REFUSED, "EBUSY")
            files = [each for each in folder.iterdir() if each.is_file()]
            assert folder / "cgroup.procs" in files
            for file in files:
                assert here.hostile.attempt("write", file) in REFUSED, file


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_a_user_with_many_jobs_does_not_keep_others_waiting(directory, group):
    name = grp.getgrgid(group).gr_name
    cpus = f"{CPUS[0]},{CPUS[1]}"
    with (
        controller(directory, "--policy", "equal", "--cpus", cpus, "--group", name) as one,
        ExitStack() as stack,
    ):

        def start(uid: int, **fields: Any) -> User:
            user = stack.enter_context(User(uid, group, one.socket))
            # Its stream keeps it in the queue.
            user.follow(user.submit(**fields))
            return user

        greedy = [start(HOSTILE, max=1, priority=1000, weight=1000) for _ in range(8)]
        others = [start(uid, max=1) for uid in VICTIMS[:1]]

        def running() -> set[int]:
            jobs = one.get("/v1/jobs")["jobs"]
            return {each["pid"] for each in jobs if each["state"] == "running"}

        wait_for(lambda: running() == {user.pid for user in greedy[:2]})
        greedy[0].process.kill()
        wait_for(lambda: len(running()) == 2 and greedy[0].pid not in running())
        assert running() == {greedy[1].pid, others[0].pid}


def test_no_user_fills_the_disk(directory, group):
    """Commands of 245 KB filled it at 15 MB a second."""
    with shared(directory, group) as here:

        def submit(**fields: Any) -> tuple[int, str]:
            with User(HOSTILE, group, here.controller.socket) as program:
                return program.ask("POST", "/v1/jobs", {"name": "large", **fields})

        status, text = submit(command=["x" * 4096] * 60)
        assert (status, "command must have at most 4096 characters in all" in text) == (400, True)
        for field, value in (("after", ["1" * 200] * 100), ("output", "x" * 5000)):
            status, text = submit(**{field: value})
            assert (status, field in text, "1 to" in text) == (400, True, True), text
        # The largest that it may be is small.
        most = {"command": ["x" * 16] * 256, "output": "x" * 4096, "after": ["1" * 20] * 100}
        status, text = submit(**most)
        assert (status, len(text) < 20_000) == (201, True), text
