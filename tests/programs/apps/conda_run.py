# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Does what `conda run` does, for where there is no conda: see its main_run.py and utils.py.

As of conda 26.7.1: it writes a temporary shell script that activates the environment and then runs
the command, has bash execute the script, with its output captured or not, and exits with its code.
It handles no signals meanwhile. What `conda activate` puts into the shell is written out here: the
variables, and the scripts of the environment's activate.d.

Usage: conda_run.py PREFIX [--no-capture-output] COMMAND…
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


def script(prefix: Path, command: list[str]) -> str:
    """Return the script that runs a command in an environment."""
    scripts = sorted((prefix / "etc/conda/activate.d").glob("*.sh"))
    return "\n".join(
        [
            f"export PATH={shlex.quote(str(prefix / 'bin'))}:$PATH",
            f"export CONDA_PREFIX={shlex.quote(str(prefix))}",
            "export CONDA_SHLVL=1",
            f"export CONDA_DEFAULT_ENV={shlex.quote(prefix.name)}",
            f"export CONDA_PROMPT_MODIFIER={shlex.quote(f'({prefix.name}) ')}",
            *(f". {shlex.quote(str(each))}" for each in scripts),
            f"{shlex.join(command)}\n",
        ]
    )


def main(prefix: str, *command: str) -> int:
    """Run a command in an environment; return its exit code."""
    captured = command[0] != "--no-capture-output"
    pipe = subprocess.PIPE if captured else None
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as file:
        file.write(script(Path(prefix), [*command[not captured :]]))
    shell = subprocess.Popen(["bash", file.name], stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = shell.communicate()
    sys.stdout.buffer.write(out or b"")
    sys.stderr.buffer.write(err or b"")
    os.unlink(file.name)
    return shell.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
