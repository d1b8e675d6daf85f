# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Split of a host's granted CPUs among its workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def split(
    cpus: Sequence[int],
    workers: Sequence[str],
    had: Mapping[str, frozenset[int]],
    most: int | None = None,
) -> dict[str, frozenset[int]]:
    """Return the CPUs of each worker: disjoint sets, whose sizes differ by at most one.

    A worker keeps its CPUs as far as possible, so that its data stay in its caches. If there are
    fewer CPUs than workers, some share one.

    Args:
        cpus: Granted CPUs, each next to those that share caches with it; at least one.
        workers: Names of the workers, in order of their start.
        had: Previous CPUs of the workers, by name.
        most: Maximum number of CPUs that a worker can use; None for no limit.
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
