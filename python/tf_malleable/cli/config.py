# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm config: shows the defaults that are set, and their sources."""

from __future__ import annotations

from dataclasses import asdict

import click

from tf_malleable.api.transport.address import default_socket
from tf_malleable.cli.options import json_option, print_json
from tf_malleable.cli.remote import remote_host
from tf_malleable.cli.settings import Settings
from tf_malleable.cli.tables import console, table


@click.command()
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Show the configuration files, and the defaults of options that they set.

    A file has a section for each command, with its options: under [run], the line max = 4
    does the same as tfm run --max 4, and as the environment variable TF_MALLEABLE_RUN_MAX=4.
    Command-line options go before variables, these before the user's file, and that before
    the site's.
    """
    root = context.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    names = group.list_commands(root)
    settings = Settings(names)
    found = []
    for name in names:
        command = group.get_command(root, name)
        if command is not None:
            found += settings.of(name, command)
    controller = remote_host() or str(default_socket())
    if as_json:
        print_json(
            {
                "files": [
                    {"path": str(path), "exists": sections is not None}
                    for path, sections in settings.files.items()
                ],
                "controller": controller,
                "settings": [asdict(setting) for setting in found],
            }
        )
        return
    for path, sections in settings.files.items():
        click.echo(f"file: {path}{'' if sections is not None else ' (does not exist)'}")
    click.echo(f"controller: {controller}")
    if not found:
        click.echo("no defaults are set")
        return
    rows = [(each.command, each.option, each.value, each.source) for each in found]
    console().print(table(("command", "option", "value", "from"), rows))
