# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Entry point of the tfm command: its subcommands, and one-line error messages.

A subcommand's module is imported only when the subcommand is called: `tfm run` delays the
program that it starts, and must not wait for libraries that print tables.
"""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from typing import Final

import click

from tf_malleable.cli.command_modules import (
    ALIASES,
    LABELS,
    MATURITY,
    MODULES,
    OPTION_SUGGESTIONS,
    SECTIONS,
    SUGGESTIONS,
)
from tf_malleable.cli.messages import INTERRUPTED, report, say
from tf_malleable.cli.settings import Settings
from tf_malleable.linux import standard_error
from tf_malleable.model.errors import OperationError
from tf_malleable.model.version import __version__

# Summaries are wrapped rather than cut.
_LONGEST_SUMMARY: Final = 200


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            rows = [
                (name, command.get_short_help_str(_LONGEST_SUMMARY) + _mark(name))
                for name in names
                if (command := self.get_command(ctx, name)) is not None and not command.hidden
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = MODULES.get(cmd_name)
        if module is None:
            return None
        commands = vars(importlib.import_module(f"tf_malleable.cli.{module}")).values()
        command = next(
            each for each in commands if isinstance(each, click.Command) and each.name == cmd_name
        )
        label = MATURITY[cmd_name]
        command.epilog = f"Maturity: {label} ({LABELS[label]})."
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        called = ALIASES.get(args[0], args[0])
        if not (called in MODULES or called.startswith("-") or ctx.resilient_parsing):
            raise click.UsageError(_no_such_command(called), ctx)
        name, command, rest = super().resolve_command(ctx, [called, *args[1:]])
        # `tfm config` itself shows the settings, and completion must not fail.
        if name is not None and command is not None and not ctx.resilient_parsing:
            ctx.default_map = {name: Settings(MODULES).defaults(name, command)}
        return name, command, rest


def _mark(name: str) -> str:
    return " (experimental)" if MATURITY[name] == "experimental" else ""


def _no_such_command(name: str) -> str:
    if name in SUGGESTIONS:
        return f"No such command {name!r}. Use {SUGGESTIONS[name]}."
    similar = get_close_matches(name, [*MODULES, *ALIASES], n=1)
    meant = f"Did you mean {similar[0]!r}?" if similar else "tfm --help lists the commands."
    return f"No such command {name!r}. {meant}"


def _no_such_option(error: click.NoSuchOption) -> str:
    command = error.ctx and error.ctx.command.name
    instead = OPTION_SUGGESTIONS.get(error.option_name) if command in ("run", "submit") else None
    if instead is None:
        return error.format_message()
    return f"No such option {error.option_name!r}. Use {instead}."


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Maturity: run is stable, and all that is not marked as experimental is beta: "
    f"{LABELS['beta']}.",
)
@click.version_option(__version__, "-V", "--version", prog_name="tfm")
def tfm() -> None:
    """Change how many threads TensorFlow uses while it runs.

    Use tfm run for a single program. For many on one host use tfm submit: it starts a controller,
    if there is none, which shares the CPUs among them.
    """


def _arguments() -> list[str]:
    """Return the command line, with `help COMMAND` as `COMMAND --help`."""
    words = sys.argv[1:]
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def main() -> int:
    """Run the command line and return its exit code.

    Errors are one line on stderr: exit code 2 for bad input, 1 for operations that failed.
    """
    try:
        code = tfm.main(_arguments(), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        standard_error.say(error.format_message())
        return 2
    except click.NoSuchOption as error:
        say(_no_such_option(error))
        return error.exit_code
    except click.ClickException as error:
        say(error.format_message())
        return error.exit_code
    except click.Abort:  # Ctrl-C.
        return INTERRUPTED
    except (OperationError, ValueError) as error:
        return report(error)
    return code if isinstance(code, int) else 0
