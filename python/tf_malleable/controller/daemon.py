# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Daemon: the controller as a process.

Policy, CPUs, quotas, socket, port, state file and claims of other controllers are checked, in this
order, before any job is touched.
"""

from __future__ import annotations

import asyncio
import gc
import grp
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from tf_malleable.api.transport.address import default_listening_socket
from tf_malleable.controller.clock import until_next
from tf_malleable.controller.http.application import application, metrics_application
from tf_malleable.controller.http.server import REQUESTS, Server
from tf_malleable.controller.http.unix_socket import ListenError, UnixListener
from tf_malleable.controller.jobs.gpus import parse_gpus
from tf_malleable.controller.jobs.provision import HostMemory, Provision
from tf_malleable.controller.ports import Containers, Power
from tf_malleable.controller.processes import cpu_weights
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.processes.machine_watch import MachineWatch
from tf_malleable.controller.processes.others_limit import (
    OthersLimit,
    lift_left_over,
    parse_slice,
)
from tf_malleable.controller.quotas.quota_file import default_quotas, read_quotas
from tf_malleable.controller.service import Service, ServiceParts
from tf_malleable.controller.state.log_file import LogFile, LogFileError
from tf_malleable.controller.state.store import Store, StoreError, default_state
from tf_malleable.linux import topology
from tf_malleable.linux.cgroups.slice_limit import SliceError
from tf_malleable.linux.cpu_claims import Claim, ClaimError
from tf_malleable.linux.processes.priority import raise_priority
from tf_malleable.linux.service_notifications import notify, watchdog_seconds
from tf_malleable.linux.standard_error import say
from tf_malleable.model import Budget, Machine, format_cpuset, parse_cpuset
from tf_malleable.model.version import __version__
from tf_malleable.policies import registry

_MOST_CONNECTIONS = 16384
_METRICS_CONNECTIONS = 64
_SWITCH_SECONDS = 0.001
_LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """Options of a controller.

    Attributes:
        policy: Name and options of the policy; None for the last one used, or the default.
        cpus: CPUs to share out, such as ``"0-3,7"``; None for all that the process may use.
        socket: Path of the socket to listen on; None for the default.
        group: Name of the group whose members may use the controller; None for only the
            controller's user and root.
        state: State file for jobs and history; None for the default.
        quotas: File with the quotas of users; None for the default file of root's controller.
        keep: Seconds for which the spans of ended jobs are kept; None for as long as the job.
        metrics: TCP port on 127.0.0.1 for Prometheus, 0 for any free one; None for none.
        gpus: Number of GPUs to share out, or ``"auto"`` for all of the host; None for none.
        max_running: Maximum number of jobs that have started and not ended; None for no limit.
        safe_watts: Peak in watts that applies while there is no power budget; None for no limit.
        log: File to log to once the controller listens, of limited size; None for stderr.
        ready: Descriptor to which a line is written once the controller listens; None for none.
        idle_end: Seconds without jobs and requests after which the controller ends; None for never.
        slice: Limit of processes that are no jobs, ``"others=N"``: login users may use N CPUs, and
            jobs the rest; None for no limit.
        cpu_weights: ``"auto"`` gives jobs weights of CPU time as far as this host allows; ``"off"``
            leaves it to the kernel.
        slice_root: Path below the cgroups' mount points at which user.slice is, for tests.
        verbosity: 0 logs only problems; 1 also grants, pauses, ends and policy changes; 2 also
            requests.
    """

    policy: str | None = None
    cpus: str | None = None
    socket: Path | None = None
    group: str | None = None
    state: Path | None = None
    quotas: Path | None = None
    keep: float | None = None
    metrics: int | None = None
    gpus: str | None = None
    max_running: int | None = None
    safe_watts: float | None = None
    log: Path | None = None
    ready: int | None = None
    idle_end: float | None = None
    slice: str | None = None
    slice_root: str | None = None
    cpu_weights: str = "auto"
    verbosity: int = 0


class _StartError(Exception):
    """The controller cannot start; the message is one sentence."""


def run(
    options: Options,
    containers: Callable[[str], Containers] | None = None,
    power: Power | None = None,
) -> int:
    """Run a controller until SIGTERM, SIGINT or, in the foreground, SIGHUP, or until it is idle.

    Args:
        options: Options of the controller.
        containers: Returns the containers of an engine, given the controller's socket;
            None disables containers.
        power: Power meter of this host; None if nothing is metered.

    Returns:
        Exit code: 0 after such a signal; 1 if the controller could not start, with the reason
        on stderr.

    Raises:
        ValueError: An option is invalid.
    """
    _log_to_stderr(options.verbosity)
    if options.policy is not None:
        registry.create(options.policy)
    wanted = None if options.cpus is None else parse_cpuset(options.cpus)
    topology.machine(wanted)  # Refuses CPUs that we may not use.
    if options.metrics is not None and not 0 <= options.metrics <= 65535:
        raise ValueError(f"--metrics must be a port from 0 to 65535, not {options.metrics}")
    others = None if options.slice is None else parse_slice(options.slice)
    group = None if options.group is None else _group_id(options.group)
    parts = ServiceParts(
        quotas=default_quotas() if options.quotas is None else read_quotas(options.quotas),
        provision=_provision(options),
        power=power,
        safe=None if options.safe_watts is None else Budget(options.safe_watts),
        log=None if options.log is None else os.path.abspath(options.log),
        idle_end=options.idle_end,
    )
    with ExitStack() as stack:
        try:
            _raise_limit_of_open_files()
            listener = UnixListener(options.socket or default_listening_socket(), group)
            stack.callback(listener.close)
            metrics = None if options.metrics is None else _metrics_socket(options.metrics)
            if metrics is not None:
                stack.callback(metrics.close)
            store = Store(options.state or default_state(), keep_spans=options.keep)
            stack.callback(store.close)
            lift_left_over(store)
            if others is not None:
                limit = OthersLimit(others, wanted, store, options.slice_root)
                stack.callback(limit.close)
                wanted = limit.cpus
                parts = replace(parts, exempt=limit.exempt)
            # First, as it forks, and then there may be another thread.
            allowed = cpu_weights.support() if options.cpu_weights == "auto" else cpu_weights.OFF
            parts = replace(parts, weights=CpuWeights(allowed))
            raise_priority()
            watch = MachineWatch(wanted)
            claim = Claim(watch.machine().cpuset, str(listener.path))
            stack.callback(claim.close)
            if claim.problem is not None:
                _log.warning("%s", claim.problem)
            log = None if options.log is None else LogFile(options.log)
            if log is not None:
                stack.callback(log.close)

            async def started() -> Service:
                found = containers and containers(os.path.abspath(listener.path))
                plugged = replace(parts, containers=found)
                service = Service(watch.machine(), options.policy, store, __version__, plugged)
                try:
                    await service.start()
                except OSError as error:
                    raise _StartError(
                        f"cannot take over the jobs in {store.path}: {error.strerror or error}"
                    ) from None
                return service

            asyncio.run(_serve(started, watch, listener, claim, metrics, log, options.ready))
        except (
            _StartError,
            ListenError,
            StoreError,
            ClaimError,
            LogFileError,
            SliceError,
        ) as error:
            say(f"tfm controller: {error}")
            return 1
    return 0


def _group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ValueError(f"--group must be a group of this host, not {name!r}") from None


def _provision(options: Options) -> Provision:
    most = options.max_running
    if most is not None and most < 1:
        raise ValueError(f"--max-running must be a number from 1 on, not {most}")
    return Provision(HostMemory(), parse_gpus(options.gpus), most)


async def _serve(
    started: Callable[[], Awaitable[Service]],
    watch: MachineWatch,
    listener: UnixListener,
    claim: Claim,
    metrics: socket.socket | None,
    log: LogFile | None,
    ready: int | None,
) -> None:
    stop = asyncio.Event()
    _on_signal(stop)
    machine = watch.machine()
    service = await started()
    servers = []

    def share_out(machine: Machine) -> None:
        claim.update(machine.cpuset)
        service.share_out(machine)

    following = asyncio.create_task(watch.follow(share_out))
    try:
        app = application(service)
        servers.append(await Server.start(app, listener.socket, _most_connections()))
        if metrics is not None:
            app = metrics_application(service)
            servers.append(await Server.start(app, metrics, _METRICS_CONNECTIONS))
        # Other threads read files and histories; this is how long the loop waits for one of them.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Otherwise each garbage collection would scan all modules: 20 ms in which no grant is sent.
        gc.collect()
        gc.freeze()
        if log is not None:
            log.take_over()
        say(_ready(machine, service, listener, metrics))
        notify("READY=1")
        if ready is not None:
            with open(ready, "w") as pipe, suppress(BrokenPipeError):  # Who has asked is gone.
                print(os.getpid(), file=pipe, flush=True)
        await _until(stop, service, log)
        notify("STOPPING=1")
    finally:
        following.cancel()
        # Release jobs before closing their connections: a running service would regard an
        # agent that disconnects as ended, and share out its cores.
        for server in servers:
            server.stop_listening()
        await service.close()
        for server in servers:
            await server.close()


async def _until(stop: asyncio.Event, service: Service, log: LogFile | None) -> None:
    """Wait for the event, or until the service is past use.

    Until then, notify the service manager's watchdog and limit the log file periodically.
    """
    seconds = watchdog_seconds()
    is_to_look = log is not None or service.info().idle_end is not None
    while not stop.is_set():
        pause = min(until_next(_LOOK_SECONDS), seconds or inf) if is_to_look else seconds
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except asyncio.TimeoutError:
            notify("WATCHDOG=1")
            if log is not None:
                log.trim()
            if service.is_past_use():
                say("tfm controller: there have been no jobs and requests for long, so it ends")
                return


def _on_signal(stop: asyncio.Event) -> None:
    numbers = [signal.SIGTERM, signal.SIGINT]
    if _is_in_background():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1)
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def _is_in_background() -> bool:
    """Return whether a shell has started this process in the background of a terminal.

    Then the loss of the terminal must not end it: the jobs in its queue outlive that, too.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # There is no terminal to lose.
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _ready(
    machine: Machine, service: Service, listener: UnixListener, metrics: socket.socket | None
) -> str:
    count = len(machine.cpus)
    line = (
        f"tfm controller: {count} CPU{'' if count == 1 else 's'}"
        f" ({format_cpuset(machine.cpuset)}), policy {service.info().policy},"
        f" listening at {listener.path}"
    )
    if metrics is None:
        return line
    return f"{line}, metrics at http://127.0.0.1:{metrics.getsockname()[1]}/metrics"


def _metrics_socket(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(
            f"cannot listen on port {port} of 127.0.0.1: {reason}; choose another with --metrics"
        ) from None


def _raise_limit_of_open_files() -> None:
    """Raise the soft limit to the hard one: each job and connection is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError) as error:
        raise _StartError(
            f"cannot raise the limit of open files (ulimit -n) to {most}: {error}"
        ) from None


def _most_connections() -> int:
    """Return a limit on connections that leaves enough descriptors for jobs and files."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, most // 2)


def _log_to_stderr(verbosity: int) -> None:
    level = logging.INFO if verbosity else logging.WARNING
    logging.basicConfig(level=level, format="tfm controller: %(message)s")
    REQUESTS.setLevel(logging.INFO if verbosity > 1 else logging.WARNING)
