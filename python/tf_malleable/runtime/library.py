# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Loading of the C ABI, from the overlay or from a patched TensorFlow.

The overlay has to be loaded before TensorFlow, so that the dynamic loader binds
TensorFlow's libraries to the overlay's functions. Hence ``load()`` runs when
tf_malleable is imported, and is too late if a stock TensorFlow is already loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tf_malleable.model import NotMalleableError
from tf_malleable.runtime import _native, elf, environment
from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow

Backend = Literal["overlay", "patched"]

FRAMEWORK: Final = "libtensorflow_framework.so.2"
_TENSORFLOW_LIBRARIES: Final = (FRAMEWORK, "libtensorflow_cc.so.2")
# Function that every framework library built with the patches exports.
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

_BYPASSED: Final = (
    "TensorFlow does not use tf_malleable's thread pools: it was loaded so that it calls its own"
    " functions first (RTLD_DEEPBIND) or linked so (-Bsymbolic-functions), or another library comes"
    " before tf_malleable's; load TensorFlow's own wheel as Python does by default"
)
_OTHER_TENSORFLOW: Final = (
    "install TensorFlow's own wheel (pip install tensorflow-cpu), or build TensorFlow with the"
    " patches of tf_malleable"
)
# Functions that their defining library does not call itself, in TensorFlow's wheels. Each has
# callers in the other library, whose calls the dynamic loader binds.
_CALLED_FROM_OUTSIDE: Final = frozenset(
    (
        "_ZN10tensorflow15OpKernelContextC2EPNS0_6ParamsE",
        "_ZN10tensorflow5ShardEiPN3tsl6thread10ThreadPoolEllSt8functionIFvllEE",
        "_ZN3tsl6thread10ThreadPool18SetStealPartitionsERKSt6vectorISt4pairIjjESaIS4_EE",
        "_ZN3tsl6thread10ThreadPool23ParallelForWithWorkerIdElRKNS1_16SchedulingParamsERKSt8"
        "functionIFvlliEE",
        "_ZN3tsl6thread10ThreadPool23ParallelForWithWorkerIdEllRKSt8functionIFvlliEE",
        "_ZN3tsl6thread10ThreadPool39NumShardsUsedByFixedBlockSizeSchedulingEll",
        "_ZN3tsl6thread10ThreadPoolD2Ev",
    )
)
# The constructor has two names; the compiler chooses which of them a call uses.
_CONSTRUCTORS: Final = tuple(
    f"_ZN3tsl6thread10ThreadPoolC{variant}EPNS_3EnvERKNS_13ThreadOptionsERKNSt7__cxx1112basic_"
    "stringIcSt11char_traitsIcESaIcEEEibPN5Eigen9AllocatorE"
    for variant in (1, 2)
)

_backend: Backend | None = None
# Whether TensorFlow calls its own functions instead of the overlay's; None until it is loaded.
_bypassed: bool | None = None


def load() -> None:
    """Make the C ABI available, unless it already is or a stock TensorFlow was loaded first.

    Raises:
        ImportError: There is no overlay for the installed TensorFlow, or the version of that
            cannot be determined.
        ValueError: One of the project's environment variables is invalid.
    """
    global _backend
    if _backend is not None:
        return
    environment.max_threads()
    threads = environment.first_threads()
    if _native.exports(FRAMEWORK):
        _native.load(FRAMEWORK, in_front=False)
    elif _native.locate(FRAMEWORK) is not None and all(
        _native.locate(str(overlay)) is None for overlay in overlays().values()
    ):
        return
    else:
        _load_for(find_tensorflow())
    _backend = _native.backend()
    if threads is not None:
        _native.set_threads(threads, threads)


def _load_for(found: TensorFlow | None) -> None:
    """Load the C ABI for a TensorFlow that is not loaded yet: its own, or an overlay's."""
    if found is not None and elf.exports(found.directory / FRAMEWORK, _ANY_FUNCTION):
        _native.load(str(found.directory / FRAMEWORK), in_front=False)
        return
    overlay = overlay_for(found, overlays())
    if found is not None:
        _check_fits(overlay, found)
    _native.load(str(overlay), in_front=True)


