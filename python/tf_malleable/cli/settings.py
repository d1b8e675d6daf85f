# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Settings: defaults of options, from the site's file, the user's file and the environment.

A file has a section for each command (``[run]``, ``[container run]``) with options by their
long names without dashes (``max = 4``). The variable TF_MALLEABLE_RUN_MAX has the same effect.
Precedence, in ascending order: site, user, environment, command line.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tf_malleable.cli.settings_sources import SITE_FILE, read_sections, user_file, variable_of

if TYPE_CHECKING:
    from tf_malleable.cli.settings_sources import Sections


@dataclass(frozen=True)
class Setting:
    """The default of one option.

    Attributes:
        command: Name of the command, such as ``"container run"``.
        option: Long name of the option, without dashes.
        value: Value, as written.
        source: File or environment variable that sets the value.
    """

    command: str
    option: str
    value: str
    source: str


class Settings:
    """Settings from both files and the environment.

    Attributes:
        files: Sections of each file, in ascending precedence; None if a file does not exist.
    """

    def __init__(self, commands: Collection[str], files: Collection[Path] | None = None) -> None:
        """Read the files.

        Args:
            commands: Names of all commands of tfm.
            files: Files in ascending precedence; None for the site's and the user's.

        Raises:
            ValueError: A file cannot be read or understood; the message says why.
        """
        paths = (Path(SITE_FILE), Path(user_file())) if files is None else files
        self.files: dict[Path, Sections | None] = {path: read_sections(path) for path in paths}
        for path, sections in self.files.items():
            for name in sections or ():
                if name.partition(" ")[0] not in commands:
                    raise ValueError(
                        f"{path}: there is no command for [{name}]; there are {', '.join(commands)}"
                    )

    def of(self, name: str, command: click.Command) -> list[Setting]:
        """Return the settings in force for a command, and for the commands of a group.

        Raises:
            ValueError: A setting names no option, or its value is not allowed.
        """
        return [setting for setting, _ in self._checked(name, command)]

    def defaults(self, name: str, command: click.Command) -> dict[str, Any]:
        """Return the settings of a command as a default map for click.

        Raises:
            ValueError: As of().
        """
        if isinstance(command, click.Group):
            return {
                each: self.defaults(f"{name} {each}", member)
                for each, member in command.commands.items()
            }
        known = _options(command)
        return {
            known[setting.option].name or "": value
            for setting, value in self._checked(name, command)
        }

    def _checked(self, name: str, command: click.Command) -> list[tuple[Setting, object]]:
        """Return the settings of a command, each with its value converted for the option."""
        if isinstance(command, click.Group):
            self._check_members(name, command)
            return [
                checked
                for each, member in command.commands.items()
                for checked in self._checked(f"{name} {each}", member)
            ]
        known = _options(command)
        found = {}
        for setting in self._given(name, known):
            if setting.option not in known:
                raise ValueError(
                    f"{setting.source}: tfm {name} has no option {setting.option!r} that can be"
                    f" set; there are {', '.join(known) or 'none'}"
                )
            option = known[setting.option]
            try:
                value = option.type.convert(setting.value, option, None)
            except click.BadParameter as error:
                raise ValueError(
                    f"{setting.source}: {setting.option} of tfm {name}: {error.message}"
                ) from None
            found[setting.option] = (setting, value)
        return list(found.values())

    def _check_members(self, name: str, group: click.Group) -> None:
        members = [f"{name} {each}" for each in group.commands]
        for path, sections in self.files.items():
            for section in sections or ():
                if section.partition(" ")[0] == name and section not in members:
                    raise ValueError(
                        f"{path}: there is no command for [{section}]; there are"
                        f" {', '.join(members)}"
                    )

    def _given(self, name: str, known: Collection[str]) -> Iterator[Setting]:
        """Yield the settings of a command, in ascending precedence."""
        for path, sections in self.files.items():
            for option, value in (sections or {}).get(name, {}).items():
                yield Setting(name, option, value, str(path))
        prefix, options = variable_of(name, ""), {variable_of(name, each): each for each in known}
        for variable, said in os.environ.items():
            if said and variable.startswith(prefix):
                option = options.get(variable, variable.removeprefix(prefix).lower())
                yield Setting(name, option.replace("_", "-"), said, variable)


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command that have one value, by long name without dashes."""
    return {
        name.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option) and not option.multiple and option.nargs == 1
        for name in option.opts[-1:]
        if name.startswith("--")
    }
