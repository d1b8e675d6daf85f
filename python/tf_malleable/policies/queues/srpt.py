# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shortest remaining processing time first, for low mean turnaround and makespan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, takewhile
from operator import attrgetter
from statistics import fmean, median_low
from typing import Final, NamedTuple

from tf_malleable.model import Job, Shape
from tf_malleable.policies.queues.backfill import OVERTAKING_RUN_TIMES, OVERTAKING_SECONDS
from tf_malleable.policies.queues.makespan import (
    equal_speeds,
    least_enough,
    progress,
    shadow_prices,
)
from tf_malleable.policies.queues.orders import arrival
from tf_malleable.policies.queues.remaining_work import (
    USUAL_SECONDS,
    expected_left,
    geometric_step,
    remaining_work,
    steps_left,
)
from tf_malleable.policies.queues.speedup import Curve, fit
from tf_malleable.policies.queues.turnaround import bundle_size, elasticity, hand_out, prices
from tf_malleable.policies.shares.core_counts import CountingPolicy, Decision, least, present
from tf_malleable.policies.shares.max_min_shares import fill
from tf_malleable.policies.shares.placement import first_started

_SHORTEST_REVIEW_SECONDS = 0.1
# Assumed while no job's speed-up is known: with all n cores of a machine, a job is n / (1 + _LOSS)
# times as fast as with one. It is derived: above 2/3, two such jobs share two cores; with less, the
# first would get both, although nothing is known of either.
_LOSS: Final = 0.7
# Probability that a program computes of whose start nothing is known: nothing tells either way.
_COMPUTES: Final = 0.5
# Jobs that take even longer are held up by other things than each other.
_MOST_SLOWDOWN: Final = 100.0
# A speed is known after the second in which a job settles, and two reports; a step takes twice as
# long with half the cores, and two of them may be needed.
_TRIAL_SECONDS: Final = 3.0
_TRIAL_STEPS: Final = 4.0


@dataclass(frozen=True)
class Constants:
    """What is neither measured nor derived; `benchmarks.streams.sensitivity` varies each.

    Attributes:
        urgency: The weight of a job's speed is this power of its price. With 1, cores go where
            they shorten the turnarounds of the present jobs most. But other jobs keep arriving,
            and the work left is an estimate: so differences count less. With 0 all jobs would
            count alike.
        later: Part of the jobs yet to arrive that wait longer if the present ones end later. Most
            do not, as they are shorter than what will be left.
        noise: Relative differences up to this, above 0, are taken for noise: pausing and moving
            cores is not free. Lengths are compared on a scale with steps of this: on one step, jobs
            are served in order of arrival. No core moves while no job would gain or lose a larger
            part of its cores. And the makespan may come nearer more slowly than under equal shares
            by such a part.
        usual_seconds: Length assumed for a job of unknown length until it has run for longer.
    """

    urgency: float = 0.5
    later: float = 0.4
    noise: float = 0.05
    usual_seconds: float = USUAL_SECONDS


USUAL: Final = Constants()


