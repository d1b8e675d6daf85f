# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The bill of materials of a wheel, as CycloneDX: what of it others wrote.

That is the page's libraries, and the headers that its own libraries are compiled from. What pip
installs beside the wheel is not in it, and so is not listed.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_VENDORED: Final = "tf_malleable/web/static/vendor"
_RUNTIME: Final = "tf_malleable/runtime"


def _library(purl: PackageURL, licence: str) -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        bom_ref=str(purl),
        purl=purl,
        licenses=[LicenseFactory().make_from_string(licence)],
    )


def _file(wheel: zipfile.ZipFile, name: str) -> Component:
    digest = hashlib.sha256(wheel.read(name)).hexdigest()
    return Component(
        name=name,
        bom_ref=name,
        type=ComponentType.FILE,
        hashes=[HashType.from_hashlib_alg("sha256", digest)],
    )


def _of_page(wheel: zipfile.ZipFile) -> Iterator[Component]:
    for name, package in json.loads(wheel.read(f"{_VENDORED}/vendor.json")).items():
        found = _library(PackageURL("npm", None, name, package["version"]), package["licence"])
        found.components.update(_file(wheel, f"{_VENDORED}/{file}") for file in package["files"])
        yield found


def _number(pattern: str, *headers: Path) -> str:
    """Return the last three numbers of what the headers define, as a version."""
    text = "".join(header.read_text() for header in headers if header.exists())
    return ".".join(re.findall(rf"^#define {pattern} (\d+)$", text, re.M)[-3:])


def _of_overlay(include: Path, number: str) -> tuple[Component, ...]:
    # Eigen 5 is 3.5 to itself, and has moved the numbers.
    headers = [include / "Eigen" / name for name in ("Version", "src/Core/util/Macros.h")]
    eigen = _number("EIGEN_(?:WORLD|MAJOR|MINOR|PATCH)_VERSION", *headers)
    abseil = _number(r"ABSL_LTS_RELEASE_\w+", include / "absl/base/config.h")
    return (
        _library(PackageURL("pypi", None, "tensorflow-cpu", number), "Apache-2.0"),
        _library(PackageURL("generic", None, "eigen", eigen), "MPL-2.0"),
        _library(PackageURL("github", "abseil", "abseil-cpp", abseil), "Apache-2.0"),
    )


def make(path: Path, tensorflows: Mapping[str, Path]) -> str:
    """Return a wheel's bill of materials, in JSON.

    Args:
        path: The wheel.
        tensorflows: The folder with each TensorFlow's package, by its version.
    """
    name, number = path.name.split("-")[:2]
    pybind11 = _library(PackageURL("pypi", None, "pybind11", version("pybind11")), "BSD-3-Clause")
    licence = LicenseFactory().make_from_string("Apache-2.0")
    bom = Bom()
    whole = Component(name=name, version=number, bom_ref=path.name, licenses=[licence])
    bom.metadata.component = whole
    with zipfile.ZipFile(path) as wheel:
        (native,) = (file for file in wheel.namelist() if f"{_RUNTIME}/_native." in file
                     and file.endswith(".so"))  # fmt: skip
        compiled = {native: (pybind11,)}
        for release, folder in tensorflows.items():
            minor = ".".join(release.split(".")[:2])
            sources = _of_overlay(folder / "tensorflow" / "include", release)
            compiled[f"{_RUNTIME}/libtf_malleable_overlay-{minor}.so"] = sources
        parts = list(_of_page(wheel))
        for file, sources in compiled.items():
            parts.append(_file(wheel, file))
            bom.components.update(sources)
            bom.register_dependency(parts[-1], sources)
    bom.components.update(parts)
    bom.register_dependency(whole, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2)
