# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures a real broker with up to 1000 emulated units on this machine.

Units are real clients with their own connections, in a few processes; hosts are not emulated.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.common.command_line import BenchmarkError
from benchmarks.power.servers import SERVERS
from tf_malleable.api.schema.power import PowerStatus
from tf_malleable.model import Budget, PowerCurve
from tf_malleable.power.units.broker import Broker, client
from tf_malleable.power.units.event import budget_of, event_of
from tf_malleable.power.units.topics import UnitAck, UnitName, UnitState
from tf_malleable.scheduling.energy.water_fill import PowerHost, water_fill

AREA = "study"
_PROCESSES = 2


@dataclass(frozen=True)
class Carried:
    """What was found with a number of units.

    Attributes:
        units: Their number.
        connected: Seconds until all were connected and subscribed.
        rounds: How often each was given a budget.
        p50, p99, most: Milliseconds from the first budget's publication of a round until a
            unit's acknowledgement is with the organiser, by all units and rounds.
        budgets_per_second: Budgets published and acknowledged in a second, all at once.
        broker_mib: The broker's memory with all of them, in MiB.
        broker_kib_per_unit: What it has grown by, for each unit.
        broker_cpu_ms: The broker's CPU time for a budget and its acknowledgement.
        profile_cpu_ms: The broker's CPU time for a profile of a unit.
        profile_bytes: Length of a profile.
        retained_bytes: Length of a unit's retained messages.
        share_out_ms: Time for sharing a budget out to so many hosts.
    """

    units: int
    connected: float
    rounds: int
    p50: float
    p99: float
    most: float
    budgets_per_second: float
    broker_mib: float
    broker_kib_per_unit: float
    broker_cpu_ms: float
    profile_cpu_ms: float
    profile_bytes: int
    retained_bytes: int
    share_out_ms: float


