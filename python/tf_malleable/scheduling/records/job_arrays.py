# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job arrays: limits how many jobs of an array have started and not ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tf_malleable.scheduling.records.job_record import Record


def held_back(records: Iterable[Record]) -> frozenset[str]:
    """Return the ids of the waiting jobs whose arrays may not start them yet.

    Jobs of an array start in order of arrival. Jobs that a person has paused or cancelled
    before they had cores do not hold up the others.

    Args:
        records: All live jobs, in order of arrival.
    """
    limited = [each for each in records if each.array is not None and each.at_once is not None]
    # Array names are unique per user only.
    taken = Counter((each.uid, each.array) for each in limited if each.state != "waiting")
    late = set()
    for each in limited:
        if each.state != "waiting" or each.held or each.cancelled:
            continue
        array = each.uid, each.array
        if each.at_once is not None and taken[array] >= each.at_once:
            late.add(each.id)
        else:
            taken[array] += 1
    return frozenset(late)
