# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Direct start: the most common command line, executed before any command is loaded.

Click alone takes three times as long to load as Python. A script that starts many short programs
with ``tfm run --threads N -- PROGRAM`` should not wait for it.
"""

import os

from tf_malleable.api.schema import requirement
from tf_malleable.cli.launch.program import become_with_limit
from tf_malleable.cli.settings_sources import may_set
from tf_malleable.runtime import environment

# As in elastic/variables.py.
_COORDINATOR = "TF_MALLEABLE_ELASTIC_COORDINATOR"


def start_directly(arguments: list[str]) -> None:
    """Become the program of ``run --threads N -- PROGRAM …``, if nothing else must be considered.

    Returns if the command line has another form, a setting may add options, or something is
    wrong: tfm run then does the same, or explains why not.

    Args:
        arguments: Command line without the name of the command.
    """
    if arguments[:2] != ["run", "--threads"] or arguments[3:4] != ["--"] or not arguments[4:]:
        return
    number = arguments[2]
    try:
        most = environment.max_threads()
        environment.first_threads()
        is_controller_required = requirement.is_controller_required()
    except ValueError:
        return
    is_allowed = number.isascii() and number.isdigit() and 1 <= int(number) <= most
    if not is_allowed or is_controller_required or os.environ.get(_COORDINATOR) or may_set("run"):
        return
    become_with_limit(int(number), tuple(arguments[4:]))
