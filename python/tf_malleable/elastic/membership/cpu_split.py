# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which of the granted CPUs each worker on a host gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def split(
    cpus: Sequence[int],
    workers: Sequence[str],
    had: Mapping[str, frozenset[int]],
    most: int | None = None,
) -> dict[str, frozenset[int]]:
    """Return the CPUs of each worker: disjoint, and for none more than one more than for others.

    A worker keeps what it had as far as possible, so that its data stay in its caches. If there are
    fewer CPUs than workers, some share one.

    Args:
        cpus: The granted CPUs, each next to those that it shares caches with; at least one.
        workers: Names of the workers, in the order in which they began.
        had: What they have had, by name.
        most: Most CPUs that a worker can use; None for any number.
    """
    if len(cpus) < len(workers):
        return {name: frozenset({cpus[n % len(cpus)]}) for n, name in enumerate(workers)}
    granted = frozenset(cpus)
    kept = {name: had.get(name, frozenset()) & granted for name in workers}
    each, more = divmod(len(cpus), max(1, len(workers)))
    by_had = sorted(workers, key=lambda name: -len(kept[name]))
    sizes = {name: each + (place < more) for place, name in enumerate(by_had)}
    if most is not None:
        sizes = {name: min(size, most) for name, size in sizes.items()}
    found: dict[str, list[int]] = {}
    taken: set[int] = set()
    for name in workers:
        own = [cpu for cpu in cpus if cpu in kept[name] and cpu not in taken]
        found[name] = own[: sizes[name]]
        taken.update(found[name])
    free = [cpu for cpu in cpus if cpu not in taken]
    for name in workers:
        missing = sizes[name] - len(found[name])
        found[name] += free[:missing]
        del free[:missing]
    return {name: frozenset(mine) for name, mine in found.items()}
