# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group tfm cluster, with its commands status and operator."""

from __future__ import annotations

import logging
import time

import click

from tf_malleable.cli.cluster.connection import Cluster, cluster_options, namespace_options
from tf_malleable.cli.cluster.history import gantt, history
from tf_malleable.cli.cluster.install import install
from tf_malleable.cli.cluster.job_tables import details, overview
from tf_malleable.cli.cluster.job_view import JobView
from tf_malleable.cli.cluster.top import top
from tf_malleable.cli.completion import complete_policies
from tf_malleable.cli.options import json_option, print_json
from tf_malleable.cli.tables import console
from tf_malleable.policies.registry import DEFAULT


@click.group()
def cluster() -> None:
    """Run trainings as MalleableJobs in a Kubernetes cluster.

    tfm cluster install sets the operator up; then kubectl apply a MalleableJob, and watch it
    with tfm cluster top.
    """


cluster.add_command(install)
cluster.add_command(top)
cluster.add_command(history)
cluster.add_command(gantt)


@cluster.command()
@click.argument("name", required=False)
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Show all namespaces.")
@json_option
@namespace_options
def status(cluster: Cluster, name: str | None, everywhere: bool, as_json: bool) -> None:
    """Show the MalleableJobs, or all of one: workers, rescales, conditions.

    CPUs and workers are desired (what the job could use), granted (by the policy) and actual
    (in use).
    """
    if name is not None and everywhere:
        raise ValueError("give a NAME or --all-namespaces, not both")
    now = time.time()
    if name is not None:
        found = JobView.read(cluster.job(name))
        if as_json:
            print_json(found.as_json())
            return
        for index, part in enumerate(details(found, now)):
            if index:
                console().print()
            console().print(part)
        return
    jobs = [JobView.read(each) for each in cluster.jobs(everywhere=everywhere)]
    if as_json:
        print_json([each.as_json() for each in jobs])
    elif jobs:
        console().print(overview(jobs, now, namespaces=everywhere))
    else:
        where = "any namespace" if everywhere else f"namespace {cluster.own_namespace()}"
        click.echo(f"there are no MalleableJobs in {where}")


@cluster.command()
@click.option(
    "--policy",
    metavar="POLICY",
    shell_complete=complete_policies,
    default=DEFAULT,
    show_default=True,
    help="Policy that shares CPUs, as of tfm controller.",
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=8080,
    help="Port of /metrics; 0 for any free one.",
)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="Namespace of the operator's lease and key.  [default: its own]",
)
@click.option("--only-in", metavar="NAME", help="Carry out only the jobs of this namespace.")
@click.option("--verbose", "-v", is_flag=True, help="Log each action, too.")
@cluster_options
def operator(
    cluster: Cluster,
    policy: str,
    port: int,
    namespace: str | None,
    only_in: str | None,
    verbose: bool,
) -> int:
    """Run the operator until SIGTERM; in a cluster, its Deployment does.

    Several operators may run at once: one acts, the others wait for its lease.
    """
    from tf_malleable.cluster.main import run
    from tf_malleable.cluster.settings import OperatorSettings

    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("tf_malleable").setLevel(logging.DEBUG if verbose else logging.INFO)
    return run(
        OperatorSettings(
            kubeconfig=cluster.kubeconfig,
            context=cluster.context,
            policy=policy,
            only_in=only_in,
            namespace=namespace,
            port=port,
        )
    )
