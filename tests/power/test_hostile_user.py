# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users have a unit each, and one of them is hostile to the budgets of the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiomqtt
import msgspec
import pytest

from tests.support.brokers import MOSQUITTO, Mosquitto
from tests.support.fixtures import directory as directory
from tests.support.hostile import (
    HOSTILE,
    VICTIMS,
    as_several_users,
    assert_refused,
    attempts_on,
    running_as,
)
from tests.support.users import User, said_as
from tf_malleable.cli.power.organise import organise
from tf_malleable.model import Budget
from tf_malleable.power.units import organiser as organiser  # Imported while we may.
from tf_malleable.power.units.broker import Broker, client
from tf_malleable.power.units.event import budget_of, event_of
from tf_malleable.power.units.topics import ROOT, UnitName, UnitState, acl

pytestmark = [
    pytest.mark.slow,
    as_several_users,
    pytest.mark.skipif(MOSQUITTO is None, reason="apt-get install mosquitto"),
]

AREA, WATTS = "faculty", 600.0
BOSS = "boss"
UNITS = {uid: UnitName(f"{AREA}/lab", str(uid)) for uid in (*VICTIMS, HOSTILE)}
CURVE = [(0.0, 50.0), (1.0, 150.0)]
MILLION = [(0.0, 50.0), (1.0, 1e6)]
MESSAGES = 500
_SECONDS = 300.0


@dataclass(frozen=True)
class Site:
    """A broker, the coordinator of the budgets, which the first victim runs, and the hostile user.

    Attributes:
        folder: Folder with a password file for each user, which only that user may read.
        port: Port of the broker.
        pid: Process of the coordinator.
        hostile: The hostile user.
    """

    folder: Path
    port: int
    pid: int
    hostile: User

    def broker(self, user: str) -> Broker:
        """Return the broker as a user knows it."""
        return Broker("127.0.0.1", self.port, user, str(password_file(self.folder, user)))


def password_file(folder: Path, user: str) -> Path:
    return folder / user.replace("/", "-")


@pytest.fixture
def site(directory) -> Iterator[Site]:
    owners = {BOSS: VICTIMS[0], **{str(unit): uid for uid, unit in UNITS.items()}}
    for user, uid in owners.items():
        path = password_file(directory, user)
        path.write_text(f"the password of {user}\n")
        path.chmod(0o600)
        os.chown(path, uid, uid)
    passwords = {user: f"the password of {user}" for user in owners}
    rules = acl(UNITS.values(), {BOSS: [AREA]})
    private = directory / "broker"
    private.mkdir(mode=0o700)
    mosquitto = Mosquitto(private, passwords=passwords, acl=rules)
    described = directory / "broker.json"
    said = {"host": "127.0.0.1", "port": mosquitto.port, "user": BOSS}
    described.write_text(json.dumps({**said, "password_file": str(password_file(directory, BOSS))}))

    def share_out() -> None:
        organise.main([AREA, str(WATTS), "--broker", str(described)], standalone_mode=False)

    try:
        with running_as(VICTIMS[0], share_out) as pid, User(HOSTILE, HOSTILE) as hostile:
            yield Site(directory, mosquitto.port, pid, hostile)
    finally:
        mosquitto.kill()
        shutil.rmtree(private)


def state(name: str, curve: list[tuple[float, float]] = CURVE) -> bytes:
    return msgspec.json.encode(UnitState("alive", name, 4, curve))


async def until_given(site: Site, uid: int, least: float) -> float:
    """Connect a unit as its user would; return its budget once that is at least some watts."""
    unit = UNITS[uid]
    async with client(site.broker(str(unit)), None, None) as broker:
        await broker.subscribe(unit.topic("budget"), qos=1)
        await broker.publish(unit.topic("state"), state(str(uid)), qos=1, retain=True)
        async for message in broker.messages:
            watts = budget_of(bytes(message.payload)).watts  # type: ignore[arg-type]
            if watts >= least:
                return watts
    raise AssertionError("the broker has hung up")


