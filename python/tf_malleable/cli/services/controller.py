# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm controller: runs the host daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tf_malleable.cli.completion import complete_policies
from tf_malleable.cli.messages import report, say
from tf_malleable.linux.service_notifications import is_service
from tf_malleable.model import OperationError
from tf_malleable.policies import registry
from tf_malleable.workload.options import Duration

if TYPE_CHECKING:
    from tf_malleable.controller.ports import Containers, Power

_DETACHED_IDLE_SECONDS = 86400.0

_PATH = click.Path(dir_okay=False, path_type=Path)
# Longest time until the controller listens.
_PATIENCE_SECONDS = 30.0


@click.command()
@click.option(
    "--policy",
    metavar="POLICY",
    shell_complete=complete_policies,
    help="How to share cores; once a controller runs, tfm policy lists all names."
    f"  [default: the last one used, at first {registry.DEFAULT}]",
)
@click.option("--cpus", metavar="LIST", help="CPUs to share, such as 0-3,7.  [default: all]")
@click.option(
    "--socket",
    type=_PATH,
    metavar="PATH",
    help="Socket to listen at.  [default: $TF_MALLEABLE_SOCKET, or the standard path]",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Admit the members of this group, too.  [default: only the controller's user]",
)
@click.option(
    "--state",
    type=_PATH,
    metavar="FILE",
    help="File with jobs and history.  [default: in $XDG_STATE_HOME, or the standard path]",
)
@click.option(
    "--quotas",
    type=_PATH,
    metavar="FILE",
    help="File with the users' quotas.  [default: for root, /etc/tf_malleable/quotas.conf]",
)
@click.option(
    "--keep",
    type=Duration(),
    metavar="TIME",
    default="90d",
    help="Retention of the details of ended jobs, such as 90d or 12h.  [default: 90d]",
)
@click.option(
    "--metrics",
    type=int,
    metavar="PORT",
    help="Also serve /metrics for Prometheus on 127.0.0.1:PORT.",
)
@click.option(
    "--gpus",
    metavar="N|auto",
    help="GPUs to hand out to jobs, or auto for all of the host.  [default: none]",
)
@click.option(
    "--max-running",
    type=int,
    metavar="N",
    help="Start no further job while N jobs have started and not ended.  [default: no limit]",
)
@click.option(
    "--area",
    metavar="AREA",
    help="Meter this host's power, and attribute it to AREA, such as faculty/room-12.",
)
@click.option(
    "--meter",
    metavar="KIND",
    default="auto",
    help="What measures: auto, rapl, hwmon, ipmi or estimate; rapl:FOLDER and replay:FOLDER read"
    " a powercap folder elsewhere.  [default: auto]",
)
@click.option(
    "--power-curve",
    type=_PATH,
    metavar="FILE",
    help="Power curve of this host.  [default: that of tfm power calibrate]",
)
@click.option(
    "--safe-watts",
    type=float,
    metavar="WATTS",
    help="Peak in force while there is no power budget.  [default: no limit]",
)
@click.option(
    "--budgets-from",
    type=_PATH,
    metavar="FILE",
    help="Take budgets from the MQTT broker that FILE names.  [default: only from this host]",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Run in the background, and return once it listens: log to controller.log beside the"
    " state file.",
)
@click.option(
    "--idle-end",
    type=Duration(),
    metavar="TIME",
    help="End after TIME without jobs and requests.  [default: never; with --detach 1d]",
)
@click.option(
    "--slice",
    "slice_",
    metavar="others=N",
    help="Let login users use N CPUs besides their jobs, and jobs the rest; for root, with systemd."
    "  [default: no limit]",
)
@click.option(
    "--cpu-weights",
    envvar="TF_MALLEABLE_CPU_WEIGHTS",
    type=click.Choice(["auto", "off"]),
    default="auto",
    help="Whether jobs weigh as much as their cores where others compute there, too, and borrowers"
    " least: auto, as far as this host allows, or off.  [default: auto]",
)
@click.option("--slice-root", metavar="PATH", hidden=True)
@click.option("-v", "--verbose", count=True, help="Log actions; -vv also logs requests.")
def controller(
    policy: str | None,
    cpus: str | None,
    socket: Path | None,
    group: str | None,
    state: Path | None,
    quotas: Path | None,
    keep: float,
    metrics: int | None,
    gpus: str | None,
    max_running: int | None,
    area: str | None,
    meter: str,
    power_curve: Path | None,
    safe_watts: float | None,
    budgets_from: Path | None,
    detach: bool,
    idle_end: float | None,
    slice_: str | None,
    slice_root: str | None,
    cpu_weights: str,
    verbose: int,
) -> None:
    """Share this machine's CPUs among the jobs that tfm run starts.

    Runs until SIGTERM or Ctrl-C. Jobs continue without it, and the next controller with the
    same state file takes them over. Your jobs of tfm submit that a reboot has interrupted are
    submitted again; see tfm submit.

    The first tfm submit of a user starts one with --detach, if none answers; tfm status
    shows it.
    """
    log = ready = None
    if detach:
        from tf_malleable.cli.services.detached import continue_detached, log_file

        log = log_file(state)
        idle_end = _DETACHED_IDLE_SECONDS if idle_end is None else idle_end
        ready = continue_detached(socket)
    # Imported here because the server library is slow to load.
    from tf_malleable.controller import daemon

    options = daemon.Options(
        policy=policy,
        cpus=cpus,
        socket=socket,
        group=group,
        state=state,
        quotas=quotas,
        keep=keep,
        metrics=metrics,
        gpus=gpus,
        max_running=max_running,
        safe_watts=safe_watts,
        log=log,
        ready=ready,
        idle_end=idle_end,
        slice=slice_,
        slice_root=slice_root,
        cpu_weights=cpu_weights,
        verbosity=verbose,
    )
    power = _power(area, meter, power_curve, budgets_from)
    _resume_stored_jobs(socket, log, ready)
    code = daemon.run(options, _containers(), power)
    if code:
        sys.exit(code)


def _resume_stored_jobs(socket: Path | None, log: Path | None, ready: int | None) -> None:
    """Have a process of its own submit this user's stored jobs again once the controller answers.

    It is started here, as it and the jobs must not inherit the controller's priority. In a service,
    they would be part of the service, and end with it; there the user is told what to do.

    Args:
        socket: Path at which the controller will listen; None for the default.
        log: Log file of a controller in the background, in which the process also writes.
        ready: Descriptor for whoever waits for a controller in the background, but not for jobs.
    """
    from tf_malleable.api.transport.address import NoAnswerError, default_listening_socket
    from tf_malleable.cli.background.outputs import begin_resumption, output_folder
    from tf_malleable.cli.background.stored_job import interrupted_jobs

    path = os.path.abspath(socket or default_listening_socket())
    count = len(interrupted_jobs(output_folder(), path, ()))
    if not count:
        return
    if is_service():
        jobs = "1 job was" if count == 1 else f"{count} jobs were"
        say(f"{jobs} interrupted: tfm submit --resume")
        return
    resuming = begin_resumption()
    child = os.fork()
    if child:
        if resuming is not None:
            os.close(resuming)
        os.waitpid(child, 0)
        return
    code = 1
    try:
        os.setsid()
        # Nobody waits for it, so it must not be a child of the controller.
        if not os.fork():
            from tf_malleable.cli.background.resume import resume
            from tf_malleable.controller.state.log_file import LogFile

            if log is not None:
                LogFile(log).take_over()
            if ready is not None:
                os.close(ready)
            os.dup2(2, 1)
            with suppress(NoAnswerError):  # The controller has not started, and has said why.
                resume(path, resuming, _PATIENCE_SECONDS)
        code = 0
    except (OperationError, OSError) as error:
        code = report(OperationError(str(error)))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _power(
    area: str | None, meter: str, curve: Path | None, budgets_from: Path | None
) -> Power | None:
    """Return the power meter of this host; None if nothing is metered."""
    if area is None:
        if budgets_from is not None:
            raise ValueError("--budgets-from needs --area: budgets are for areas")
        return None
    from tf_malleable.cli.power.curve import default_curve
    from tf_malleable.power.meter_selection import host_power
    from tf_malleable.power.remote import NO_REMOTE, Remote

    remote: Remote = NO_REMOTE
    if budgets_from is not None:
        try:
            from tf_malleable.power.units.unit import remote_of
        except ImportError:
            raise OperationError("aiomqtt is not installed: pip install aiomqtt") from None
        remote = remote_of(area, budgets_from)
    return host_power(area, meter, curve or default_curve(), remote)


def _containers() -> Callable[[str], Containers] | None:
    """Return the factory of this host's containers; None without Docker's SDK."""
    try:
        from tf_malleable.containers.engine_containers import EngineContainers
    except ImportError:
        return None
    return EngineContainers
