# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm completion: prints a shell completion script; and the values that it offers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from tf_malleable.api.schema.job_names import array_base
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model.errors import OperationError
from tf_malleable.model.units import printable

if TYPE_CHECKING:
    from tf_malleable.api.schema.history import JobRecord
    from tf_malleable.api.schema.messages import JobStatus

# The variable that click's scripts set, derived from the program's name.
_VARIABLE = "_TFM_COMPLETE"
# Number of ended jobs that are offered.
_ENDED = 20
# Names that shells take for one word, without quotes.
_WORD = re.compile(r"[\w.@%+,/\[\]-]+")


def complete_jobs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids and names of live jobs that begin with `incomplete`.

    The list is empty without a controller on this host.
    """
    return _complete(context, incomplete, ended=0)


def complete_known_jobs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return what complete_jobs() does, and the jobs that have ended last."""
    return _complete(context, incomplete, ended=_ENDED)


def _known(context: click.Context, ended: int) -> Sequence[JobStatus | JobRecord]:
    """Return the live jobs, and these many ended ones; none without a controller on this host."""
    from tf_malleable.api.schema.history import History
    from tf_malleable.api.transport.address import default_socket
    from tf_malleable.api.transport.client import Client

    client = context.params.get("client")
    if isinstance(client, Client) and client.connect is not None:
        return []  # The shell would wait for ssh.
    if not isinstance(client, Client):
        client = Client(default_socket())
    try:
        past = client.get(f"/v1/history?limit={ended}", History).jobs if ended else []
        return [*client.jobs(), *past]
    except OperationError:
        return []


def _complete(context: click.Context, incomplete: str, ended: int) -> list[CompletionItem]:
    jobs = [(job.id, job.name) for job in _known(context, ended)]
    ids = [(number, printable(name)) for number, name in jobs]
    arrays = {base: f"array {base}" for _, name in jobs if (base := array_base(name))}
    named = {name: f"job {number}" for number, name in jobs}
    names = [each for each in (arrays | named).items() if _WORD.fullmatch(each[0])]
    return [
        CompletionItem(text, help=about)
        for text, about in ids + names
        if text.startswith(incomplete)
    ]


def complete_groups(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the groups of the user's live and last ended jobs that begin with `incomplete`.

    The list is empty without a controller on this host.
    """
    user = user_name(os.getuid())
    groups = {each.group for each in _known(context, _ENDED) if each.user == user and each.group}
    return [
        CompletionItem(group)
        for group in sorted(groups)
        if _WORD.fullmatch(group) and group.startswith(incomplete)
    ]


def complete_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return what lets the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_policies(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of policies that begin with `incomplete`, with their summaries."""
    from tf_malleable.policies import registry

    return [
        CompletionItem(name, help=summary)
        for name, summary in registry.available()
        if name.startswith(incomplete)
    ]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, jobs, policies and files in a SHELL.

    \b
    bash: tfm completion bash > ~/.local/share/bash-completion/completions/tfm
    zsh:  tfm completion zsh > FOLDER/_tfm    (a FOLDER of $fpath)
    fish: tfm completion fish > ~/.config/fish/completions/tfm.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "tfm", _VARIABLE).source())
