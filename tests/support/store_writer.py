# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes that keep state until something happens to them; run by test_store_faults."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from tests.support.records import ended, live, span
from tf_malleable.controller.state.store import Store, StoreError

TOGETHER = ("1000001", "1000002", "1000003")
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def say(document: object) -> None:
    print(json.dumps(document), flush=True)


def write_for_ever(path: Path) -> None:
    """Give three jobs the same serial number at a time, and say so when it is flushed."""
    store = Store(path)
    serial = max((record.serial for record in store.load()), default=0)
    while True:
        serial += 1
        for number in TOGETHER:
            store.save(live(int(number), serial=serial))
        number = store.next_id()
        store.add_span(span(int(number), serial, serial + 1))
        store.end(number, ended(int(number)))
        store.flush()
        say([serial, number, store.problem])


def fill_up(path: Path) -> None:
    """Keep state while no file may grow, then while they may again."""
    store = Store(path)
    taken = [store.next_id()]
    store.save(live(1))
    store.save(live(2))
    store.set_setting("policy", "equal")
    store.flush()
    say(store.problem)

    # Less than a page: also what is reserved cannot be written to.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, UNLIMITED[1]))
    for serial in range(1, 301):
        store.save(live(1, serial=serial))
        for begin in range(400):
            store.add_span(span(1, serial * 1000.0 + begin, serial * 1000.0 + begin + 1))
        store.flush()
    store.end("2", ended(2))
    store.set_setting("policy", "srpt")
    store.flush()
    say(store.problem)
    say([[record.serial for record in store.load()], [job.id for job in store.history(9)[0]]])
    try:
        while True:
            taken.append(store.next_id())
    except StoreError as error:
        say([str(error), taken])

    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    store.flush()
    say([store.problem, store.next_id()])
    store.close()
    say(store.problem)


def open_when_full(path: Path) -> None:
    """Try to make a state file where there is no room for one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, UNLIMITED[1]))
    try:
        Store(path)
    except StoreError as error:
        say(str(error))


if __name__ == "__main__":
    {"write": write_for_ever, "fill": fill_up, "open": open_when_full}[sys.argv[1]](
        Path(sys.argv[2])
    )
