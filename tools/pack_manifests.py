#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Copy deploy/kubernetes/base, and the controller's units, to where a wheel and Helm have them.

`tfm cluster install` and `tfm service install` apply the copies in the package, and Helm takes
the chart's CRD from its own folder. --check writes nothing, and fails if a copy differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
PACKAGED = ROOT / "python" / "tf_malleable" / "cli" / "cluster" / "manifests.yaml"
UNITS = ROOT / "python" / "tf_malleable" / "cli" / "services" / "units"
CHART_CRD = KUBERNETES / "chart" / "crds" / "crd.yaml"


def resources(folder: Path = BASE) -> list[Path]:
    """Return the files that a kustomization names, in its order."""
    text = (folder / "kustomization.yaml").read_text()
    listed = re.search(r"^resources:\n((?:- .+\n)+)", text, re.MULTILINE)
    assert listed is not None
    return [folder / line[2:] for line in listed[1].splitlines()]


def copies() -> dict[Path, str]:
    """Return what each copy must be."""
    first = "# Written by tools/pack_manifests.py from deploy/kubernetes/base.\n"
    joined = "---\n".join(path.read_text() for path in resources())
    units = {"system": "tf_malleable.service", "user": "user/tf_malleable.service"}
    return {
        PACKAGED: first + joined,
        CHART_CRD: first + (BASE / "crd.yaml").read_text(),
        **{
            UNITS / f"{name}.service": (ROOT / "deploy" / path).read_text()
            for name, path in units.items()
        },
    }


def main() -> int:
    """Write the copies, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    wrong = [path for path, text in copies().items() if not _is(path, text)]
    for path in wrong:
        if check:
            print(f"{path.relative_to(ROOT)} differs from what is in deploy", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(copies()[path])
    return 1 if check and wrong else 0


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
