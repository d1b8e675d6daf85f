# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests that a program serves: measured by it, by a middleware, or by TensorFlow's calls."""

from __future__ import annotations

from pathlib import Path

import pytest

import tf_malleable as tfm
from tests.support.deadline import DEADLINE
from tests.support.jobs import ALL, Job
from tf_malleable.model.services.latency import upper_bound

SERVICE = (Path(__file__).parent / "keras_service.py").read_text()

BY_HAND = """
import asyncio, os, sys, threading, time
import tf_malleable as tfm

@tfm.request
def plain(seconds):
    time.sleep(seconds)
    return "plain"

@tfm.request()
async def coroutine(seconds):
    with tfm.request():  # A part of the first one.
        await asyncio.sleep(seconds)
    return "coroutine"

async def several():
    async with tfm.request():
        await asyncio.sleep(0.02)
    return await asyncio.gather(*(coroutine(0.02) for _ in range(3)))

assert plain.__name__ == "plain"
assert plain(0.02) == "plain"
with tfm.request():
    plain(0.02)  # A part of that one.
try:
    with tfm.request():
        raise KeyError
except KeyError:
    pass
assert asyncio.run(several()) == ["coroutine"] * 3
threads = [threading.Thread(target=plain, args=(0.02,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("served", flush=True)
sys.stdin.readline()
with tfm.request():
    print("in flight", flush=True)
    sys.stdin.readline()
child = os.fork()
if not child:
    for _ in range(7):
        plain(0.02)
    print("forked", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.waitpid(child, 0)
"""

WEB = """
import asyncio, sys
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator
import tf_malleable as tfm

class Chunks:
    closed = False
    def __iter__(self):
        return iter([b"some ", b"text"])
    def close(self):
        self.closed = True

chunks = Chunks()

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return chunks

def failing(environ, start_response):
    raise KeyError

def wsgi(app):
    environ = {}
    setup_testing_defaults(environ)
    return app(environ, lambda status, headers, exc_info=None: None)

body = wsgi(validator(tfm.WSGIMiddleware(app)))
assert b"".join(body) == b"some text"
body.close()
assert chunks.closed
try:
    wsgi(tfm.WSGIMiddleware(failing))
except KeyError:
    pass

async def asgi(scope, receive, send):
    assert (receive, send) == ("receive", "send")
    if scope["type"] == "lifespan":
        return
    raise KeyError

for kind in ("http", "lifespan"):
    try:
        asyncio.run(tfm.ASGIMiddleware(asgi)({"type": kind}, "receive", "send"))
    except KeyError:
        assert kind == "http"
print("served", flush=True)
sys.stdin.readline()
"""


class Served:
    """Requests that a fake controller has been told of."""

    def __init__(self, fake):
        self.fake = fake

    @property
    def reports(self):
        return [h.body["requests"] for h in self.fake.heard("progress") if "requests" in h.body]

    @property
    def number(self):
        return sum(sum(each["counts"]) for each in self.reports)

    def wait_for(self, number):
        self.fake.wait(lambda: self.number >= number and not self.reports[-1]["in_flight"])
        assert self.number == number

    def longest(self):
        return max(upper_bound(bucket) for each in self.reports for bucket in each["buckets"])


@pytest.fixture
def served(fake):
    fake.grant(ALL)
    return Served(fake)


@pytest.mark.slow
def test_requests_measured_by_the_program(fake, served):
    with Job("import tf_malleable\n" + BY_HAND, fake.path) as job:
        assert job.hear() == "served"
        served.wait_for(11)
        assert 0.02 <= served.longest() < DEADLINE
        assert job.ask() == "in flight"
        fake.wait(lambda: served.reports[-1]["oldest_seconds"] > 0.3)
        assert served.reports[-1]["in_flight"] == 1
        assert job.ask() == "forked"
        # That of the parent, which is not in flight in the child, and the child's own.
        fake.wait(lambda: served.number == 19)
        job.tell()
        assert job.end()[0] == 0


def test_requests_of_a_web_service(fake, served):
    with Job(WEB, fake.path) as job:
        assert job.hear() == "served"
        served.wait_for(3)


def test_a_program_without_a_controller_measures_for_nobody():
    with Job(BY_HAND, None) as job:
        assert job.hear() == "served"
        assert job.ask() == "in flight"
        assert job.ask() == "forked"


def test_a_controller_that_does_not_know_requests_is_not_told_again(fake):
    def answer(handler):
        is_known = "requests" not in handler.heard.body
        handler.answer(*((204,) if is_known else (400, {"error": "there is no field requests"})))

    fake.answer_with("progress", answer)
    with Job("import tf_malleable\n" + BY_HAND, fake.path) as job:
        assert job.hear() == "served"
        job.tell()
        assert job.hear() == "in flight"
        job.tell()
        assert job.hear() == "forked"
        # The parent and the child.
        fake.wait(lambda: len({each.pid for each in fake.heard("progress")}) == 2)
        fake.wait(lambda: len(fake.heard("progress")) >= 8)
        told = [each.pid for each in fake.heard("progress") if "requests" in each.body]
        assert sorted(told) == sorted(set(told))
        assert told
        assert len(fake.heard("jobs")) == len({each.pid for each in fake.heard("jobs")})


def test_generators_cannot_be_requests():
    def generator():
        yield

    with pytest.raises(TypeError, match="request\\(\\) cannot decorate a generator"):
        tfm.request(generator)


@pytest.mark.slow
def test_an_unmodified_keras_service(fake, served):
    with Job(SERVICE, fake.path) as job:
        total = 0
        while (word := job.hear()) != "over":
            name, _, number = word.partition(" ")
            total += int(number)
            try:
                served.wait_for(total)
            except AssertionError as error:
                raise AssertionError(f"after {name}: {served.number}, not {total}") from error
            job.tell()
