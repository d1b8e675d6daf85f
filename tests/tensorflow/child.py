# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The other side of harness.start(): runs one function, prints JSON rows."""

import faulthandler
import importlib
import json
import sys
from collections.abc import Iterator

from quick_import import quick_imports


def main() -> None:
    request = json.loads(sys.argv[1])
    # From a thread of C, so that it works while another one holds the GIL.
    faulthandler.enable()
    faulthandler.dump_traceback_later(request["timeout"], exit=True)
    with quick_imports():
        if not request["stock"]:
            importlib.import_module("tf_malleable")
        module = importlib.import_module(request["module"])
    result = getattr(module, request["function"])(*request["args"])
    for row in result if isinstance(result, Iterator) else [result]:
        print(json.dumps(row), flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
