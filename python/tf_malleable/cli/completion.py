# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm completion: prints a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

# The variable that click's scripts set, derived from the program's name.
_VARIABLE = "_TFM_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes the commands, options and jobs of tfm in a SHELL.

    \b
    bash: tfm completion bash > ~/.local/share/bash-completion/completions/tfm
    zsh:  tfm completion zsh > FOLDER/_tfm    (a FOLDER of $fpath)
    fish: tfm completion fish > ~/.config/fish/completions/tfm.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "tfm", _VARIABLE).source())
