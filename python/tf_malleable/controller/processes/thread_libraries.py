# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Libraries with threads of their own in a process, and how these follow its CPUs.

All is concluded from the files that the process has mapped and from its environment, as most
programs have no agent. Pure: what is read of a process is an argument. Of a library it is known
that it is loaded, not that it computes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tf_malleable.model.pool import Follows, ThreadLibrary

# PoolRegistry::kMaxThreadsCeiling in cc/limits.
_CEILING: Final = 1024


class _Row(NamedTuple):
    name: str
    parts: tuple[bytes, ...]  # Of the path of one of its files.
    follows: Follows = "confined only"

    def is_in(self, maps: bytes) -> bool:
        return any(part in maps for part in self.parts)


_HOOK: Final = _Row("the hook", (b"/libtf_malleable_openmp.so",))
_OVERLAY: Final = _Row("the overlay", (b"/libtf_malleable_overlay",))
_TENSORFLOW: Final = _Row("TensorFlow", (b"/libtensorflow_framework.so.2",), "free")
# With the hook, as kClasses in cc/openmp/runtime.cc.
_TEAMS: Final = (
    _Row("PyTorch", (b"/libtorch_cpu.so",), "at op boundaries"),
    _Row("LightGBM", (b"/lib_lightgbm.",), "free"),
    _Row("XGBoost", (b"/libxgboost.so",), "at op boundaries"),
    _Row("llama.cpp", (b"/libggml-cpu",), "free"),
    _Row(
        "scikit-learn's boosting and k-means",
        (b"/_hist_gradient_boosting/", b"/sklearn/_loss/", b"/sklearn/cluster/_k_means_"),
        "shrink only",
    ),
    _Row("scikit-learn", (b"/sklearn/utils/_openmp_helpers.",), "at op boundaries"),
    _Row("numba", (b"/numba/np/ufunc/omppool.",), "shrink only"),
    _Row("MKL", (b"/libmkl_intel_thread.", b"/libmkl_gnu_thread."), "at op boundaries"),
)
_LIBGOMP: Final = _Row("libgomp", (b"/libgomp.", b"/libgomp-"), "at op boundaries")
_LLVM: Final = _Row("LLVM's OpenMP", (b"/libomp.", b"/libomp-", b"/libiomp5."), "at op boundaries")
_OPENBLAS: Final = _Row(
    "OpenBLAS", (b"/libopenblas", b"/libscipy_openblas", b"/openblas-"), "at op boundaries"
)
_BLIS: Final = _Row("BLIS", (b"/libblis",), "at op boundaries")
_PYTHON: Final = re.compile(rb"/(?:lib)?python(?:[23][^/\n]*)?\n")
_LOADER: Final = _Row("the dynamic loader", (b"/ld-", b"/ld64."))
# Whatever is loaded with them. `libjax_common` is that of jaxlib since 0.7.
_UNREACHED: Final = (
    _Row("JAX", (b"/libjax_common.so", b"/xla_extension.so")),
    _Row("onnxruntime", (b"/libonnxruntime.so", b"/onnxruntime_pybind11_state.")),
    _Row("numba without OpenMP", (b"/numba/np/ufunc/workqueue.", b"/numba/np/ufunc/tbbpool.")),
    _Row("oneTBB", (b"/libtbb.so",)),
    _Row("Polars (Rust)", (b"/_polars_runtime.", b"/polars.abi3.so")),
    _Row("tokenizers (Rust)", (b"/tokenizers.abi3.so",)),
)
_STATIC: Final = _Row("a statically linked program", ())
# The first one that is loaded says whether a process is malleable: Keras on PyTorch loads JAX, too.
_FRAMEWORKS: Final = ("TensorFlow", "PyTorch", "JAX", "onnxruntime")

_VARIABLES: Final = frozenset((
    b"TF_MALLEABLE_MAX_THREADS", b"OMP_NUM_THREADS", b"OPENBLAS_NUM_THREADS", b"GOTO_NUM_THREADS",
    b"BLIS_NUM_THREADS", b"OMP_PROC_BIND", b"OMP_PLACES", b"GOMP_CPU_AFFINITY", b"KMP_AFFINITY",
))  # fmt: skip
_KMP_PLACES: Final = re.compile(rb"compact|scatter|balanced|explicit|logical|physical", re.I)