class SrptPolicy(CountingPolicy):
    """Shortest remaining work first; longer jobs are paused for shorter ones.

    Remaining work is the number of remaining steps times the seconds a step takes on one
    core. For a job that reports no steps, it is the run time of earlier runs of the same
    command less the time it has run. Without earlier runs, or after that time, a job is
    assumed to have as much left as it has run, and at least 30 s: new jobs run before long
    ones and so report soon. Only jobs whose length is known are paused: a server, or a
    script that reports nothing, runs on with at least min.

    Cores go where they add most speed, weighted by the price of each job: how much the sum of
    turnarounds falls with a second of its work (see `turnaround`), and how much the makespan does
    (see `makespan`), the more so the busier the machine has been, until it falls about as fast as
    under equal shares. The less work a job has left than others, the higher its price, unless the
    last jobs would end late for it; jobs of unknown length have their mean price. A program that
    takes as long as its earlier runs to begin its first step needs one core until then; if nothing
    is known of its start, other cores count half.
    Where a core would add as much to several jobs, the one that came first gets it. Each running
    job has at least min. A job of higher priority counts as shorter than any of lower priority. A
    job that has been without cores for more than ten minutes plus three times its length is late:
    late jobs go before all others, in order of arrival, each point of priority counting as a minute
    earlier. A job whose min does not fit beside shorter ones that leave cores idle goes before them
    if that makes them wait less than it would wait.

    A job that has the machine to itself and whose speed is known with one number of cores only gets
    half of them for some seconds, if that costs less than noise would.

    Work-conserving otherwise: no core is idle while a running job below max is expected to be
    faster with it, or the next in the queue would fit. Starves no job.

    Args:
        constants: Constants of the policy.
    """

    preempts = True

    def __init__(self, constants: Constants = USUAL) -> None:
        self._constants = constants

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        fitting = [job for job in jobs if job.shape.min <= cores]
        assumed = _assumed(fitting, cores, self._constants)
        entries = _ranked(fitting, assumed, now)
        ranked = [entry.job for entry in entries]
        usable = [entry.usable for entry in entries]
        best = _best(entries, usable, cores, now, self._constants)
        counts = _admitted(entries, best, usable, cores)
        wide = _left_out(entries, counts, cores)
        if wide is not None:
            first = _admitted(entries, best, usable, cores, wide)
            seconds = {
                entry.job.id: entry.left / entry.curve.speedup(most)
                for entry, most in zip(entries, usable, strict=True)
                if entry.job.id in counts or entry is entries[wide]
            }
            paused = [entry for entry in entries if entry.job.id in counts.keys() - first.keys()]
            # While cores are idle, all jobs fall behind.
            idle = 1.0 - sum(counts.values()) / cores
            if _goes_first(entries[wide], paused, seconds, 1.0 + idle * len(entries)):
                counts = first
        _share_out(entries, counts, cores)
        review_at = _review_at(entries, counts, now, assumed.factor)
        if len(entries) == 1 and counts:
            (only,) = entries
            counts[only.job.id], review_at = _try_fewer(
                only, counts[only.job.id], now, self._constants.noise
            )
        return Decision(_steadied(ranked, counts, self._constants.noise), review_at)


