# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Execution of the program that tfm starts, which replaces tfm."""

from __future__ import annotations

import os
import sys

from tf_malleable.cli.messages import say
from tf_malleable.runtime import environment

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import NoReturn

# Of the API; what defines it takes long to load.
_JOIN = "TF_MALLEABLE_JOIN"
_PACKAGE = os.path.abspath(__file__).rpartition("/cli/")[0]
_PRELOAD = os.path.join(_PACKAGE, "preload")
_OPENMP_HOOK = os.path.join(_PACKAGE, "runtime", "libtf_malleable_openmp.so")


def is_program(name: str) -> bool:
    """Return whether there is an executable with this name. (shutil.which() is slow to load.)"""
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    paths = [os.path.join(folder, name) for folder in folders]
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)


def with_python(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that begins with a Python script as one that can be executed.

    A script in a file named ``*.py`` that cannot be executed itself, as it is not executable or
    has no ``#!`` line, gets the Python of the active virtual environment (VIRTUAL_ENV), or else
    the first ``python3`` of PATH, or else the one that runs tfm. Other commands stay as they are.

    Raises:
        ValueError: There are several scripts, and it is unclear whether all are to run.
    """
    script = command[0]
    if not script.endswith(".py") or not os.path.isfile(script):
        return command
    if os.access(script, os.X_OK) and _has_interpreter(script):
        is_found = os.path.dirname(script) or is_program(script)
        return command if is_found else (f"./{script}", *command[1:])
    if len(command) > 1 and all(map(_is_script, command)):
        raise ValueError(
            f"{len(command)} scripts are given: tfm submit --each makes a job of each, and"
            f" python {script} before the others makes them its arguments"
        )
    return (_python(), f"./{script}" if script.startswith("-") else script, *command[1:])


def _is_script(path: str) -> bool:
    return path.endswith(".py") and os.path.isfile(path)


def _has_interpreter(script: str) -> bool:
    try:
        with open(script, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True  # Whatever executes it says what is wrong.


def _python() -> str:
    """Return the Python of the environment, for scripts that name none."""
    folders = os.get_exec_path()
    paths = [os.path.join(folder, "python3") for folder in folders]
    if active := os.environ.get("VIRTUAL_ENV"):
        paths.insert(0, os.path.join(active, "bin", "python"))
    found = (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))
    return next(found, sys.executable)


def is_seen_by_a_shell() -> bool:
    """Return whether a shell with job control may wait for this process.

    Such a shell takes a program that the controller stops for one that its user has stopped: it
    goes on with the next command, and Ctrl-C does not reach the program any more.
    """
    if os.getsid(0) == os.getpid():  # The terminal is this process's own.
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:  # There is no terminal.
        return False
    return True


def limit_by_hand(threads: int) -> int:
    """Return the limit that a number of --threads stands for, and say so if that is another.

    Raises:
        ValueError: The number is below 1, or as environment.max_threads().
    """
    most = environment.max_threads()
    if threads < 1:
        raise ValueError(f"--threads must be an integer from 1, not {threads}")
    if threads > most:
        say(f"--threads is {most}, not {threads}: a process can have no more threads here")
    return min(threads, most)


def become_with_limit(threads: int, command: tuple[str, ...]) -> NoReturn:
    """Replace this process by a program whose limit is set by hand, without a controller."""
    os.environ[environment.THREADS] = str(threads)
    os.environ.pop(_JOIN, None)
    os.environ.pop(environment.FOLLOW_CGROUP, None)
    preload()
    become(command)


def preload() -> None:
    """Make every Python process started from now on load tf_malleable before tensorflow.

    PYTHONPATH reaches each Python; the other variable also those in whose packages tf_malleable
    is installed and whose PYTHONPATH is replaced, through the .pth file there.
    """
    os.environ[environment.PRELOAD] = "1"
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [_PRELOAD, *(path for path in inherited.split(os.pathsep) if path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    if environment.openmp():
        _preload_openmp_hook()


def _preload_openmp_hook() -> None:
    """Make every program started from now on load the OpenMP hook, after what it loads anyway.

    The loader takes colons and spaces for the ends of paths.
    """
    if not os.path.exists(_OPENMP_HOOK) or ":" in _OPENMP_HOOK or " " in _OPENMP_HOOK:
        return
    loaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    os.environ["LD_PRELOAD"] = ":".join(dict.fromkeys((*loaded, _OPENMP_HOOK)))
    os.environ.pop(environment.QUOTAS, None)
    if environment.follow_cgroup():
        from tf_malleable.linux.cgroups.quota_files import quota_files

        # The kernel allows no newline in the name of a cgroup.
        os.environ[environment.QUOTAS] = "\n".join(quota_files())
    # A program of AddressSanitizer ends if any library comes before it, and not only one that
    # brings functions of its own for memory. What the user says comes last, and holds.
    options = filter(None, ("verify_asan_link_order=0", os.environ.get("ASAN_OPTIONS")))
    os.environ["ASAN_OPTIONS"] = ":".join(dict.fromkeys(options))
    # Else torch.compile() writes the number of threads that there are now into its code.
    os.environ.setdefault("TORCHINDUCTOR_CPP_DYNAMIC_THREADS", "1")


def become(command: tuple[str, ...]) -> NoReturn:
    """Replace this process by a command; exit with 126 or 127 on failure, as shells do."""
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        is_script = command[0].endswith(".py") and os.path.isfile(command[0])
        meant = f"; did you mean: python {' '.join(command)}?" if is_script else ""
        say(f"there is no program {command[0]!r}{meant}")
        sys.exit(127)
    except OSError as error:
        say(f"cannot run {command[0]!r}: {error.strerror}")
        sys.exit(126)
