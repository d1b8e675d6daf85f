# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Organiser: shares an organisation's budget out to the units of an area, and follows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import aiomqtt

from tf_malleable.api.validation import decode_json
from tf_malleable.model import Budget, PowerCurve
from tf_malleable.power.units.broker import Broker, client
from tf_malleable.power.units.event import event_of
from tf_malleable.power.units.topics import ROOT, UnitAck, UnitName, UnitState, named
from tf_malleable.scheduling.energy.water_fill import PowerHost, water_fill, with_floors

# Units that come and go within this time lead to one new share-out.
_SETTLE_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownUnit:
    """Knowledge about a unit.

    Attributes:
        cpus: Number of CPUs.
        curve: Power curve of the host.
        is_alive: True if the unit is connected.
        budget: Last budget given to the unit; None if there was none.
        acknowledged: Acknowledgement of that budget; None if there was none yet.
    """

    cpus: int
    curve: PowerCurve
    is_alive: bool
    budget: Budget | None = None
    acknowledged: UnitAck | None = None


def shared_out(units: Mapping[str, KnownUnit], watts: float) -> dict[str, float]:
    """Return the watts of each unit that is alive. Pure.

    Jobs of a host whose unit is dead run on without a limit, so the host's full power is set aside.

    What a unit says of its host cannot be checked. Whatever the others say, a unit that is alive
    therefore gets at least half of an equal share, or all that its own host can use.
    """
    alive = {name: unit for name, unit in units.items() if unit.is_alive}
    least = watts / (2 * len(units)) if units else 0.0
    floors = {name: min(unit.curve.full, least) for name, unit in alive.items()}
    aside = sum(unit.curve.full for unit in units.values() if not unit.is_alive)
    left = watts - min(aside, watts - sum(floors.values()))
    hosts = {name: PowerHost(unit.curve, unit.cpus) for name, unit in alive.items()}
    return with_floors(water_fill(hosts, left), floors, left)


class Organiser:
    """Shares a budget out to units. Not thread-safe: one asyncio loop.

    Args:
        broker: The organisation's broker.
        area: The area whose units share the budget.
        budget: The budget; serial numbers are chosen here.
        changed: Called when something has changed.

    Attributes:
        units: Knowledge about the units, by name.
    """

    def __init__(
        self,
        broker: Broker,
        area: str,
        budget: Budget,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.units: dict[str, KnownUnit] = {}
        self._broker, self._area, self._budget, self._changed = broker, area, budget, changed
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Share the budget out until cancelled.

        Raises:
            aiomqtt.MqttError: The connection to the broker is lost.
        """
        async with client(self._broker, None, None) as broker:
            await broker.subscribe([(f"{ROOT}/{self._area}/#", 1)])
            sharing = asyncio.create_task(self._share_out_for_ever(broker))
            try:
                async for message in broker.messages:
                    payload = message.payload if isinstance(message.payload, bytes) else b""
                    self.hear(str(message.topic), payload)
            finally:
                sharing.cancel()

    def hear(self, topic: str, payload: bytes) -> None:
        """Note a unit's message; malformed messages are ignored."""
        found = named(topic)
        if found is None:
            return
        name, word = str(found[0]), found[1]
        try:
            if word == "state":
                self._note_state(name, payload)
            elif word == "ack" and name in self.units:
                ack = decode_json(payload, UnitAck)
                unit = self.units[name]
                if unit.budget is not None and ack.serial == unit.budget.serial:
                    self.units[name] = replace(unit, acknowledged=ack)
                    self._changed()
        except ValueError as error:
            _log.warning("%s says what cannot be read: %s", name, error)

    def _note_state(self, name: str, payload: bytes) -> None:
        if not payload:  # The retained message was removed.
            self.units.pop(name, None)
        else:
            said = decode_json(payload, UnitState)
            known = self.units.get(name)
            if said.state == "alive":
                curve = PowerCurve(tuple(said.curve))
                budget = None if known is None else known.budget
                # A unit repeats its state if another one has used its name: this is not news.
                ack = known.acknowledged if known is not None and known.is_alive else None
                self.units[name] = KnownUnit(said.cpus, curve, True, budget, ack)
            elif known is not None:
                self.units[name] = replace(known, is_alive=False)
        self._news.set()
        self._changed()

    async def _share_out_for_ever(self, broker: aiomqtt.Client) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._news.clear()
            await self.share_out(broker)

    async def share_out(self, broker: aiomqtt.Client) -> None:
        """Give each unit its budget, if it differs from the previous one."""
        now = time.time()
        # Milliseconds, so that serial numbers increase from one organiser to the next.
        serial = int(now * 1000)
        shares = shared_out(self.units, self._budget.watts)
        # Units that get less are told first.
        less: list[Awaitable[None]] = []
        more: list[Awaitable[None]] = []
        for name, watts in shares.items():
            if watts <= 0 or abs(watts - self._had(name)) < 0.05:
                continue
            telling = more if watts > self._had(name) else less
            budget = replace(self._budget, watts=watts, serial=serial)
            self.units[name] = replace(self.units[name], budget=budget, acknowledged=None)
            area, _, unit = name.rpartition("/")
            topic = UnitName(area, unit).topic("budget")
            event = event_of(budget, unit, now)
            telling.append(broker.publish(topic, event, qos=1, retain=True))
        for each in (less, more):
            await asyncio.gather(*each)
        self._changed()

    def _had(self, name: str) -> float:
        budget = self.units[name].budget
        return 0.0 if budget is None else budget.watts