@contextmanager
def mosquitto() -> Iterator[tuple[Broker, psutil.Process]]:
    """Run a broker."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    if program is None:
        raise BenchmarkError("there is no broker: apt-get install mosquitto")
    with tempfile.TemporaryDirectory(prefix="tfm-units-") as folder:
        config = Path(folder, "conf")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "max_inflight_messages 0\nset_tcp_nodelay true\n"
            f"user root\npersistence true\npersistence_location {folder}/\n"
        )
        process = subprocess.Popen(
            [program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            time.sleep(1)
            yield Broker("127.0.0.1", port), psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def unit_name(number: int) -> UnitName:
    """Return the name of a unit."""
    return UnitName(AREA, f"unit-{number}")


def state_of(number: int) -> bytes:
    """Return what a unit says of itself."""
    curve = SERVERS[number % len(SERVERS)].curve
    return msgspec.json.encode(UnitState("alive", f"s{number}", 64, list(curve.points)))


PROFILE = msgspec.json.encode(
    PowerStatus(
        area=AREA,
        meter="RAPL (package-0, package-1)",
        source="measured",
        watts=312.4,
        idle_watts=64.0,
        other_watts=3.1,
        curve=list(SERVERS[4].curve.points),
    )
)


def _emulate(broker: Broker, numbers: Sequence[int], ready: Any, profiles: Any) -> None:  # noqa: ANN401
    asyncio.run(_units(broker, numbers, ready, profiles))


async def _units(broker: Broker, numbers: Sequence[int], ready: Any, profiles: Any) -> None:  # noqa: ANN401
    gate = asyncio.Semaphore(50)
    tasks = [asyncio.create_task(_unit(broker, each, gate, ready, profiles)) for each in numbers]
    await asyncio.gather(*tasks)


async def _unit(
    broker: Broker,
    number: int,
    gate: asyncio.Semaphore,
    ready: Any,  # noqa: ANN401
    profiles: Any,  # noqa: ANN401
) -> None:
    name = unit_name(number)
    async with gate:
        connection = client(broker, f"unit-{number}", None)
        await connection.__aenter__()
        await connection.subscribe(name.topic("budget"), qos=1)
        await connection.publish(name.topic("state"), state_of(number), qos=1, retain=True)
        with ready.get_lock():
            ready.value += 1

    async def tell() -> None:
        told = 0
        while True:
            await asyncio.sleep(0.2)
            while told < profiles.value:
                told += 1
                await connection.publish(name.topic("profile"), PROFILE, qos=0)

    telling = asyncio.create_task(tell())
    async for message in connection.messages:
        budget = budget_of(message.payload)  # type: ignore[arg-type]
        ack = msgspec.json.encode(UnitAck(budget.serial, accepted=True))
        await connection.publish(name.topic("ack"), ack, qos=1)
    telling.cancel()


async def _organise(broker: Broker, units: int, rounds: int) -> tuple[list[float], float]:
    """Return the milliseconds of each acknowledgement, and the time of all rounds."""
    async with client(broker, "organiser", None) as connection:
        await connection.subscribe(f"tfm/v1/{AREA}/+/ack", qos=1)
        taken: list[float] = []
        whole = 0.0
        for number in range(rounds):
            begin, now = time.monotonic(), time.time()
            budget = Budget(300.0, serial=int(now * 1000) + number)

            async def give(unit: int, budget: Budget = budget, now: float = now) -> None:
                name = unit_name(unit)
                event = event_of(budget, name.unit, now)
                await connection.publish(name.topic("budget"), event, qos=1, retain=True)

            giving = asyncio.gather(*(give(unit) for unit in range(units)))
            heard = 0
            async for message in connection.messages:
                ack = msgspec.json.decode(message.payload, type=UnitAck)  # type: ignore[arg-type]
                if ack.serial == budget.serial:
                    taken.append(1000 * (time.monotonic() - begin))
                    heard += 1
                    if heard == units:
                        break
            await giving
            whole += time.monotonic() - begin
    return taken, whole


def measure(units: int, rounds: int) -> Carried:
    """Return what a broker with so many units does."""
    with mosquitto() as (broker, process):
        empty = process.memory_info().rss
        ready, profiles = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
        begin = time.monotonic()
        workers = [
            multiprocessing.Process(
                target=_emulate,
                args=(broker, range(first, units, _PROCESSES), ready, profiles),
                daemon=True,
            )
            for first in range(min(_PROCESSES, units))
        ]
        for worker in workers:
            worker.start()
        while ready.value < units:
            time.sleep(0.02)
        connected = time.monotonic() - begin
        before = _cpu(process)
        taken, whole = asyncio.run(_organise(broker, units, rounds))
        budgets_cpu = _cpu(process) - before
        before, told = _cpu(process), 10
        profiles.value = told
        time.sleep(2 + units / 300)
        profiles_cpu = _cpu(process) - before
        used = process.memory_info().rss
        for worker in workers:
            worker.kill()
            worker.join()
    taken.sort()
    return Carried(
        units,
        round(connected, 2),
        rounds,
        round(taken[len(taken) // 2], 1),
        round(taken[min(len(taken) - 1, int(0.99 * len(taken)))], 1),
        round(taken[-1], 1),
        round(units * rounds / whole),
        round(used / 2**20, 1),
        round((used - empty) / 1024 / units, 1),
        round(1000 * budgets_cpu / units / rounds, 3),
        round(1000 * profiles_cpu / units / told, 4),
        len(PROFILE),
        len(state_of(4)) + len(event_of(Budget(300.0), "unit-4", time.time())),
        round(1000 * share_out(units), 2),
    )


def share_out(units: int) -> float:
    """Return the seconds that it takes to share a budget out to so many hosts."""
    curves: list[PowerCurve] = [server.curve for server in SERVERS]
    hosts = {f"u{each}": PowerHost(curves[each % len(curves)], 64) for each in range(units)}
    begin = time.perf_counter()
    water_fill(hosts, 200.0 * units)
    return time.perf_counter() - begin


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main(arguments: Sequence[str]) -> None:
    """Measure each number of units, and print as JSON."""
    counts = [int(each) for each in arguments] or [50, 200, 1000]
    print(json.dumps([asdict(measure(units, 10)) for units in counts], indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
