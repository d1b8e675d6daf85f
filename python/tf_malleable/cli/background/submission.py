# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Submission of a job from a process of its own, for commands that submit several."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from tf_malleable.cli.launch.attempts import fork
from tf_malleable.cli.messages import INTERRUPTED, report
from tf_malleable.model import OperationError


def submit_in_child(become: Callable[[], NoReturn]) -> tuple[int, list[str]]:
    """Fork a process that submits a job, or the jobs of an array; errors go to stderr.

    Args:
        become: Called in that process; submits, and exits as start() does.

    Returns:
        Exit code of the submission, and the ids of the jobs.

    Raises:
        OperationError: A process cannot be started.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = fork()
    if not child:
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
        _exit_as(become)
    os.close(writing)
    with open(reading) as pipe:
        ids = pipe.read().split()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, ids


def _exit_as(become: Callable[[], NoReturn]) -> NoReturn:
    code = 1
    try:
        become()
    except (OperationError, ValueError) as error:
        code = report(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)
