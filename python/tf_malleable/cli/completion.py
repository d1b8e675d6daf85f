# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm completion: prints a shell completion script; and the values that it offers."""

from __future__ import annotations

import re

import click
from click.shell_completion import CompletionItem, get_completion_class

from tf_malleable.api.schema.job_names import array_base
from tf_malleable.model.errors import OperationError
from tf_malleable.model.units import printable

# The variable that click's scripts set, derived from the program's name.
_VARIABLE = "_TFM_COMPLETE"
# Names that shells take for one word, without quotes.
_WORD = re.compile(r"[\w.@%+,/\[\]-]+")


def complete_jobs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids and names of live jobs that begin with `incomplete`.

    The list is empty without a controller on this host.
    """
    from tf_malleable.api.transport.address import default_socket
    from tf_malleable.api.transport.client import Client

    client = context.params.get("client")
    if isinstance(client, Client) and client.connect is not None:
        return []  # The shell would wait for ssh.
    if not isinstance(client, Client):
        client = Client(default_socket())
    try:
        jobs = client.jobs()
    except OperationError:
        return []
    ids = [(job.id, printable(job.name)) for job in jobs]
    arrays = {base: f"array {base}" for job in jobs if (base := array_base(job.name))}
    named = {job.name: f"job {job.id}" for job in jobs}
    names = [each for each in (arrays | named).items() if _WORD.fullmatch(each[0])]
    return [
        CompletionItem(text, help=about)
        for text, about in ids + names
        if text.startswith(incomplete)
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
