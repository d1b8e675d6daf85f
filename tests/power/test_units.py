# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Units and their organisation, by a real broker: budgets, wills, forgers, doubles, kills."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiomqtt
import msgspec
import pytest

from tests.support.brokers import MOSQUITTO, Mosquitto
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.power import PowerStatus
from tf_malleable.model import Budget, PowerCurve
from tf_malleable.power.units.broker import Broker, client, read_broker
from tf_malleable.power.units.event import EventError, budget_of, event_of
from tf_malleable.power.units.organiser import KnownUnit, Organiser, shared_out
from tf_malleable.power.units.topics import UnitAck, UnitName, UnitState, acl, named
from tf_malleable.power.units.unit import AUTHOR, MqttUnit
from tf_malleable.scheduling.energy.budget_book import BudgetBook

CURVE = PowerCurve(((0.0, 50.0), (1.0, 150.0)))
FIRST, SECOND = UnitName("faculty/lab", "a"), UnitName("faculty/office", "b")

with_broker = pytest.mark.skipif(MOSQUITTO is None, reason="apt-get install mosquitto")


def in_loop(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(asyncio.wait_for(test(*arguments, **named), DEADLINE))

    return run


class Host:
    """A host's controller, as far as budgets go."""

    def __init__(self) -> None:
        self.book = BudgetBook()

    def given(self, author: str, budget: Budget) -> None:
        assert author == AUTHOR
        self.book = self.book.taking(author, budget, time.time(), CURVE, 60.0)

    def withdrawn(self, author: str) -> None:
        self.book = self.book.without(author)

    def profile(self) -> PowerStatus:
        return PowerStatus(area="faculty/lab", watts=80.0)

    @property
    def watts(self) -> float | None:
        budget = self.book.in_force(time.time())
        return None if budget is None else budget.watts


async def until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def broker_in(folder, **more):
    broker = Mosquitto(folder, **more)
    try:
        yield broker
    finally:
        broker.kill()


@contextlib.asynccontextmanager
async def unit(name: UnitName, broker: Broker, host: Host | None = None):
    found = MqttUnit(name, broker)
    await found.start(host or Host(), CURVE)
    try:
        yield found
    finally:
        await found.close()


@contextlib.asynccontextmanager
async def organiser(broker: Broker, watts: float):
    found = Organiser(broker, "faculty", Budget(watts))
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, aiomqtt.MqttError):
            await task


# Without a broker.


def test_events_say_what_a_budget_is():
    for budget in (
        Budget(300.0, serial=7),
        Budget(120.5, "mean", 300.0, serial=8),
        Budget(300.0, until=1_000_360.5, serial=9),
    ):
        again = budget_of(event_of(budget, "a", now=1_000_000.0))
        assert again.until == (None if budget.until is None else pytest.approx(budget.until))
        assert (again.watts, again.kind, again.window) == (
            pytest.approx(budget.watts),
            budget.kind,
            budget.window,
        )
        assert again.serial == budget.serial


