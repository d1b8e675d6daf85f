# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm policy: lists the policies, or switches to another one."""

from __future__ import annotations

import click

from tf_malleable.api.schema.messages import Policies
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.completion import complete_policies
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.tables import console, table


@click.command()
@click.argument("name", metavar="[POLICY]", required=False, shell_complete=complete_policies)
@json_option
@socket_option
def policy(client: Client, name: str | None, as_json: bool) -> None:
    """List the policies, or switch to POLICY at once.

    For example: tfm policy priority-strict:ageing=60
    """
    before = client.get("/v1/policy", Policies)
    if name is None:
        if as_json:
            print_json(before)
        else:
            _list(before)
        return
    after = client.ask("PUT", "/v1/policy", Policies, {"policy": name})
    if as_json:
        print_json(after)
    elif after.policy == before.policy:
        click.echo(f"no change, the policy is already {after.policy}")
    else:
        click.echo(f"the policy is now {after.policy}; it was {before.policy}")


def _list(found: Policies) -> None:
    # The name may have options, and may combine lend+ with a policy that has no row of its own.
    name = found.policy.partition(":")[0]
    used = [name] if name in {each.name for each in found.available} else name.split("+")
    rows = [("*" if each.name in used else "", each.name, each.summary) for each in found.available]
    output = console()
    output.print(f"in force: {found.policy}")
    output.print(table(("", "name", "what it does"), rows))
