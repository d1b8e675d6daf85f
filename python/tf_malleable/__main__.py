# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Print this process's pools and OpenMP libraries as JSON: python -m tf_malleable [-i MODULE …]."""

import argparse
import importlib
import json
import sys
from dataclasses import asdict

from tf_malleable import NotMalleableError, openmp_libraries, pools


def main() -> int:
    """Import the given modules, then print pools()."""
    parser = argparse.ArgumentParser(
        prog="python -m tf_malleable",
        description="Print TensorFlow's thread pools and the libraries that use OpenMP as JSON.",
    )
    parser.add_argument(
        "-i",
        "--import",
        dest="modules",
        metavar="MODULE",
        nargs="+",
        default=[],
        help="modules to import first, so that their pools are listed",
    )
    for module in parser.parse_args().modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"tf_malleable: cannot import {module}: {error}", file=sys.stderr)
            return 2
    try:
        found = pools()
    except NotMalleableError as error:
        print(f"tf_malleable: {error}", file=sys.stderr)
        return 1
    libraries = [{"kind": "openmp", **asdict(each)} for each in openmp_libraries()]
    print(json.dumps([*map(asdict, found), *libraries], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
