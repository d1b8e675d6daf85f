# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Detection of the installed TensorFlow, without importing it.

The overlay has to be loaded before TensorFlow is imported, and importing takes seconds.
The build runs this file as a script, so it imports nothing from this package.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_NONE_INSTALLED: Final = (
    "tf_malleable is built against the TensorFlow it will run with, and"
    f" {sys.executable} has none: pip install tensorflow (or tensorflow-cpu)"
    " first, then tf_malleable: pip install . in a clone of its repository"
)

# Distributions that contain the package; not, for example, tensorflow_io, which only uses it.
_DISTRIBUTION: Final = re.compile(
    r"(?:intel_tensorflow(?:_avx512)?"
    r"|(?:tensorflow|tf_nightly)(?:_(?:aarch64|cpu|cpu_aws|cuda\d+|gpu|intel|rocm|tpu))?)"
    r"-(.+)\.dist-info"
)


@dataclass(frozen=True)
class TensorFlow:
    """An installed TensorFlow: its version, for example ``"2.21.0"``, and its folder."""

    version: str
    directory: Path

    @property
    def minor(self) -> str:
        """The version without its patch number: ``"2.21"``."""
        return ".".join(self.version.split(".")[:2])


def find_tensorflow(folders: Sequence[str] | None = None) -> TensorFlow | None:
    """Return the TensorFlow that ``import tensorflow`` would load; None if there is none.

    The version comes from the distribution's metadata beside the package.

    Args:
        folders: Folders to search; None for sys.path and the environment's packages.

    Raises:
        ImportError: There is a TensorFlow, but no metadata with its version.
    """
    if folders is None:
        # pip hides the environment's packages from an isolated build.
        folders = [*sys.path, *(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))]
    spec = PathFinder.find_spec("tensorflow", list(folders))
    if spec is None or spec.origin is None:
        return None
    directory = Path(spec.origin).parent
    for metadata in sorted(directory.parent.glob("*.dist-info")):
        match = _DISTRIBUTION.fullmatch(metadata.name)
        if match:
            return TensorFlow(match.group(1), directory)
    raise ImportError(
        f"cannot tell which TensorFlow {directory} is: beside it there are no metadata"
        " (tensorflow….dist-info); install it with pip"
    )


def main(folders: Sequence[str]) -> int:
    """Print ``version;directory`` of each TensorFlow for the build; return the exit code.

    Args:
        folders: Folders with one TensorFlow each; if empty, the installed TensorFlow.
    """
    places: list[list[str] | None] = [[folder] for folder in folders]
    lines = []
    for where in places or [None]:
        try:
            found = find_tensorflow(where)
        except ImportError as error:
            print(error, file=sys.stderr)
            return 1
        if found is None:
            missing = f"{where[0]} has no TensorFlow" if where else _NONE_INSTALLED
            print(missing, file=sys.stderr)
            return 1
        lines.append(f"{found.version};{found.directory}")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
