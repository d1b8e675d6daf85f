# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the installed TensorFlow is, found without importing it.

Importing TensorFlow before the overlay is loaded would be too late for the
overlay, and takes seconds. The build runs this file as a script, so it imports
nothing of this package.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path


@dataclass(frozen=True)
class TensorFlow:
    """An installed TensorFlow: its version, ``"2.21.0"`` say, and its folder."""

    version: str
    directory: Path


def find_tensorflow() -> TensorFlow | None:
    """Return the TensorFlow that ``import tensorflow`` would load, or None.

    The version is that of the distribution whose metadata lies beside the
    package; a TensorFlow without any counts as absent.
    """
    # pip hides the environment's packages from a build it isolates.
    installed = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    spec = PathFinder.find_spec("tensorflow", [*sys.path, *installed])
    if spec is None or spec.origin is None:
        return None
    directory = Path(spec.origin).parent
    for metadata in sorted(directory.parent.glob("tensorflow*.dist-info")):
        # tensorflow, tensorflow_cpu, tensorflow_rocm … but not tensorflow_io.
        match = re.fullmatch(
            r"tensorflow(?:_(?:cpu|gpu|rocm|intel))?-(.+)\.dist-info", metadata.name
        )
        if match:
            return TensorFlow(match.group(1), directory)
    return None


def main() -> int:
    """Print ``version;directory`` for CMake, or say what is missing."""
    found = find_tensorflow()
    if found is None:
        print(
            "tf_malleable is built against the TensorFlow it will run with, and"
            f" {sys.executable} has none: pip install tensorflow (or tensorflow-cpu)"
            " first, then pip install tf_malleable",
            file=sys.stderr,
        )
        return 1
    print(f"{found.version};{found.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