@dataclass(frozen=True)
class InspectedProcess:
    """What can be seen of a process from outside.

    Attributes:
        maps: Its mappings, as in /proc/PID/maps.
        environment: Its variables, each with a zero byte after it.
        threads: Number of its threads.
        has_agent: Whether it has an agent: then its TensorFlow is malleable, however it was built.
    """

    maps: bytes
    environment: bytes = b""
    threads: int = 1
    has_agent: bool = False


def thread_libraries(seen: InspectedProcess, host_cpus: int) -> tuple[ThreadLibrary, ...]:
    """Return the libraries with threads of their own in a process.

    Args:
        seen: What can be seen of the process.
        host_cpus: Number of CPUs of the host.
    """
    said = _variables(seen.environment)
    capacity = _count(said, b"TF_MALLEABLE_MAX_THREADS") or min(host_cpus, _CEILING)
    return tuple(
        ThreadLibrary(row.name, row.follows, capacity, bound)
        if follows
        else ThreadLibrary(row.name, "confined only")
        for row, follows, bound in _loaded(seen, said)
    )


def fixed_framework(libraries: Collection[ThreadLibrary]) -> str | None:
    """Return the framework that a process seems to compute with, if its threads follow no limit."""
    loaded = {each.name: each.follows for each in libraries}
    first = next((name for name in _FRAMEWORKS if name in loaded), None)
    return first if first is not None and loaded[first] == "confined only" else None


def _loaded(
    seen: InspectedProcess, said: Mapping[bytes, bytes]
) -> Iterator[tuple[_Row, bool, int | None]]:
    """Yield what is loaded, whether it follows a limit, and its upper bound."""
    maps = seen.maps
    is_hooked = _HOOK.is_in(maps) and not _is_placed(said, maps)
    bound = _count(said, b"OMP_NUM_THREADS")
    if _TENSORFLOW.is_in(maps):
        yield _TENSORFLOW, seen.has_agent or _OVERLAY.is_in(maps), None
    teams = [row for row in _TEAMS if row.is_in(maps)]
    # What else uses OpenMP cannot be told apart from what has it from another library.
    for row in teams or [row for row in (_LIBGOMP, _LLVM) if row.is_in(maps)]:
        yield row, is_hooked, bound
    has_operations = is_hooked and _PYTHON.search(maps) is not None
    if _OPENBLAS.is_in(maps):
        own = _count(said, b"OPENBLAS_NUM_THREADS") or _count(said, b"GOTO_NUM_THREADS")
        yield _OPENBLAS, has_operations, own or bound
    if _BLIS.is_in(maps):
        own = _count(said, b"BLIS_NUM_THREADS") or bound
        # Without a number it computes in the calling thread.
        yield _BLIS, has_operations and own is not None, own
    for row in _UNREACHED:
        if row.is_in(maps):
            yield row, False, None
    if maps and seen.threads > 1 and not _LOADER.is_in(maps):
        yield _STATIC, False, None


def _is_placed(said: Mapping[bytes, bytes], maps: bytes) -> bool:
    """Return whether the user places threads, as IsPlaced() in cc/openmp/limit.cc."""
    bind = said.get(b"OMP_PROC_BIND", b"")
    if bind and bind.lower() != b"false" and not bind.startswith(b"0"):
        return True
    if said.get(b"OMP_PLACES") or said.get(b"GOMP_CPU_AFFINITY"):
        return True
    by_kmp = _KMP_PLACES.search(said.get(b"KMP_AFFINITY", b"")) is not None
    return by_kmp and _LLVM.is_in(maps) and not _LIBGOMP.is_in(maps)


def _variables(environment: bytes) -> dict[bytes, bytes]:
    """Return the variables that matter here; of two with a name the first, as getenv() does."""
    found: dict[bytes, bytes] = {}
    for each in environment.split(b"\0"):
        name, _, value = each.partition(b"=")
        if name in _VARIABLES:
            found.setdefault(name, value)
    return found


def _count(said: Mapping[bytes, bytes], name: bytes) -> int | None:
    """Return the number from 1 that a variable begins with, as strtol() reads it."""
    found = re.match(rb"\s*\+?0*([0-9]+)", said.get(name, b""))
    if found is None:
        return None
    digits = found.group(1)
    number = _CEILING if len(digits) > 4 else min(int(digits), _CEILING)
    return number or None