def overlays() -> dict[str, Path]:
    """Return the installed overlays by TensorFlow's minor version, oldest first.

    A wheel contains several. A build from source contains one, or none if it was built for
    a patched TensorFlow.
    """
    paths = Path(__file__).parent.glob(f"{_OVERLAY}*.so")
    by_minor = {path.stem.removeprefix(_OVERLAY): path for path in paths}
    return dict(sorted(by_minor.items(), key=lambda entry: [*map(int, entry[0].split("."))]))


def overlay_for(found: TensorFlow | None, overlays: Mapping[str, Path]) -> Path:
    """Return the overlay for an installed TensorFlow; the newest if none is installed.

    Patch releases share an overlay. An overlay depends on the layout of a few classes and on
    the functions that it replaces. TensorFlow's patch releases fix bugs: the headers of
    2.19.0 and 2.19.1 differ only in TF_PATCH_VERSION. Before the overlay is loaded, it is
    checked that the functions exist and that the headers are the same.

    Args:
        found: Installed TensorFlow; None if there is none.
        overlays: Available overlays by minor version, oldest first.

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
    remedy = f"pip install 'tensorflow=={last}.*', or, for a newer one, {REBUILD}"
    raise ImportError(
        f"{version} is installed, but this tf_malleable supports {supported};"
        f" {remedy if overlays else REBUILD}"
    )


def _check_fits(overlay: Path, found: TensorFlow) -> None:
    """Raise ImportError if the overlay cannot replace the functions of this TensorFlow."""
    libraries = [found.directory / name for name in _TENSORFLOW_LIBRARIES]
    replaced = sorted(name for name in elf.exported(overlay) if not name.startswith("tfm_"))
    for name in replaced:
        if not any(elf.exports(path, name) for path in libraries):
            raise ImportError(
                f"TensorFlow {found.version} is installed, but exports no function {name}, which"
                f" {overlay.name} replaces; {_OTHER_TENSORFLOW}; or, if it is newer, {REBUILD}"
            )
    for path in libraries:
        direct = elf.calls_directly(path, (n for n in replaced if n not in _CALLED_FROM_OUTSIDE))
        if direct:
            raise ImportError(
                f"TensorFlow {found.version} is installed, but limits would do nothing: {path} was"
                " linked with -Bsymbolic-functions, or optimized at link time, so that its calls"
                f" of {min(direct)} cannot be replaced; {_OTHER_TENSORFLOW}"
            )
    for line in _digests(overlay):
        digest, name = line.split(maxsplit=1)
        header = found.directory / "include" / name
        # Some images have no headers, to save space.
        if header.is_file() and hashlib.sha256(header.read_bytes()).hexdigest() != digest:
            raise ImportError(
                f"TensorFlow {found.version} is installed, but not the build that {overlay.name}"
                f" is for: {header} differs; {REBUILD}"
            )


def _digests(overlay: Path) -> list[str]:
    """Return SHA-256 and path of each header on which an overlay's layout depends.

    The list is empty if the overlay was built by Bazel, which builds for the one TensorFlow
    that is present.
    """
    file = overlay.with_suffix(".sha256")
    return file.read_text().splitlines() if file.is_file() else []


def backend() -> Backend | None:
    """Return the backend that makes TensorFlow's threads malleable in this process.

    ``"overlay"``: the overlay library, in front of the stock wheel's functions.
    ``"patched"``: a TensorFlow built with the project's patches. None: no backend, because
    tensorflow was imported before tf_malleable.
    """
    return _backend


def require() -> None:
    """Raise NotMalleableError unless limits take effect in this process."""
    if _backend is None:
        raise NotMalleableError(_TOO_LATE)
    if _backend == "overlay" and _is_bypassed():
        raise NotMalleableError(_BYPASSED)


def _is_bypassed() -> bool:
    """Return whether TensorFlow is loaded but does not call the overlay."""
    global _bypassed
    if _bypassed is None and (location := _native.locate(FRAMEWORK)) is not None:
        start, path = location
        _bypassed = _calls_itself(start, Path(path))
    return bool(_bypassed)


def _calls_itself(start: int, path: Path) -> bool:
    """Return whether the dynamic loader bound TensorFlow to its own thread pools.

    Args:
        start: Load address of the framework library.
        path: Path of the framework library.
    """
    bindings = [found for symbol in _CONSTRUCTORS if (found := elf.binding(path, symbol))]
    if bindings and not any(found.slots for found in bindings):
        return True
    return any(
        ctypes.c_uint64.from_address(start + slot).value == start + found.own
        for found in bindings
        for slot in found.slots
    )
