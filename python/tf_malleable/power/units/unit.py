# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""This host as a unit: receives budgets from a broker, and reports its power."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from pathlib import Path
from uuid import uuid4

import aiomqtt
import msgspec

from tf_malleable.api.validation import decode_json
from tf_malleable.controller.ports import BudgetObserver
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model import PowerCurve
from tf_malleable.power.units.broker import Broker, client, read_broker
from tf_malleable.power.units.event import EventError, budget_of
from tf_malleable.power.units.topics import UnitAck, UnitName, UnitState, Word

AUTHOR = "the organisation"

_CANCEL_SECONDS = 0.5
_PROFILE_SECONDS = 10.0
# Units that lose a broker must not all reconnect at the same moment.
_RETRY_SECONDS = 1.0
_MOST_RETRY_SECONDS = 30.0
_PUBLISH_SECONDS = 2.0

_log = logging.getLogger(__name__)


class MqttUnit:
    """A unit of an organisation; see power.remote.Remote. Not thread-safe: one asyncio loop.

    Args:
        name: Name of the unit.
        broker: The organisation's broker.

    Attributes:
        problem: Why the organisation cannot be reached; None if nothing is wrong.
    """

    def __init__(self, name: UnitName, broker: Broker) -> None:
        self.name = name
        self.problem: str | None = f"not yet connected to {broker.host}:{broker.port}"
        self._broker = broker
        # The older of two units of the same name is the one with the smaller session.
        self._session = f"{time.time_ns():020}-{uuid4().hex[:16]}"
        self._double: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._lost_at: float | None = time.monotonic()
        self._retry = _RETRY_SECONDS

    async def start(self, observer: BudgetObserver, curve: PowerCurve | None) -> None:
        """Start passing on budgets; the broker need not be reachable."""
        self._alive = UnitState(
            "alive", self._session, HostCpu().cpus, list(curve.points) if curve else []
        )
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._stay_connected(observer)),
            loop.create_task(self._give_up(observer)),
        ]

    async def close(self) -> None:
        """Disconnect; the broker then reports that this unit is dead."""
        # If a connection breaks just when it is cancelled, aiomqtt raises its own error.
        self._closing = True
        pending = {*self._tasks}
        while pending:
            # Before Python 3.12 a wait that has just ended may swallow the cancellation.
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stay_connected(self, observer: BudgetObserver) -> None:
        while not self._closing:
            try:
                await self._session_with_broker(observer)
            except (aiomqtt.MqttError, OSError, ValueError) as error:
                await self._lost(str(error))
            except Exception as error:
                _log.exception("the connection to the broker failed")
                await self._lost(str(error))

    async def _lost(self, reason: str) -> None:
        if self._closing:
            return
        if self._lost_at is None:
            self._lost_at = time.monotonic()
        where = f"{self._broker.host}:{self._broker.port}"
        self.problem = f"not connected to the broker {where}: {' '.join(reason.split())}"
        _log.warning("%s", self.problem)
        share = 0.5 + int.from_bytes(os.urandom(2), "big") / 0x20000
        await asyncio.sleep(self._retry * share)
        self._retry = min(_MOST_RETRY_SECONDS, 2 * self._retry)

    async def _session_with_broker(self, observer: BudgetObserver) -> None:
        dead = msgspec.json.encode(UnitState("dead", self._session))
        will = aiomqtt.Will(self.name.topic("state"), dead, qos=1, retain=True)
        # With the same id, the broker would disconnect the two clients in turns.
        async with client(self._broker, f"tfm-{self._session}", will) as broker:
            self._double = None
            await broker.subscribe([(self.name.topic("budget"), 1), (self.name.topic("state"), 1)])
            await self._say_alive(broker)
            self._lost_at, self.problem, self._retry = None, None, _RETRY_SECONDS
            telling = asyncio.create_task(self._tell_profile(broker, observer))
            try:
                async for message in broker.messages:
                    await self._heard(broker, observer, message)
            except asyncio.CancelledError:
                # A clean disconnect would not publish the will.
                with contextlib.suppress(aiomqtt.MqttError):
                    await self._publish(broker, "state", dead, retain=True)
                raise
            finally:
                telling.cancel()

    async def _heard(
        self, broker: aiomqtt.Client, observer: BudgetObserver, message: aiomqtt.Message
    ) -> None:
        payload = message.payload if isinstance(message.payload, bytes) else b""
        if str(message.topic) == self.name.topic("state"):
            await self._heard_of_itself(broker, observer, payload, is_old=message.retain)
        elif self._is_younger:
            return
        elif not payload:
            observer.withdrawn(AUTHOR)
        else:
            ack = _taken(observer, payload)
            if ack.reason is not None:
                _log.warning("a power budget is refused: %s", ack.reason)
            await self._publish(broker, "ack", msgspec.json.encode(ack))

    @property
    def _is_younger(self) -> bool:
        """Whether an older unit has this name; the budget then belongs to that unit."""
        return self._double is not None and self._double < self._session

    async def _heard_of_itself(
        self, broker: aiomqtt.Client, observer: BudgetObserver, payload: bytes, *, is_old: bool
    ) -> None:
        """Note a state that was published in this unit's name.

        Of two units the older one keeps the budget, and the other one has the safe default.
        """
        try:
            said = decode_json(payload, UnitState)
        except ValueError:
            return
        if said.session == self._session or (is_old and said.state == "alive"):
            return
        if said.state == "dead":
            was_younger, self._double, self.problem = self._is_younger, None, None
            await self._say_alive(broker)
            if was_younger:  # The broker repeats retained messages.
                await broker.subscribe(self.name.topic("budget"), qos=1)
            return
        if said.session != self._double:
            self.problem = f"another unit says that it is {self.name}, too: one has to go"
            _log.warning("%s", self.problem)
        self._double = said.session
        if self._is_younger:
            observer.withdrawn(AUTHOR)
        else:
            await self._say_alive(broker)

    async def _say_alive(self, broker: aiomqtt.Client) -> None:
        await self._publish(broker, "state", msgspec.json.encode(self._alive), retain=True)

    async def _tell_profile(self, broker: aiomqtt.Client, observer: BudgetObserver) -> None:
        while True:
            profile = msgspec.json.encode(observer.profile())
            await broker.publish(self.name.topic("profile"), profile, qos=0)
            await asyncio.sleep(_PROFILE_SECONDS)

    async def _publish(
        self, broker: aiomqtt.Client, word: Word, payload: bytes, *, retain: bool = False
    ) -> None:
        topic = self.name.topic(word)
        await broker.publish(topic, payload, qos=1, retain=retain, timeout=_PUBLISH_SECONDS)

    async def _give_up(self, observer: BudgetObserver) -> None:
        """Withdraw the organisation's budget once the broker has been lost for too long."""
        while True:
            await asyncio.sleep(min(1.0, self._broker.lost_after / 4))
            lost_at = self._lost_at
            if lost_at is not None and time.monotonic() - lost_at > self._broker.lost_after:
                observer.withdrawn(AUTHOR)


def _taken(observer: BudgetObserver, payload: bytes) -> UnitAck:
    serial = None
    try:
        budget = budget_of(payload)
        serial = budget.serial
        observer.given(AUTHOR, budget)
    except (EventError, ValueError) as error:
        return UnitAck(serial, accepted=False, reason=str(error))
    return UnitAck(serial, accepted=True)


def remote_of(area: str, path: Path) -> MqttUnit:
    """Return this host as a unit of the organisation whose broker a file describes.

    Raises:
        ValueError: The file or the unit's name is invalid; the message is one sentence.
    """
    broker = read_broker(path)
    return MqttUnit(UnitName(area, broker.unit or socket.gethostname()), broker)
