# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users share a controller, and one of them is hostile: what he can reach of the others'.

Floods are in test_floods.py.
"""

from __future__ import annotations

import grp
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.controllers import controller, wait_for
from tests.support.hostile import (
    CPUS,
    HOSTILE,
    REFUSED,
    SECRET,
    VICTIMS,
    as_several_users,
    assert_refused,
    attempts_on,
    shared,
)
from tests.support.users import User, said_as
from tf_malleable.api.routes import ROUTES, Route
from tf_malleable.cli.background import keeper
from tf_malleable.linux import cpu_claims

pytestmark = as_several_users

ENDS = {"least": "minimum", "most": "maximum"}


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


@pytest.mark.slow
@pytest.mark.hostile("read", "changed")
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
        path, file = keeper._new_output()
        os.write(file, SECRET.encode())
        return str(path)

    return Path(said_as(uid, make, group))


@pytest.mark.hostile("read", "changed")
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
        assert_refused(here.hostile, attempts)
        assert one.get("/v1")["problem"] is None


@pytest.mark.hostile("read", "stopped")
def test_no_process_of_another_s_is_signalled_or_confined(directory, group):
    with shared(directory, group) as here:
        processes = [*(user.pid for user in here.victims), here.controller.pid]
        before = [os.sched_getaffinity(pid) for pid in processes]
        assert_refused(here.hostile, attempts_on(processes))
        assert [os.sched_getaffinity(pid) for pid in processes] == before
        assert all(user.ask("GET", "/v1")[0] == 200 for user in here.victims)


@pytest.mark.hostile("changed", "stopped")
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
            skip_without("freezer")
        for folder in found:
            assert here.hostile.attempt("make folder", folder / "mine") in REFUSED
            assert here.hostile.attempt("remove folder", folder) in (*REFUSED, "EBUSY")
            files = [each for each in folder.iterdir() if each.is_file()]
            assert folder / "cgroup.procs" in files
            for file in files:
                assert here.hostile.attempt("write", file) in REFUSED, file


@pytest.mark.slow
@pytest.mark.hostile("starved")
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


@pytest.mark.slow
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
