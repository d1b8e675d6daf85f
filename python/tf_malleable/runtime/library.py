# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Loads the C ABI, from the overlay or from a patched TensorFlow.

The overlay has to be loaded before TensorFlow, so that the dynamic loader binds
TensorFlow's libraries to the overlay's functions. Hence ``load()`` runs when
tf_malleable is imported, and is too late if a stock TensorFlow is already loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tf_malleable.model import NotMalleableError
from tf_malleable.runtime import _native, elf, environment
from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow

Backend = Literal["overlay", "patched"]

FRAMEWORK: Final = "libtensorflow_framework.so.2"
_TENSORFLOW_LIBRARIES: Final = (FRAMEWORK, "libtensorflow_cc.so.2")
# Exported by every framework library that was built with the patches.
_ANY_FUNCTION: Final = "tfm_abi_version"
_OVERLAY: Final = "libtf_malleable_overlay-"
REBUILD: Final = (
    "build the newest version, in a clone of the repository:"
    " pip install --force-reinstall --no-deps ."
)

_TOO_LATE: Final = (
    "tf_malleable was imported after tensorflow, too late to take over its threads:"
    " import tf_malleable first, or start the program with 'tfm run -- python …'"
)

_backend: Backend | None = None


def load() -> None:
    """Make the C ABI available; do nothing if it is, or if TensorFlow was loaded first.

    Raises:
        ImportError: There is no overlay for the installed TensorFlow.
        ValueError: One of our environment variables is invalid.
    """
    global _backend
    if _backend is not None:
        return
    environment.max_threads()
    threads = environment.first_threads()
    found = find_tensorflow()
    if _native.exports(FRAMEWORK):
        _native.load(FRAMEWORK, in_front=False)
    elif _native.is_loaded(FRAMEWORK) and not any(
        _native.is_loaded(str(overlay)) for overlay in overlays().values()
    ):
        return
    elif found is not None and elf.exports(found.directory / FRAMEWORK, _ANY_FUNCTION):
        _native.load(str(found.directory / FRAMEWORK), in_front=False)
    else:
        overlay = overlay_for(found, overlays())
        if found is not None:
            _check_fits(overlay, found)
        _native.load(str(overlay), in_front=True)
    _backend = _native.backend()
    if threads is not None:
        _native.set_threads(threads, threads)


def overlays() -> dict[str, Path]:
    """Return the installed overlays by TensorFlow's minor version, oldest first.

    A wheel has several. A build from source has one, or none if it was built for a
    TensorFlow with the patches.
    """
    paths = Path(__file__).parent.glob(f"{_OVERLAY}*.so")
    by_minor = {path.stem.removeprefix(_OVERLAY): path for path in paths}
    return dict(sorted(by_minor.items(), key=lambda entry: [*map(int, entry[0].split("."))]))


def overlay_for(found: TensorFlow | None, overlays: Mapping[str, Path]) -> Path:
    """Return the overlay for an installed TensorFlow; the newest if none is installed.

    Patch releases share an overlay. It depends on the layout of a few classes and on
    the functions it replaces. TensorFlow's patch releases fix bugs: the headers of
    2.19.0 and 2.19.1 differ in TF_PATCH_VERSION only. Whether the functions exist is
    checked before the overlay is loaded.

    Args:
        found: The installed TensorFlow; None if there is none.
        overlays: The available overlays by minor version, oldest first.

    Raises:
        ImportError: There is no overlay for this TensorFlow.
    """
    if found is None and overlays:
        return list(overlays.values())[-1]
    if found is not None and found.minor in overlays:
        return overlays[found.minor]
    version = "no TensorFlow" if found is None else f"TensorFlow {found.version}"
    *others, last = overlays or ["no version without the patches"]
    supported = f"{', '.join(others)} and {last}" if others else last
    raise ImportError(
        f"{version} is installed, but this tf_malleable supports {supported}; {REBUILD}"
    )


def _check_fits(overlay: Path, found: TensorFlow) -> None:
    """Raise ImportError if TensorFlow lacks a function that the overlay replaces."""
    libraries = [found.directory / name for name in _TENSORFLOW_LIBRARIES]
    for name in sorted(elf.exported(overlay)):
        if not name.startswith("tfm_") and not any(elf.exports(path, name) for path in libraries):
            raise ImportError(
                f"TensorFlow {found.version} is installed, but has no function {name}, which"
                f" {overlay.name} replaces; {REBUILD}"
            )


def backend() -> Backend | None:
    """Return what makes TensorFlow's threads malleable in this process.

    ``"overlay"``: our library, in front of the stock wheel's functions. ``"patched"``:
    a TensorFlow built with our patches. None: nothing, because tensorflow was imported
    before tf_malleable.
    """
    return _backend


def require() -> None:
    """Raise NotMalleableError unless the C ABI is available."""
    if _backend is None:
        raise NotMalleableError(_TOO_LATE)
