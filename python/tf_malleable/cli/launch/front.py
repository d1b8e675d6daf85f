# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Front of tfm: reads the ordinary command lines of tfm run without click.

Click takes three times as long to load as Python, and every program waits for it. What is not
fully understood here is left to the command, so that errors, help and completion are click's.
"""

from __future__ import annotations

import os
import sys

from tf_malleable.cli.command_modules import MODULES
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.cli.launch.start import start
from tf_malleable.cli.messages import INTERRUPTED, report
from tf_malleable.cli.settings_sources import SITE_FILE, read_sections, user_file, variable_of
from tf_malleable.model.errors import OperationError
from tf_malleable.workload.job_options import CommandOption, parse_value

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

_COMMAND: Final = "run"
# The last one is described where other commands share it.
_OPTIONS: Final = {each.name: each for each in (*OPTIONS, CommandOption("socket", "", "path"))}
_TRUTH: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def run_program(arguments: list[str]) -> int | None:
    """Become the program of a command line of tfm run.

    Args:
        arguments: Command line after the words tfm run.

    Returns:
        The exit code of a start that failed; None if this command line is for click.
    """
    options = read(arguments)
    if options is None:
        return None
    try:
        start(options)
    except (OperationError, ValueError) as error:
        return report(error)
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return INTERRUPTED


def read(arguments: list[str]) -> RunOptions | None:
    """Return the options of a command line of tfm run; None if it is for click.

    Args:
        arguments: Command line after the words tfm run.
    """
    try:
        said = _said(iter(arguments))
        values: dict[str, Any] = {each.variable: each.initial for each in _OPTIONS.values()}
        values |= _settings()
    except (KeyError, StopIteration, ValueError):
        return None
    values |= said
    if values["socket"] is None:
        if os.environ.get("TF_MALLEABLE_HOST"):
            return None
        from tf_malleable.api.transport.address import default_socket_path

        values["socket"] = default_socket_path()
    values["socket"] = os.path.abspath(values["socket"])
    return RunOptions(given=frozenset(said), **values)


def _said(words: Iterator[str]) -> dict[str, Any]:
    """Return the values of the command line, by parameter.

    Raises:
        KeyError, StopIteration, ValueError: It is for click.
    """
    said: dict[str, Any] = {}
    for word in words:
        if word in ("-", "--") or not word.startswith("-"):
            said["command"] = tuple(words) if word == "--" else (word, *words)
            break
        if not word.startswith("--"):
            raise ValueError(f"for click: {word}")
        name, is_joined, text = word[2:].partition("=")
        option = _OPTIONS.get(name) or _OPTIONS[name.removeprefix("no-")]
        if option.kind in ("flag", "switch"):
            is_on = name == option.name
            if is_joined or not (is_on or option.kind == "switch"):
                raise ValueError(f"for click: {word}")
            said[option.variable] = is_on
            continue
        if name != option.name:
            raise ValueError(f"for click: {word}")
        value = parse_value(option.kind, text if is_joined else next(words))
        if option.multiple:
            value = (*said.get(option.variable, ()), value)
        said[option.variable] = value
    if not said.get("command"):
        raise ValueError("there is no program")
    return said


def _settings() -> dict[str, Any]:
    """Return the values that files and variables set, by parameter.

    Raises:
        KeyError, ValueError: A setting is for click.
    """
    texts: dict[str, str] = {}
    for path in (SITE_FILE, user_file()):
        sections = read_sections(path) or {}
        for section in sections:
            MODULES[section.partition(" ")[0]]
        texts |= sections.get(_COMMAND, {})
    prefix, names = (
        variable_of(_COMMAND, ""),
        {variable_of(_COMMAND, each): each for each in _OPTIONS},
    )
    for variable, text in os.environ.items():
        if text and variable.startswith(prefix):
            texts[names[variable]] = text
    return {_OPTIONS[name].variable: _set(_OPTIONS[name], text) for name, text in texts.items()}


def _set(option: CommandOption, text: str) -> object:
    if option.multiple:
        raise ValueError(f"for click: {option.name}")
    if option.kind in ("flag", "switch"):
        return _TRUTH[text]
    return parse_value(option.kind, text)