def budgets(site: Site, least: float) -> list[float]:
    """Return the budgets of the victims, who come anew, once each has at least some watts."""

    async def all_given() -> list[float]:
        waits = (until_given(site, uid, least) for uid in VICTIMS)
        return await asyncio.wait_for(asyncio.gather(*waits), _SECONDS)

    return asyncio.run(all_given())


def as_hostile(site: Site, *messages: tuple[str, bytes], user: str | None = None) -> str:
    """Have the hostile user publish messages; return what he hears of the others."""
    broker = site.broker(user or str(UNITS[HOSTILE]))

    async def publish() -> list[str]:
        heard = []
        async with client(broker, None, None) as connection:
            for name in (f"{ROOT}/#", "#", UNITS[VICTIMS[0]].topic("budget")):
                with contextlib.suppress(aiomqtt.MqttError):
                    await connection.subscribe(name, qos=1)
            for topic, payload in messages:
                with contextlib.suppress(aiomqtt.MqttError):
                    await connection.publish(topic, payload, qos=1, retain=True)
            with contextlib.suppress(asyncio.TimeoutError):
                while True:
                    message = await asyncio.wait_for(anext(connection.messages), 2.0)
                    heard.append(str(message.topic))
        return heard

    return said_as(HOSTILE, lambda: asyncio.run(publish()))


@pytest.mark.hostile("read")
def test_nothing_of_the_others_is_read(site):
    assert min(budgets(site, 1.0)) > 0
    others = [password_file(site.folder, user) for user in (BOSS, str(UNITS[VICTIMS[1]]))]
    broker = site.folder / "broker"
    assert_refused(
        site.hostile,
        [
            *(("read", path) for path in others),
            ("list", broker),
            ("read", broker / "passwords"),
        ],
    )
    heard = as_hostile(site, (UNITS[HOSTILE].topic("state"), state("mine")))
    assert not any(str(UNITS[uid]) in heard for uid in VICTIMS), heard
    # Nor with the name of another: he cannot read that user's password.
    assert "Permission denied" in as_hostile(site, user=BOSS)


@pytest.mark.hostile("changed")
def test_nothing_of_the_others_is_changed(site):
    before = budgets(site, 100.0)
    forged = event_of(Budget(61.0, serial=1 << 50), "x", 1e9)
    dead = msgspec.json.encode(UnitState("dead", "forged"))
    for uid in VICTIMS:
        unit = UNITS[uid]
        as_hostile(
            site,
            (unit.topic("budget"), forged),
            (unit.topic("state"), dead),
            (unit.topic("state"), b""),
        )
    assert budgets(site, 100.0) == before
    changes = ("write", "change mode", "rename", "remove")
    assert_refused(
        site.hostile,
        [(what, password_file(site.folder, BOSS)) for what in changes],
    )


@pytest.mark.hostile("starved")
@pytest.mark.parametrize("end", ["", "dead"])
def test_no_claim_takes_the_others_budgets(site, end):
    topic = UNITS[HOSTILE].topic("state")
    claims = [(topic, state("mine", MILLION))]
    if end:
        claims.append((topic, msgspec.json.encode(UnitState("dead", "mine"))))
    as_hostile(site, *claims)
    half = WATTS / len(UNITS) / 2
    assert len(budgets(site, half - 0.1)) == len(VICTIMS)


@pytest.mark.hostile("starved", "stopped")
def test_no_messages_stop_the_budgets(site):
    topic = UNITS[HOSTILE].topic("state")
    deep, large = (
        b'{"state":"alive","session":"1","more":' + b"[" * 50_000,
        b'{"state":"' + b"x" * 1_000_000 + b'"}',
    )
    nonsense = [b"\xff", deep, large, b'{"state":"alive","session":"1","curve":[[0,-1],[1,1e9]]}']
    flood = [state(str(number)) for number in range(MESSAGES)]
    as_hostile(site, *((topic, payload) for payload in (*nonsense, *flood)))
    assert_refused(site.hostile, attempts_on([site.pid]))
    assert min(budgets(site, 1.0)) > 0