def _best(
    entries: Sequence[_Entry], usable: Sequence[int], cores: int, now: float, constants: Constants
) -> list[int]:
    """Return how many cores each job gets where they add most, whatever its min.

    The price of the makespan is the number of jobs that would wait for its end; or a lower one, if
    with that the end already comes nearer as fast as under equal shares, but for noise.
    """
    curves = [entry.curve for entry in entries]
    odds = [_computes(entry.job) for entry in entries]
    arrivals = [entry.job.submitted for entry in entries]
    found = prices(curves, usable, cores)
    growths = shadow_prices([entry.left for entry in entries], curves, usable, cores)

    def handed_out(makespan_price: float, chosen: slice, cores: int) -> list[int]:
        both = [
            price + makespan_price * growth
            for price, growth in zip(found[chosen], growths[chosen], strict=True)
        ]
        return hand_out(
            curves[chosen],
            usable[chosen],
            cores,
            _weights(entries[chosen], both, constants.urgency),
            odds[chosen],
            arrivals[chosen],
        )

    # Every n-th job, with the last one, and n times fewer cores need the same price.
    bundle = bundle_size(len(entries))
    sample, few = slice((len(entries) - 1) % bundle, None, bundle), max(1, cores // bundle)

    equal = equal_speeds(curves[sample], usable[sample], few)
    enough = (1.0 - constants.noise) * progress(growths[sample], equal)

    def is_enough(makespan_price: float) -> bool:
        counts = handed_out(makespan_price, sample, few)
        return progress(growths[sample], map(Curve.speedup, curves[sample], counts)) >= enough

    makespan_price = 0.0
    if not is_enough(makespan_price):
        most = constants.later * _delayed(entries, usable, cores, now)
        makespan_price = least_enough(is_enough, most)
    return handed_out(makespan_price, slice(None), cores)


def _computes(job: Job) -> float:
    """Return the probability that a program uses more than one core if it has more.

    Until its first step it imports and builds on one core.
    """
    if job.steps_done is None and job.startup_seconds is None:
        return _COMPUTES
    return 0.0 if _starting_seconds(job) > 0.0 else 1.0


def _starting_seconds(job: Job) -> float:
    """Return for how long a program will need no second core; 0 if not known to start."""
    # Some prepare their data with many processes first.
    if job.steps_done is not None or job.startup_seconds is None or round(job.used_cpus or 0.0) > 1:
        return 0.0
    return max(0.0, job.startup_seconds - job.run_seconds)


def _delayed(entries: Sequence[_Entry], usable: Sequence[int], cores: int, now: float) -> float:
    """Return how many later jobs a second delays in which all cores do nothing.

    It delays the n present ones and all that arrive until the machine has caught up. It does so in
    two ways, whose rates add up:

    - It has spare capacity. If what arrives needs a part r of it, n r / (1 - r) more are delayed.
      How large r is shows in the present jobs: of jobs that share a machine, each takes
      1 / (1 - r) times as long as alone (M/G/1 with processor sharing; Kleinrock, "Time-shared
      systems: a theoretical treatment", Journal of the ACM, 1967). If no job tells what it has
      done, r is taken for a half.
    - The more jobs there are, the more it does, as each has fewer cores. If it does a part e / n
      more with one more job (see `elasticity`), n (1 - e) / e more are delayed (the fluid limit:
      a backlog of δ jobs falls by e δ / n of the jobs that end per second, who are as many as
      arrive).
    """
    crowding = elasticity([entry.curve for entry in entries], usable, cores)
    worked = slowed = 0.0
    for entry, most in zip(entries, usable, strict=True):
        age = now - entry.job.submitted
        steps = entry.job.steps_done or 0.0
        if steps > 0.0 and age > 0.0:
            # Steps may have been done before, as by a program that goes on from a checkpoint.
            alone = min(age, steps * entry.curve.one / entry.curve.speedup(min(most, cores)))
            # Jobs count by their work: one that has been idle for days, as a notebook, by little.
            worked += alone
            slowed += alone * alone / age
    slowdown = min(_MOST_SLOWDOWN, worked / slowed) if slowed > 0.0 else 2.0
    if slowdown <= 1.0 or crowding >= 1.0:
        return 0.0
    return len(entries) / (1.0 / (slowdown - 1.0) + crowding / (1.0 - crowding))


def _weights(entries: Sequence[_Entry], found: Sequence[float], urgency: float) -> list[float]:
    """Return the weight of each job's speed, from its price."""
    weights: list[float] = []
    # Only differences of length are evened out, not those of priority.
    for _, each in groupby(entries, key=_group):
        known = [entry.is_known for entry in each]
        its = found[len(weights) : len(weights) + len(known)]
        top = its[0]
        # Nothing tells which of the jobs of unknown length ends first.
        unknown = [price for price, is_known in zip(its, known, strict=True) if not is_known]
        usual = fmean(unknown) if unknown else top
        # There are far fewer prices than jobs.
        evened = {price: top * (price / top) ** urgency for price in {*its, usual}}
        weights += [
            evened[price if is_known else usual] for price, is_known in zip(its, known, strict=True)
        ]
    return weights


def _left_out(entries: Sequence[_Entry], counts: dict[str, int], cores: int) -> int | None:
    """Return the index of the first job that lacks cores although pauses would make room.

    None if all cores are in use, or if no pauses would make room for any job.
    """
    if sum(counts.values()) == cores:
        return None
    could = cores - sum(
        entry.job.shape.min
        for entry in entries
        if not entry.may_be_paused and entry.job.state == "running"
    )
    for index, entry in enumerate(entries):
        if entry.job.id not in counts and entry.job.shape.min <= could:
            return index
    return None


def _goes_first(
    wide: _Entry, others: Sequence[_Entry], seconds: Mapping[str, float], cost: float
) -> bool:
    """Return whether a job goes before others that leave cores idle.

    By Smith's rule ("Various optimizers for single-stage production", 1956) the others go
    first if they take less time than all of them would wait.

    Args:
        wide: The job.
        others: Jobs that could not run beside it.
        seconds: Run time of each job, by id.
        cost: Cost of a second in which only the others run; above 1, as all jobs end later.
    """
    if not others or any(other.group < wide.group for other in others):
        # One of the others is late or has a higher priority.
        return False
    longest = max(seconds[other.job.id] for other in others)
    return longest * cost > len(others) * seconds[wide.job.id]


def _share_out(entries: Sequence[_Entry], counts: dict[str, int], cores: int) -> None:
    """Share out evenly the cores that no job is known to benefit from yet."""
    if sum(counts.values()) < cores:
        # It is not known which starting job will be the first to compute.
        jobs = [
            replace(job, shape=Shape(has, has, max(has, entry.limit)))
            for entry in entries
            if (has := counts.get((job := entry.job).id)) is not None
        ]
        counts.update(fill(jobs, [1.0] * len(jobs), cores))


def _try_fewer(entry: _Entry, count: int, now: float, noise: float) -> tuple[int, float | None]:
    """Return how many cores a job gets that has the machine to itself, and when to look again.

    Half of them if nothing tells whether the other half helps: many programs are as fast with fewer
    cores, or faster. The trial ends when their speed is measured, and without that after twice
    the time that it should take; the next one then begins after as long as the job has run before.
    """
    job = entry.job
    if len(job.rates) != 1 or job.steps_done is None or job.state != "running" or job.elastic:
        return count, None
    ((cores, speed),) = job.rates
    fewer, has, seconds = cores // 2, present(job), _TRIAL_SECONDS + _TRIAL_STEPS / speed
    if count < cores or fewer < job.shape.min:
        return count, None
    if has == fewer and job.resized is not None:
        ends = job.resized + 2.0 * seconds
        return (fewer, ends) if now < ends else (count, None)
    if seconds / 2.0 > noise * entry.left / entry.curve.speedup(cores):
        return count, None  # More than noise would be lost.
    if job.resized is not None:
        # Then the job will have had its cores for half of its run time.
        begins = job.run_seconds - now + 2.0 * job.resized
        if now < begins:
            return count, begins
    return fewer, now + 2.0 * seconds


class _Entry(NamedTuple):  # Sooner made than a frozen dataclass; hundreds are in each decision.
    """A job in the order in which jobs are served.

    Attributes:
        job: The job.
        curve: Speed-up curve.
        is_known: Whether its length is known.
        may_be_paused: Whether its length is known, or was until the job exceeded it.
        is_timed: Whether it is a run time, not a number of steps, that tells so.
        left: Remaining work, in seconds on one core.
        limit: Number of cores with which it is fastest.
        usable: The same, or min once all steps are done.
        is_late: Whether the job has been without cores for too long.
        late_at: Time at which the job becomes late if it gets no cores.
        group: What goes before the length in the order.
        rank: Place in the order; lower goes first.
    """

    job: Job
    curve: Curve
    is_known: bool
    may_be_paused: bool
    is_timed: bool
    left: float
    limit: int
    usable: int
    is_late: bool
    late_at: float
    group: tuple[float, ...]
    rank: tuple[float, ...]


_group: Final = attrgetter("group")
_rank: Final = attrgetter("rank")


def _admitted(
    entries: Sequence[_Entry],
    best: Sequence[int],
    usable: Sequence[int],
    cores: int,
    first: int | None = None,
) -> dict[str, int]:
    """Return the cores of the jobs that run, by id: the best counts as far as they fit.

    Args:
        entries: All jobs, in order.
        best: Best number of cores of each job.
        usable: Maximum number of cores that each job can use.
        cores: Number of cores.
        first: Index of the job that goes before all others that are not late.
    """
    staying = [
        entry.job for entry in entries if not entry.may_be_paused and entry.job.state == "running"
    ]
    counts = least(first_started(staying), cores)
    free = cores - sum(counts.values())
    blocked = False
    for index in _in_turn(entries, best, first):
        entry = entries[index]
        job, is_late = entry.job, entry.is_late
        if not free and not is_late:
            break
        have = counts.get(job.id, 0)
        if not have:
            if job.shape.min > free:
                blocked = blocked or is_late
                continue
            if blocked and not entry.may_be_paused:
                # This job could no longer make room.
                continue
        more = min(max(job.shape.min, best[index]) - have, free)
        if more > 0:
            counts[job.id] = have + more
            free -= more
    for entry, most in zip(entries, usable, strict=True):
        if not free:
            break
        has = counts.get(entry.job.id)
        if has is not None and has < most:
            more = min(free, most - has)
            counts[entry.job.id] = has + more
            free -= more
    return counts


def _in_turn(entries: Sequence[_Entry], best: Sequence[int], first: int | None) -> Iterator[int]:
    """Yield the indices of late jobs and then all others: the first, those chosen, the rest."""
    # Late jobs are the first entries.
    late = sum(1 for _ in takewhile(lambda entry: entry.is_late, entries))
    for part in (range(late), range(late, len(entries))):
        if first is not None and first in part:
            yield first
        yield from (index for index in part if best[index] and index != first)
        yield from (index for index in part if not best[index] and index != first)


def _steadied(ranked: Sequence[Job], counts: dict[str, int], noise: float) -> dict[str, int]:
    """Return the current counts if they are nearly the same and use as many cores."""
    now = {job.id: present(job) for job in ranked if job.state == "running"}
    same = (
        now.keys() == counts.keys()
        and sum(now.values()) == sum(counts.values())
        and all(abs(now[name] - count) <= now[name] * noise for name, count in counts.items())
    )
    return now if same else counts


def _ranked(jobs: Sequence[Job], assumed: _Assumed, now: float) -> list[_Entry]:
    """Return late jobs, then by priority the shortest first, nearly equal ones by arrival."""
    entries = [job.derived(_entry, assumed) for job in jobs]
    # Independent of whether a job runs, so that a decision does not reverse itself.
    return sorted(
        [
            entry if now < entry.late_at else entry.job.derived(_late_entry, assumed)
            for entry in entries
        ],
        key=_rank,
    )


def _entry(job: Job, assumed: _Assumed) -> _Entry:
    """Return the job as it is until it is late."""
    curve = fit(job.rates, assumed.curve)
    left = remaining_work(job, assumed.curve, assumed.usual_seconds)
    steps = steps_left(job)
    limit = max(job.shape.min, curve.fastest(job.shape.max), min(_told_least(job), job.shape.max))
    patience = OVERTAKING_SECONDS + OVERTAKING_RUN_TIMES * (job.run_seconds + left)
    group = (1.0, -job.priority)
    return _Entry(
        job,
        curve,
        is_known=steps is not None or expected_left(job) is not None,
        may_be_paused=steps is not None or job.expected_seconds is not None,
        is_timed=steps is None and job.expected_seconds is not None,
        left=left,
        limit=limit,
        # Once all steps are done, the rest is short and runs on one core.
        usable=job.shape.min if steps == 0.0 else limit,
        is_late=False,
        late_at=job.submitted + job.run_seconds + patience,
        group=group,
        rank=(*group, geometric_step(left, assumed.factor)),
    )


def _told_least(job: Job) -> int:
    """Return the least number of cores of which measured speeds tell; 0 if of any.

    Speeds with nearly as many cores differ by less than noise, and may so seem to be alike.
    """
    counts = [rate.cores for rate in job.rates]
    least = min(counts, default=0)
    return least if max(counts, default=0) < 2 * least else 0


def _late_entry(job: Job, assumed: _Assumed) -> _Entry:
    entry = job.derived(_entry, assumed)
    return entry._replace(is_late=True, group=(0.0,), rank=(0.0, arrival(job)))


class _Assumed(NamedTuple):
    """What is assumed of all jobs.

    Attributes:
        curve: Speed-up curve of those whose own is unknown.
        factor: Factor by which differences of work are more than noise.
        usual_seconds: Length of those of unknown length.
    """

    curve: Curve
    factor: float
    usual_seconds: float


def _assumed(jobs: Sequence[Job], cores: int, constants: Constants) -> _Assumed:
    """Return what is assumed; unknown speed-ups are the median of the known ones."""
    known = [job.derived(_loss, None) for job in jobs if len(job.rates) > 1]
    # Rounded, as what follows from it is kept for each job as long as it is the same; below 1, as
    # the speed-up of a job that never gets a second core stays unknown.
    serial = min(0.9, float(f"{median_low(known):.1g}")) if known else _LOSS / max(1, cores)
    return _kept(serial, 1.0 + constants.noise, constants.usual_seconds)


@lru_cache(maxsize=256)
def _kept(serial: float, factor: float, usual_seconds: float) -> _Assumed:
    return _Assumed(Curve(1.0, serial), factor, usual_seconds)


def _loss(job: Job, _: None) -> float:
    """Return the part of the work that more cores do not shorten."""
    curve = fit(job.rates)
    return curve.contention / curve.one


def _review_at(
    entries: Sequence[_Entry], counts: dict[str, int], now: float, factor: float
) -> float | None:
    """Return when time alone will change which jobs run, or how; None if it will not."""
    times = [
        now + seconds
        for entry in entries
        if entry.job.id in counts and (seconds := _starting_seconds(entry.job)) > 0.0
    ]
    if len(counts) < len(entries):
        times += [
            entry.late_at for entry in entries if not entry.is_late and entry.job.id not in counts
        ]
        # A job of unknown or exceeded length counts as longer the longer it runs.
        times += [
            now
            + (
                expected_left(job)
                or factor ** geometric_step(job.run_seconds, factor) - job.run_seconds
            )
            for job in [entry.job for entry in entries if entry.is_timed and entry.job.id in counts]
        ]
    return max(min(times), now + _SHORTEST_REVIEW_SECONDS) if times else None
