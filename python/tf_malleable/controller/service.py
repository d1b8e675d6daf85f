# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Service: the operations that users and agents may request, with their permission checks.

Each request is checked here and then passed to the reactor. A request that is not
carried out raises a Refusal and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.messages import (
    ControllerInfo,
    CpuInfo,
    JobStatus,
    Outlook,
    Policies,
    PolicyInfo,
    Preview,
)
from tf_malleable.api.schema.power import BudgetRequest, PowerStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import (
    Acknowledgement,
    JobChange,
    LimitsBetween,
    PreviewQuery,
    Progress,
    Submission,
)
from tf_malleable.controller.clock import TimeUnused
from tf_malleable.controller.jobs.job_views import grant_line, job_status
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.jobs.provision import Provision
from tf_malleable.controller.ports import Containers, Power
from tf_malleable.controller.power.power_watch import PowerWatch
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.quotas.quota_check import QuotaCheck
from tf_malleable.controller.requests.arrivals import Arrivals
from tf_malleable.controller.requests.callers import Callers, Sight
from tf_malleable.controller.requests.container_jobs import ContainerJobs
from tf_malleable.controller.requests.encoded_jobs import EncodedJobs
from tf_malleable.controller.requests.history_requests import Histories
from tf_malleable.controller.requests.job_changes import changed, check_cores, with_window
from tf_malleable.controller.requests.job_feed import Feed
from tf_malleable.controller.requests.what_if import Foresight
from tf_malleable.controller.scheduler.admission import Admission
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.scheduler.reasons import Reasons
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import Budget, Machine, ProcessId
from tf_malleable.model.quota import NO_QUOTAS, Quotas
from tf_malleable.model.units import quoted
from tf_malleable.policies import registry
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.limit_schedule import outside_of_windows

_PROTOCOL = 1


@dataclass(frozen=True)
class ServiceParts:
    """Parts of a controller that it may lack.

    Attributes:
        containers: Containers of an engine; None without containers.
        quotas: Quotas of the users.
        provision: Resources to share out other than cores.
        power: Power meter of this host; None if nothing is metered.
        safe: Power budget while there is no other; None for no limit.
        log: File that a controller in the background logs to; None for one in the foreground.
        idle_end: Seconds without jobs and requests after which the controller ends; None for never.
        exempt: Lets the processes of a new job use more CPUs than processes that are no jobs; None
            if these are not limited.
        weights: Weights of the jobs' CPU time; None if jobs have none.
    """

    containers: Containers | None = None
    quotas: Quotas = NO_QUOTAS
    provision: Provision = field(default_factory=Provision)
    power: Power | None = None
    safe: Budget | None = None
    log: str | None = None
    idle_end: float | None = None
    exempt: Callable[[ProcessId], None] | None = None
    weights: CpuWeights | None = None


