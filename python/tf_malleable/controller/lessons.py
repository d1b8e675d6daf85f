# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job begins with because earlier ones like it have run."""

from __future__ import annotations

from collections.abc import Iterable

from tf_malleable.controller.learned import Lessons, command_key
from tf_malleable.controller.record import Record
from tf_malleable.controller.store import Store
from tf_malleable.model import Rate


def lessons(store: Store, record: Record) -> Lessons:
    """Return what is known of a job before it has run."""
    return Lessons(store.speeds(record.name), store.run_seconds(_command(record)))


def learn(store: Store, record: Record, rates: Iterable[Rate], *, finished: bool) -> None:
    """Remember what a job that has ended leaves to the next.

    Args:
        store: Where.
        record: The job, up to its end.
        rates: The speeds that it reached.
        finished: It came to its end by itself, and well. What failed, or was cancelled,
            says nothing of how long it takes.
    """
    store.learn(record.name, rates)
    if finished:
        store.learn_run_seconds(_command(record), record.run_seconds)


def is_same_command(one: Record, other: Record) -> bool:
    """Return whether two jobs learn the same run time; as their keys, without making these."""
    return (one.name, one.uid, one.command) == (other.name, other.uid, other.command)


def _command(record: Record) -> str:
    return command_key(record.uid, record.name, record.command)
