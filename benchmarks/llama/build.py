# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""llama.cpp's server, built from the source distribution of llama-cpp-python, and a model."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.common.children import REPOSITORY
from benchmarks.common.command_line import BenchmarkError, Say

_PACKAGE: Final = "llama-cpp-python==0.3.36"
_TOOLS: Final = ("cmake", "ninja", "gguf")
# The fewest of its parts that have the server. It is compiled for this machine, with OpenMP.
_OPTIONS: Final = (
    *("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
    *("-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF"),
    *("-DLLAMA_OPENSSL=OFF", "-DLLAMA_CURL=OFF"),
)


def server(folder: Path, say: Say) -> tuple[Path, str]:
    """Return the server and its version; build it in a folder, once (15 minutes on two cores).

    Raises:
        BenchmarkError: The source cannot be had or built.
    """
    built = folder / "build" / "bin" / "llama-server"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        say("downloads llama.cpp")
        pip = (sys.executable, "-m", "pip")
        only_source = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:")
        _run([*pip, "download", *only_source, "-d", str(folder), _PACKAGE], folder)
        _run([*pip, "install", "--target", str(folder / "tools"), *_TOOLS], folder)
        (archive,) = folder.glob("llama_cpp_python-*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (source,) = folder.glob("llama_cpp_python-*/vendor/llama.cpp")
        say("builds it, in about 15 minutes on two cores")
        _run(["cmake", "-S", str(source), "-B", str(folder / "build"), *_OPTIONS], folder)
        _run(["cmake", "--build", str(folder / "build"), "--target", "llama-server"], folder)
    said = subprocess.run([built, "--version"], capture_output=True, text=True, check=True)
    return built, said.stderr.splitlines()[0].strip()


def random_model(folder: Path) -> Path:
    """Return a model with random weights, once server() has built the server in this folder."""
    path = folder / "random.gguf"
    if not path.exists():
        _run([sys.executable, "-m", "benchmarks.llama.model", str(path)], folder)
    return path


def _run(words: Sequence[str], folder: Path) -> None:
    """Run a command, with the tools of the folder; what it says goes to a file there."""
    tools = folder / "tools" / "bin"
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = f"{folder / 'tools'}:{REPOSITORY}"
    log = folder / "build.log"
    with log.open("a") as output:
        status = subprocess.run(words, env=env, stdout=output, stderr=output).returncode
    if status:
        raise BenchmarkError(
            f"llama.cpp cannot be built: {words[0]} ended with {status}, see {log}"
        )