class Service:
    """The controller without its socket. Not thread-safe: one asyncio loop.

    Attributes:
        share_out: Shares out the CPUs of the given machine from now on.
        power: Power metering and power budgets.
        usage: Requests in progress, and the time since the last one.
        history: Returns the jobs that ended last; see :class:`Histories`.
    """

    def __init__(
        self,
        machine: Machine,
        policy: str | None,
        store: Store,
        version: str,
        parts: ServiceParts | None = None,
    ) -> None:
        """Create a service; start() starts it.

        Args:
            machine: CPUs to share out.
            policy: Name and options of the policy; None for the last one used, or the default.
            store: Persistent state.
            version: Version of tf_malleable, for clients.
            parts: Optional parts; None for none.

        Raises:
            ValueError: Unknown policy or invalid option.
        """
        parts = parts or ServiceParts()
        containers, quotas, provision = parts.containers, parts.quotas, parts.provision
        self._reactor = Reactor(machine, policy, store, containers, quotas, provision)
        self._roster = self._reactor.roster
        self._roster.exempt = parts.exempt
        self._cpu_weights = "" if parts.weights is None else parts.weights.text
        if parts.weights is not None:
            self._reactor.weigh(parts.weights)
        self._callers = Callers(self._roster)
        self._histories = Histories(self._reactor, store)
        self._foresight = Foresight(self._reactor)
        self._quota_check = QuotaCheck(quotas)
        self._admission = Admission(
            lambda: self._reactor.machine,
            store,
            provision,
            self._quota_check,
            lambda: [live.record for live in self._roster.live.values()],
        )
        self._arrivals = Arrivals(self._reactor, self._callers, self._admission, store)
        self._containers = (
            None
            if containers is None
            else ContainerJobs(self._reactor, self._admission, containers)
        )
        self.power = PowerWatch(
            parts.power,
            self._roster.live,
            self._reactor.now,
            self._reactor.instruments,
            shared=lambda: len(self._reactor.machine.cpus),
            react=self._reactor.react_soon,
            default=parts.safe,
        )
        self._reactor.limited = self.power.limited
        self._encoded = EncodedJobs(self._reactor)
        self._feed = Feed(self._reactor, self._encoded, self.info, self.power.profile)
        self._store = store
        self._version = version
        self._started = self._reactor.now()
        self.usage = TimeUnused(self._reactor.now)
        self._log, self._idle_end = parts.log, parts.idle_end
        self.share_out = self._reactor.share_out
        self.history = self._histories.history

    async def start(self) -> None:
        """Adopt the running jobs of an earlier controller, and start."""
        await self._reactor.start()
        if self._containers is not None:
            await self._containers.start()
        await self.power.start()

    async def close(self) -> None:
        """Release all jobs; suspended ones continue, as without a controller."""
        await self.power.close()
        self._feed.close()
        await self._reactor.close()
        if self._containers is not None:
            await self._containers.close()

    async def saved(self) -> None:
        """Return once all changes so far would survive a crash of the controller.

        The method also returns if the state file cannot be written; info() reports that.
        """
        await self._reactor.saved()

    def metrics(self) -> bytes:
        """Return metrics in Prometheus' text format."""
        return self._reactor.instruments.render(self._roster.live.values())

    def info(self) -> ControllerInfo:
        """Return the controller's version, policy, CPUs and problems."""
        return ControllerInfo(
            version=self._version,
            protocol=_PROTOCOL,
            pid=os.getpid(),
            started=self._started,
            policy=self._reactor.policy,
            cpus=[CpuInfo(cpu.id, cpu.core, cpu.node) for cpu in self._reactor.machine.cpus],
            problem=self._reactor.problem or self._store.problem,
            gpus=list(self._reactor.provision.gpus),
            max_running=self._reactor.provision.most_jobs,
            user=user_name(os.geteuid()),
            log=self._log,
            idle_end=self._idle_end,
            cpu_weights=self._cpu_weights,
        )

    def is_past_use(self) -> bool:
        """Return whether the controller is to end, as it has had no jobs and requests for so long.

        To be called now and then, as jobs also end without a request.
        """
        if self._idle_end is None:
            return False
        if self._roster.live:
            self.usage.note()
        return self.usage.unused_seconds() >= self._idle_end

    async def meet(self, peer: Peer) -> None:
        """Get to know the container of a caller if it has just started; before any other call."""
        if self._containers is not None:
            await self._containers.meet(peer.pid)

    def sight(self, peer: Peer) -> Sight:
        """Return the filter for the answers of jobs(), status() and history() to a caller."""
        return self._callers.identify(peer).sight

    def jobs(self) -> list[JobStatus]:
        """Return all live jobs, in order of arrival."""
        now = self._reactor.now()
        why = Reasons(self._reactor, now).of
        return [job_status(live, now, reason=why(live)) for live in self._roster.live.values()]

    def encoded_jobs(self, peer: Peer) -> bytes:
        """Return all live jobs as JSON, as the caller may see them.

        Durations and measured values may be a quarter of a second old.
        """
        return self._encoded.answer(self.sight(peer))

    def events(self, peer: Peer) -> AsyncGenerator[bytes, None]:
        """Yield a line with all live jobs, then lines of changes, as the caller may see them."""
        return self._feed.follow(self.sight(peer))

    def status(self, job: str) -> JobStatus:
        """Return one live job."""
        live, now = self._find(job), self._reactor.now()
        return job_status(live, now, reason=Reasons(self._reactor, now).of(live))

    def submit(self, peer: Peer, submission: Submission) -> tuple[JobStatus, bool]:
        """Make the caller a job, or find its job; return it, and whether it is new."""
        return self._arrivals.submit(peer, submission)

    async def submit_soon(self, peer: Peer, submission: Submission) -> tuple[JobStatus, bool]:
        """Do the same as submit(), but serve other requests while the kernel is slow."""
        group = await self._arrivals.prepare(peer, submission)
        return self._arrivals.submit(peer, submission, group)

    async def take(self, peer: Peer, container: str) -> tuple[JobStatus, bool]:
        """Make a container a job, or find its job.

        Returns:
            The job, and whether it is new.
        """
        caller = self._callers.identify(peer)
        caller.check_unconfined()
        if self._containers is None:
            raise Refusal(
                409,
                "this controller has no container support: pip install docker, and restart it",
            )
        found = await self._containers.find(container)
        if peer.uid not in (0, found.uid):
            raise Refusal(403, f"the container {found.info.name} belongs to another user")
        live, new = self._containers.take(found)
        return job_status(live, self._reactor.now()), new

    def _find(self, job: str) -> LiveJob:
        live = self._roster.live.get(job)
        if live is None:
            raise Refusal(404, f"there is no live job {quoted(job)}")
        return live

    def _find_own(self, peer: Peer, job: str) -> LiveJob:
        live = self._find(job)
        self._callers.identify(peer).check_may_change(live)
        return live

    def _find_from_inside(self, peer: Peer, job: str) -> LiveJob:
        live = self._find(job)
        if peer.pid not in live.delivery.agents and self._callers.identify(peer).job is not live:
            raise Refusal(403, f"process {peer.pid} is not part of job {job}")
        return live

    def set_cores(self, peer: Peer, job: str, cores: int | None) -> JobStatus:
        """Set a job's number of cores by hand; None returns it to the policy."""
        live = self._find_own(peer, job)
        check_cores(self._reactor, self._quota_check, live, cores)
        return self._amended(live, replace(outside_of_windows(live.record), by_hand=cores))

    def preview(self, peer: Peer, job: str, query: PreviewQuery) -> Preview:
        """Return the jobs whose number of cores would change if a person changed a job."""
        live = self._find_own(peer, job)
        if query.change == "cores":
            check_cores(self._reactor, self._quota_check, live, query.cores or None)
        return self._foresight.preview(live, query)

    def preview_policy(self, spec: str) -> Preview:
        """Return the jobs whose number of cores would change with another policy."""
        return self._foresight.preview_policy(spec)

    async def outlook(self, peer: Peer, job: str) -> Outlook:
        """Return why a job has no cores, and when it is expected to have some."""
        live = self._find_own(peer, job)
        return await self._foresight.outlook(live, self._callers.identify(peer))

    def change(self, peer: Peer, job: str, change: JobChange) -> JobStatus:
        """Change what a job asks for."""
        live = self._find_own(peer, job)
        usual, cpus = outside_of_windows(live.record), len(self._reactor.machine.cpus)
        record = changed(usual, change, cpus)
        if record.slo is not None and record.slo != usual.slo:
            self._admission.check_slo(record.slo, record.shape, record.id)
        return self._amended(live, record)

    def schedule(self, peer: Peer, job: str, asked: LimitsBetween) -> JobStatus:
        """Limit a job inside a time window; outside of it, its other limits hold."""
        live = self._find_own(peer, job)
        usual, cpus = outside_of_windows(live.record), len(self._reactor.machine.cpus)
        record = with_window(usual, asked, cpus)
        if asked.cores is not None:
            self._quota_check.by_hand(usual, asked.cores)
        return self._amended(live, record)

    def unschedule(self, peer: Peer, job: str) -> JobStatus:
        """Forget all time windows of a job's limits."""
        live = self._find_own(peer, job)
        return self._amended(live, replace(outside_of_windows(live.record), schedule=()))

    def pause(self, peer: Peer, job: str) -> JobStatus:
        """Take a job's cores away until it is resumed."""
        live = self._find_own(peer, job)
        return self._amended(live, replace(live.record, held=True))

    def resume(self, peer: Peer, job: str) -> JobStatus:
        """Let the policy give a paused job cores again."""
        live = self._find_own(peer, job)
        return self._amended(live, replace(live.record, held=False))

    def cancel(self, peer: Peer, job: str) -> JobStatus:
        """End a job: SIGTERM, first to its main process, and SIGKILL after 10 seconds."""
        live = self._find_own(peer, job)
        self._reactor.cancel(live)
        return job_status(live, self._reactor.now())

    def _amended(self, live: LiveJob, record: Record) -> JobStatus:
        self._reactor.amend(live, record)
        return job_status(live, self._reactor.now())

    def acknowledge(self, peer: Peer, job: str, acknowledgement: Acknowledgement) -> None:
        """Record that a process of a job has carried out a grant."""
        live = self._find_from_inside(peer, job)
        if acknowledgement.serial > live.record.serial:
            raise Refusal(409, f"job {job} has had no grant {acknowledgement.serial} yet")
        self._reactor.acknowledge(live, peer.pid, acknowledgement.serial)

    def progress(self, peer: Peer, job: str, progress: Progress) -> None:
        """Record an agent's progress report."""
        live = self._find_from_inside(peer, job)
        if progress.steps_done is not None:
            live.report(peer.pid, progress.steps_done, progress.steps_total, self._reactor.now())
        if progress.regions is not None:
            live.report_regions(peer.pid, progress.regions, self._reactor.now())
        if progress.elastic is not None:
            live.measured.note_elastic(peer.pid, progress.elastic)
        requests = progress.requests
        if requests is not None and live.note_requests(peer.pid, requests, self._reactor.now()):
            self._reactor.react_soon()
        live.measured.usage.reading = progress.reading or live.measured.usage.reading

    async def watch(
        self, peer: Peer, job: str, *, splits: bool = False
    ) -> AsyncGenerator[GrantLine, None]:
        """Yield a job's grant now and whenever it changes, until the job ends.

        A caller inside the job is expected to acknowledge each grant; with `splits`, also to split
        it among the job's other processes.
        """
        live = self._find(job)
        inside = self._callers.identify(peer).job is live
        if inside:
            self._reactor.connect(live, peer.pid, splits=splits)
        news = live.delivery.streams.open()
        try:
            while not live.over:
                news.clear()
                yield grant_line(live)
                await news.wait()
        finally:
            live.delivery.streams.close(news)
            if inside and not live.over:
                self._reactor.disconnect(live, peer.pid)

    def policies(self) -> Policies:
        """Return the policy in force and all available ones."""
        return Policies(
            self._reactor.policy, [PolicyInfo(*entry) for entry in registry.available()]
        )

    def set_policy(self, peer: Peer, spec: str) -> Policies:
        """Switch to another policy."""
        caller = self._callers.identify(peer)
        caller.check_unconfined()
        if not caller.is_administrator:
            raise Refusal(403, "only root or the controller's user may change the policy")
        try:
            self._reactor.choose(spec)
        except ValueError as error:
            raise Refusal(400, str(error)) from None
        return self.policies()

    def set_budget(self, peer: Peer, request: BudgetRequest) -> PowerStatus:
        """Set or withdraw a power budget."""
        return self.power.change(self._callers.identify(peer), request)

    async def encoded_history(
        self, peer: Peer, limit: int, spans: bool, since: float = 0.0
    ) -> list[bytes]:
        """Return history() as JSON in pieces, as the caller may see it, without blocking others."""
        return await self._histories.encoded(self._callers.identify(peer), limit, spans, since)
