# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm cluster top: a live view of each job's CPUs on each node."""

from __future__ import annotations

import sys
import time

import click
import msgspec
from rich.console import RenderableType

from tf_malleable.cli import live
from tf_malleable.cli.cluster.connection import Cluster, UnreachableError, namespace_options
from tf_malleable.cli.cluster.job_view import JobView
from tf_malleable.cli.cluster.nodes_view import NodesScene, NodeView, picture
from tf_malleable.cli.options import json_option
from tf_malleable.cli.tables import console


@click.command()
@live.interval_option
@live.once_option
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Show all namespaces.")
@json_option
@namespace_options
def top(cluster: Cluster, interval: float, once: bool, everywhere: bool, as_json: bool) -> None:
    """Show live which MalleableJob has how many CPUs on which node.

    Quit with q or Ctrl-C. In a pipe it prints one view; with --json it prints one line per
    refresh. Nodes are shown only to users who may list them.
    """
    live.check_interval(interval)
    scene = _look(cluster, everywhere)
    if as_json:
        _print_lines(cluster, scene, interval, everywhere, once)
    elif once or not sys.stdout.isatty():
        console().print(picture(scene))
    else:
        _show(cluster, scene, interval, everywhere)


def _look(cluster: Cluster, everywhere: bool) -> NodesScene:
    jobs = [JobView.read(each) for each in cluster.jobs(everywhere=everywhere)]
    nodes = [NodeView.read(each) for each in cluster.nodes()]
    return NodesScene(nodes, jobs, time.time(), namespaces=everywhere)


def _print_lines(
    cluster: Cluster, scene: NodesScene, interval: float, everywhere: bool, once: bool
) -> None:
    while True:
        click.echo(msgspec.json.encode([job.as_json() for job in scene.jobs]))
        if once:
            return
        time.sleep(interval)
        try:
            scene = _look(cluster, everywhere)
        except UnreachableError:
            continue  # The last answer is printed again.


def _show(cluster: Cluster, scene: NodesScene, interval: float, everywhere: bool) -> None:
    last = scene

    def following() -> RenderableType:
        nonlocal last
        try:
            last = _look(cluster, everywhere)
        except UnreachableError as error:
            return picture(last, f"{error}; this is its last answer")
        return picture(last)

    live.show(picture(scene), following, interval)
