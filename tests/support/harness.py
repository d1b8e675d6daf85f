# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs a function in a process of its own, under a watchdog.

tf_malleable has to come before tensorflow and capacities are fixed at the first use, so
tests that need either call a function of one of tests/tensorflow/cases_*.py. By default the
process is forked from one that has imported both and used neither.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import zygote
from tf_malleable.runtime.tensorflow_install import find_tensorflow

CASES = Path(__file__).parents[1] / "tensorflow"
CAPACITY = 16

# What neither library reads before its first use; whatever else is set is read at import.
_READ_AT_USE = {
    "ONEDNN_VERBOSE",
    "TF_MALLEABLE_MAX_THREADS",
    "TF_MALLEABLE_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
}

# Time for the watchdog inside to print all stacks before we kill from outside.
_GRACE_SECONDS = 20


@dataclass
class Finished:
    """What became of a child: the JSON rows it printed and how it ended."""

    rows: list[Any] = field(default_factory=list)
    returncode: int = 0
    stderr: str = ""

    def value(self) -> Any:
        """Return the last row of a child that ended well."""
        assert self.returncode == 0, f"exit code {self.returncode}\n{self.stderr[-8000:]}"
        assert self.rows, f"the child printed no result\n{self.stderr[-8000:]}"
        return self.rows[-1]


def tensorflow_minor() -> int:
    """Return the minor version of the installed TensorFlow: 21 of 2.21.0."""
    found = find_tensorflow()
    assert found is not None
    return int(found.minor.split(".")[1])


def environment(*, stock: bool = False, **changes: Any) -> dict[str, str]:
    """Return this environment without what would set threads, and with `changes`.

    None removes a variable.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TF_MALLEABLE_", "TF_NUM_", "OMP_", "PYTEST_"))
    }
    env["TF_MALLEABLE_CLAIMS"] = ""
    env["TF_CPP_MIN_LOG_LEVEL"] = "3"
    env["CUDA_VISIBLE_DEVICES"] = "-1"
    if not stock:
        env["TF_MALLEABLE_MAX_THREADS"] = str(CAPACITY)
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def start(
    module: str,
    function: str,
    *args: Any,
    stock: bool = False,
    fresh: bool = False,
    timeout: float = 120,
    preexec: Callable[[], None] | None = None,
    **env: Any,
) -> Finished:
    """Run module.function(*args) in a child and return what became of it.

    A function that yields gives several rows; those from before a hang count.

    Args:
        module: Beside child.py, or in PYTHONPATH.
        function: Returns or yields what JSON can express.
        args: Those of the function.
        stock: The child is without tf_malleable.
        fresh: The child is a new Python, which imports what it needs, instead of a fork.
        timeout: Seconds until it is ended.
        preexec: Called in the child before Python starts, which is then a new one.
        env: Changes of its environment; None removes a variable.
    """
    request = {
        "module": module,
        "function": function,
        "args": args,
        "stock": stock,
        "timeout": timeout,
    }
    command = [sys.executable, str(CASES / "child.py"), json.dumps(request)]
    if fresh or preexec is not None:
        popen = functools.partial(subprocess.Popen, preexec_fn=preexec)
    else:
        at_import = {
            name: str(value)
            for name, value in env.items()
            if name not in _READ_AT_USE and value is not None
        }
        popen = zygote.popen("stock tensorflow" if stock else "tensorflow", **at_import)
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = popen(
            command,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=environment(stock=stock, **env),
        )
        killed = ""
        try:
            out, _ = process.communicate(timeout=timeout + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            where = _kernel_stacks(process.pid)
            process.kill()
            out, _ = process.communicate()
            killed = f"\nkilled: no end after {timeout + _GRACE_SECONDS} s\n{where}"
        said.seek(0)
        err = said.read() + killed
    rows = [json.loads(line) for line in out.splitlines() if line.startswith(("{", "[", '"'))]
    return Finished(rows, process.returncode, err)


def _kernel_stacks(pid: int) -> str:
    """Return what each thread of a process waits for, as far as the kernel tells."""
    lines = []
    for thread in sorted(Path(f"/proc/{pid}/task").iterdir()):
        with suppress(OSError):
            name, state, wait = (
                (thread / file).read_text().strip() for file in ("comm", "stat", "wchan")
            )
            lines.append(f"{thread.name} {name}: {state.rpartition(')')[2].split()[0]} {wait}")
    return "\n".join(lines)


def call(module: str, function: str, *args: Any, **options: Any) -> Any:
    """Return the (last) result of module.function(*args), run as by start()."""
    return start(module, function, *args, **options).value()