def event(**changes: object) -> bytes:
    plain = msgspec.json.decode(event_of(Budget(300.0, serial=7), "a", 1_000_000.0))
    return msgspec.json.encode({**plain, **changes})


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "no event"),
        (b"[]", "no event"),
        (b"\xff\xfe", "no event"),
        (b"x" * 20000, "at most 16384 bytes"),
        (b'{"more":' + b"[" * 10_000, "no event"),
        (event(id="-1"), "no event"),
        (event(intervals=[]), "no event"),
        (event(intervals=[{"id": 0, "payloads": []}]), "no payload IMPORT_CAPACITY_LIMIT"),
        (
            event(
                intervals=[
                    {"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [0]}]}
                ]
            ),
            "above 0 W",
        ),
        (
            event(
                intervals=[
                    {"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [-1]}]}
                ]
            ),
            "above 0 W",
        ),
        (
            event(payloadDescriptors=[{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": "MW"}]),
            "must be in KW, not 'MW'",
        ),
        (event(intervalPeriod={"start": "2026-01-01T00:00:00"}), "needs a time zone"),
        (
            event(intervalPeriod={"start": "2026-01-01T00:00:00Z", "duration": "soon"}),
            "written such as PT8H",
        ),
        (
            event(intervalPeriod={"start": "9999-01-01T00:00:00Z", "duration": "P9999999D"}),
            "no event",
        ),
    ],
)
def test_what_is_no_event(message, complaint):
    with pytest.raises(EventError, match=complaint):
        budget_of(message)


def test_the_event_of_another_programme_is_understood():
    message = event(
        programID="grid",
        intervalPeriod={"start": "2026-01-01T00:00:00+01:00", "duration": "P1DT2H30M"},
    )
    assert budget_of(message).until == 1767222000.0 + 86400 + 9000


def test_topics_name_units_and_nothing_else():
    assert FIRST.topic("budget") == "tfm/v1/faculty/lab/a/budget"
    assert named("tfm/v1/faculty/lab/a/budget") == (FIRST, "budget")
    for topic in ("tfm/v1/a/budget", "x/faculty/lab/a/budget", "tfm/v1/a b/c/budget", ""):
        assert named(topic) is None
    with pytest.raises(ValueError, match="a unit is named by"):
        UnitName("faculty", "a/b")
    with pytest.raises(ValueError, match="a unit is named by"):
        UnitName("faculty/#", "a")


def test_a_dead_unit_keeps_what_its_host_may_draw():
    alive = KnownUnit(4, CURVE, True)
    both = {"a": alive, "b": KnownUnit(4, CURVE, False)}
    assert shared_out(both, 250.0) == {"a": 100.0}
    assert shared_out({"a": alive, "b": alive}, 250.0) == {"a": 125.0, "b": 125.0}


MILLION = {
    "draws": PowerCurve(((0.0, 50.0), (1.0, 1e6))),
    "idles": PowerCurve(((0.0, 1e6), (1.0, 1e6))),
    "is cheap": PowerCurve(((0.0, 0.0), (0.5, 0.0), (1.0, 1e6))),
}


@pytest.mark.parametrize("is_alive", [True, False])
@pytest.mark.parametrize("claim", MILLION)
def test_a_unit_that_claims_a_million_watts_leaves_the_others_half_of_their_shares(claim, is_alive):
    honest = {name: KnownUnit(4, CURVE, True) for name in ("a", "b")}
    found = shared_out({**honest, "liar": KnownUnit(65536, MILLION[claim], is_alive)}, 420.0)
    assert found["a"] == found["b"] >= 70.0
    assert sum(found.values()) <= 420.0 + 1e-9


def test_an_organiser_is_not_confused_by_nonsense():
    found = Organiser(Broker("x"), "faculty", Budget(300.0))
    alive = msgspec.json.encode(UnitState("alive", "1", 4, list(CURVE.points)))
    found.hear(FIRST.topic("state"), alive)
    deep = b'{"state":"alive","session":"2","more":' + b"[" * 10_000
    few = b'{"state":"alive","session":"2","curve":[[0,1]]}'
    for payload in (b"{", b"[]", few, b"\xff", deep):
        found.hear(FIRST.topic("state"), payload)
        found.hear(FIRST.topic("ack"), payload)
        found.hear("elsewhere", payload)
    assert found.units == {str(FIRST): KnownUnit(4, CURVE, True)}
    found.hear(FIRST.topic("state"), b"")
    assert found.units == {}


def test_a_unit_that_says_again_that_it_is_there_still_keeps_its_budget():
    found = Organiser(Broker("x"), "faculty", Budget(300.0))
    alive = msgspec.json.encode(UnitState("alive", "1", 4, list(CURVE.points)))
    found.hear(FIRST.topic("state"), alive)
    found.units[str(FIRST)] = replace(found.units[str(FIRST)], budget=Budget(300.0, serial=7))
    found.hear(FIRST.topic("ack"), msgspec.json.encode(UnitAck(7, accepted=True)))
    found.hear(FIRST.topic("state"), alive)
    assert found.units[str(FIRST)].acknowledged == UnitAck(7, accepted=True)
    # One that was dead has yet to say so.
    found.hear(FIRST.topic("state"), msgspec.json.encode(UnitState("dead", "1")))
    found.hear(FIRST.topic("state"), alive)
    assert found.units[str(FIRST)].acknowledged is None


def test_a_broker_is_described_by_a_file(tmp_path):
    path = tmp_path / "broker.json"
    path.write_text('{"host": "mqtt.example", "user": "faculty/lab/a"}')
    assert read_broker(path) == Broker("mqtt.example", user="faculty/lab/a")
    path.write_text('{"host": "x", "prot": 3}')
    with pytest.raises(ValueError, match=r"describes no broker: .*prot"):
        read_broker(path)
    with pytest.raises(ValueError, match="No such file"):
        read_broker(tmp_path / "missing")


# With a broker.


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_budget_is_shared_out_taken_and_acknowledged(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, hosts = Broker("127.0.0.1", mosquitto.port), (Host(), Host())
        async with (
            unit(FIRST, broker, hosts[0]) as one,
            unit(SECOND, broker, hosts[1]),
            organiser(broker, 250.0) as found,
        ):
            await until(lambda: [host.watts for host in hosts] == [125.0, 125.0])
            await until(
                lambda: all(
                    u.acknowledged and u.acknowledged.accepted for u in found.units.values()
                )
            )
            assert one.problem is None
            assert set(found.units) == {str(FIRST), str(SECOND)}


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_retained_budget_reaches_a_unit_that_was_off(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, host = Broker("127.0.0.1", mosquitto.port), Host()
        async with client(broker, None, None) as someone:
            payload = event_of(Budget(120.0, serial=3), "a", time.time())
            await someone.publish(FIRST.topic("budget"), payload, qos=1, retain=True)
        async with unit(FIRST, broker, host):
            await until(lambda: host.watts == 120.0)
            # It is withdrawn by removing it.
            async with client(broker, None, None) as someone:
                await someone.publish(FIRST.topic("budget"), b"", qos=1, retain=True)
            await until(lambda: host.watts is None)


@with_broker
@pytest.mark.slow
@in_loop
async def test_what_is_refused_is_said_and_what_was_taken_stays(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, host = Broker("127.0.0.1", mosquitto.port), Host()
        async with unit(FIRST, broker, host) as one, client(broker, None, None) as someone:
            await until(lambda: one.problem is None)
            await someone.subscribe(FIRST.topic("ack"), qos=1)
            now = time.time()
            for payload, reason in (
                (event_of(Budget(120.0, serial=3), "a", now), None),
                (event_of(Budget(130.0, serial=2), "a", now), "out of order"),
                (event_of(Budget(20.0, serial=4), "a", now), "when it is idle"),
                (event_of(Budget(99.0, until=now - 60, serial=5), "a", now - 120), "expired"),
                (b'{"watts": NaN}', "no event"),
            ):
                await someone.publish(FIRST.topic("budget"), payload, qos=1)
                message = await anext(someone.messages)
                ack = msgspec.json.decode(message.payload, type=UnitAck)  # type: ignore[arg-type]
                assert ack.accepted == (reason is None)
                assert reason is None or reason in (ack.reason or "")
                assert host.watts == 120.0


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_killed_broker_comes_back_and_its_budgets_with_it(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, host = Broker("127.0.0.1", mosquitto.port), Host()
        async with unit(FIRST, broker, host) as one, client(broker, None, None) as someone:
            payload = event_of(Budget(120.0, serial=3), "a", time.time())
            await someone.publish(FIRST.topic("budget"), payload, qos=1, retain=True)
            await until(lambda: host.watts == 120.0)
            await asyncio.sleep(1.5)  # The broker saves what is retained once a second.
            mosquitto.kill()
            await until(lambda: one.problem is not None and "not connected" in one.problem)
            assert host.watts == 120.0
            mosquitto.start()
            await until(lambda: one.problem is None)
            assert host.watts == 120.0
            with contextlib.suppress(aiomqtt.MqttError):
                await anext(someone.messages)


@in_loop
async def test_the_end_of_a_unit_is_not_lost_in_a_wait_that_swallows_it(monkeypatch):
    one = MqttUnit(FIRST, Broker("127.0.0.1", 1))
    begun = asyncio.Event()

    async def swallowing(observer):
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)
        await asyncio.sleep(600)

    monkeypatch.setattr(one, "_session_with_broker", swallowing)
    await one.start(Host(), CURVE)
    await begun.wait()
    await asyncio.wait_for(one.close(), DEADLINE)


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_budget_is_void_if_nothing_is_heard_for_long(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, host = Broker("127.0.0.1", mosquitto.port, lost_after=1.0), Host()
        async with unit(FIRST, broker, host):
            async with client(broker, None, None) as someone:
                payload = event_of(Budget(120.0, serial=3), "a", time.time())
                await someone.publish(FIRST.topic("budget"), payload, qos=1, retain=True)
            await until(lambda: host.watts == 120.0)
            mosquitto.kill()
            await until(lambda: host.watts is None)


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_dead_unit_is_revealed_and_its_power_set_aside(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, host = Broker("127.0.0.1", mosquitto.port), Host()
        async with unit(FIRST, broker, host), organiser(broker, 260.0) as found:
            async with unit(SECOND, broker):
                await until(lambda: host.watts == 130.0)
            # Its host may draw 150 W without it.
            await until(lambda: host.watts == 110.0)
            assert not found.units[str(SECOND)].is_alive
            async with unit(SECOND, broker):
                await until(lambda: host.watts == 130.0)


@with_broker
@pytest.mark.slow
@in_loop
async def test_the_younger_of_two_doubles_has_no_budget_until_the_older_is_gone(tmp_path):
    with broker_in(tmp_path) as mosquitto:
        broker, hosts = Broker("127.0.0.1", mosquitto.port), (Host(), Host())
        async with client(broker, None, None) as someone:
            payload = event_of(Budget(120.0, serial=3), "a", time.time())
            await someone.publish(FIRST.topic("budget"), payload, qos=1, retain=True)
        async with contextlib.AsyncExitStack() as older:
            one = await older.enter_async_context(unit(FIRST, broker, hosts[0]))
            await until(lambda: hosts[0].watts == 120.0)
            async with unit(FIRST, broker, hosts[1]) as two:
                for each in (one, two):
                    await until(lambda each=each: each.problem and "one has to go" in each.problem)
                await until(lambda: hosts[1].watts is None)
                assert hosts[0].watts == 120.0
                await older.aclose()
                await until(lambda: hosts[1].watts == 120.0)
                assert two.problem is None


@with_broker
@pytest.mark.slow
@in_loop
async def test_nobody_speaks_for_another_unit_or_gives_budgets(tmp_path):
    users = {str(FIRST): "one", str(SECOND): "two", "boss": "three", "clerk": "four"}
    rules = acl([FIRST, SECOND], {"boss": ["faculty"], "clerk": ["faculty/office"]})
    (tmp_path / "password").write_text("one\n")
    with broker_in(tmp_path, passwords=users, acl=rules) as mosquitto:
        host = Host()
        mine = Broker("127.0.0.1", mosquitto.port, str(FIRST), str(tmp_path / "password"))

        def as_user(user: str) -> aiomqtt.Client:
            (tmp_path / user.replace("/", "-")).write_text(users[user])
            secret = str(tmp_path / user.replace("/", "-"))
            return client(Broker("127.0.0.1", mosquitto.port, user, secret), None, None)

        async with unit(FIRST, mine, host) as one, as_user("boss") as boss:
            await until(lambda: one.problem is None)
            await boss.subscribe("tfm/v1/faculty/#", qos=1)
            forged = event_of(Budget(61.0, serial=99), "a", time.time())
            dead = msgspec.json.encode(UnitState("dead", "forged"))
            for forger in (str(SECOND), "clerk"):
                async with as_user(forger) as other:
                    for word, payload in (("budget", forged), ("state", dead)):
                        with contextlib.suppress(aiomqtt.MqttError):
                            await other.publish(FIRST.topic(word), payload, qos=1)  # type: ignore[arg-type]
            right = event_of(Budget(120.0, serial=3), "a", time.time())
            await boss.publish(FIRST.topic("budget"), right, qos=1)
            await until(lambda: host.watts == 120.0)
            heard = []
            async for message in boss.messages:
                heard.append(message.payload)
                if message.topic.matches(FIRST.topic("ack")):
                    break
            assert forged not in heard
            assert dead not in heard


@with_broker
@pytest.mark.slow
@in_loop
async def test_a_wrong_password_is_told(tmp_path):
    with broker_in(tmp_path, passwords={str(FIRST): "one"}) as mosquitto:
        (tmp_path / "password").write_text("wrong\n")
        broker = Broker("127.0.0.1", mosquitto.port, str(FIRST), str(tmp_path / "password"))
        async with unit(FIRST, broker) as one:
            await until(lambda: one.problem is not None and "uthori" in one.problem)
